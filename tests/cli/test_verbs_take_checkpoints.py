"""A run, a checkpoint and an imported folder are the same kind of thing to every verb, by name
or by path.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import paribus as pb
from paribus.errors import RecordError, SpecError, UnsupportedError
from paribus.evaluate import Item, select_items
from paribus.interop import load_checkpoint
from paribus.runtime import torch_generator
from paribus.spec.yardstick import load_yardstick
from paribus.workspace import Workspace

transformers = pytest.importorskip("transformers")

ARCHITECTURE = {"preset": "gpt2", "n_layers": 1, "d_model": 16, "attention": {"n_heads": 2}}
CORPUS = {
    "sources": [{"kind": "copy", "form": "text", "n_documents": 400}],
    "tokenizer": {"kind": "bpe", "n_vocab": 270},
}
TRAINING = {
    "n_steps": 4,
    "n_sequences": 2,
    "length": 32,
    "row_every": 2,
    "valid_every": 2,
    "valid_batches": 1,
    "checkpoint_every": 2,
    "keep_last": 2,
}
SPEC = {"architecture": ARCHITECTURE, "corpus": CORPUS, "training": TRAINING}
TEXT, YARDSTICK = "abcabc", ("--set", "max_bytes=20", "--items", "3", "--device", "cpu")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, the same run out and in again, and an imported model that was never
    ours.
    """
    folder = tmp_path_factory.mktemp("shelf")
    pb.train_run(
        SPEC,
        name="first",
        workspace=Workspace(folder / "runs", cache=folder / "cache", device="cpu"),
    )
    pb.export(folder / "runs/first", folder / "hf")
    pb.import_(folder / "hf", out=folder / "again")
    pb.import_(folder / "hf", out=folder / "runs/shelved")
    foreign(
        folder / "theirs",
        "GPT2Config",
        {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 40},
    )
    pb.import_(folder / "theirs", out=folder / "foreign")
    (folder / "text.json").write_text(json.dumps({"corpus": CORPUS}))
    return folder


@pytest.fixture
def here(shelf: Path, tmp_path: Path) -> Path:
    shutil.copytree(shelf, tmp_path, dirs_exist_ok=True)
    return tmp_path


def foreign(folder: Path, config: str, sizes: dict[str, Any], template: str = "$A") -> Any:
    """A tiny model of transformers with a tokenizer of its own, whose end of text is one of its
    ids.
    """
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        special_tokens=["<|endoftext|>", "<s>"],
    )
    library.train_from_iterator(["abc abd the other words " * 9], trainer)
    library.post_processor = processors.TemplateProcessing(
        template, special_tokens=[("<s>", 1), ("<|endoftext|>", 0)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=library, eos_token="<|endoftext|>"
    )
    made = getattr(transformers, config)(
        vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0, pad_token_id=None, **sizes
    )
    encodes = "d_kv" in sizes
    auto = transformers.AutoModelForSeq2SeqLM if encodes else transformers.AutoModelForCausalLM
    model = auto.from_config(made).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=torch_generator(1, name))
            parameter.copy_(1 + 0.1 * drawn if "ln_" in name or "norm" in name else 0.5 * drawn)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


NAMED = [
    "first",
    "runs/first",
    "runs/first/checkpoints/step-000000003",
    "again",
    "runs/shelved",
    "shelved",
    "./again",
]


@pytest.mark.parametrize("named", NAMED)
def test_every_verb_takes_it_with_the_same_answer(ask, here: Path, named: str) -> None:
    said = pb.generate_text("first", TEXT, pb.Sampling(n_tokens=7))
    assert pb.generate_text(named, TEXT, pb.Sampling(n_tokens=7)) == said
    assert ask("generate", named, TEXT, "--tokens", "7").out == said + "\n"
    wanted = pb.restore("runs/first/checkpoints/step-000000003").embedding.weight
    assert torch.equal(pb.restore(named).embedding.weight, wanted)
    trained_here = "first" in named
    corpus = () if trained_here else ("--corpus", "text.json")
    words = (*YARDSTICK, "--cache", "cache", "--json")
    told = ask("evaluate", named, *corpus, *words)
    assert told.status == 0, told.err
    exact = json.loads(ask("evaluate", "first", *words).out)
    assert json.loads(told.out)["nats_sum"] == pytest.approx(exact["nats_sum"], rel=1e-6)
    out = ask("export", named, "out")
    assert out.status == 0, out.err
    pb.export(named, "again-out")
    for folder in ("out", "again-out"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        assert (
            tokenizer(TEXT)["input_ids"]
            == transformers.AutoTokenizer.from_pretrained("hf")(TEXT)["input_ids"]
        )
        assert tokenizer.eos_token_id == 271
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        assert torch.equal(model.transformer.wte.weight, wanted)
        assert model.config.eos_token_id == 271


def test_an_imported_model_says_what_transformers_says(ask, here: Path) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained("theirs")
    tokenizer = transformers.AutoTokenizer.from_pretrained("theirs")
    asked = tokenizer(tokenizer.eos_token + "the other", return_tensors="pt")
    assert asked["input_ids"][0, 0] == 0
    said = model.generate(**asked, max_new_tokens=12, do_sample=False, pad_token_id=0)[
        0, asked["input_ids"].shape[1] :
    ]
    told = ask("generate", "foreign", "the other", "--tokens", "12")
    assert told.status == 0, told.err
    assert told.out == tokenizer.decode(said, skip_special_tokens=True) + "\n"


def test_an_encoder_decoder_is_given_its_own_special_tokens(ask, here: Path) -> None:
    sizes = {
        "d_model": 16,
        "d_kv": 4,
        "num_heads": 2,
        "d_ff": 23,
        "num_layers": 1,
        "decoder_start_token_id": 1,
    }
    model = foreign(here / "t5", "T5Config", sizes, "$A <|endoftext|>")
    pb.import_("t5", out="t5-ours")
    tokenizer = transformers.AutoTokenizer.from_pretrained("t5")
    asked = tokenizer("the other", return_tensors="pt")
    assert asked["input_ids"][0, -1] == 0
    said = model.generate(
        input_ids=asked["input_ids"], max_new_tokens=9, do_sample=False, pad_token_id=0
    )[0, 1:]
    assert pb.generate_text("t5-ours", "the other", pb.Sampling(n_tokens=9)) == tokenizer.decode(
        said, skip_special_tokens=True
    )
    # its tokenizer has no sentinels, so it is not asked for hidden spans
    assert load_checkpoint("t5-ours").objective().kind == "seq2seq"
    words = ("--corpus", "text.json", "--yardstick", "halves", *YARDSTICK, "--cache", "cache")
    assert ask("evaluate", "t5-ours", *words).status == 0
    (here / "t5-ours/objective.json").unlink()  # as it was before imports recorded one
    told = ask("evaluate", "t5-ours", *words)
    assert told.status == 1
    assert (
        "t5-ours was not trained here, and neither a config nor a spec says what an encoder or"
        in told.err
    )
    assert "import it again, which records it, with --objective KIND" in told.err


def test_an_imported_decoder_is_measured_as_transformers_would(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    made = pb.evaluate_run(
        "foreign",
        {"max_bytes": 20, "n_items": 5},
        corpus="text.json",
        workspace=Workspace(cache="cache", device="cpu"),
    )
    assert made.head.component["objective"]["kind"] == "causal"
    model = transformers.AutoModelForCausalLM.from_pretrained("theirs").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("theirs")
    exact = [nats(model, tokenizer, item) for item in asked_items(here)]
    assert [answer.nats for answer in made.answers] == pytest.approx(exact, rel=1e-4)
    again = pb.evaluate_run(
        "foreign",
        {"max_bytes": 20, "n_items": 5},
        corpus="text.json",
        workspace=Workspace(cache="cache", device="cpu"),
    )
    assert again == made
    assert len(list((here / "foreign/evaluations").iterdir())) == 1


def asked_items(here: Path) -> tuple[Item, ...]:
    built = pb.build_corpus({"corpus": CORPUS}, cache=here / "cache")
    return select_items(built, load_yardstick("halves", {"max_bytes": 20, "n_items": 5}))


@torch.no_grad()
def nats(model: Any, tokenizer: Any, item: Item) -> float:
    """Of a target after the end of the text before it and its context."""
    context, target = (tokenizer(text)["input_ids"] for text in (item.context, item.target))
    tokens = torch.tensor([[0, *context, *target]])
    losses = -model(tokens).logits.log_softmax(-1)[0, :-1].gather(-1, tokens[0, 1:, None])[:, 0]
    return float(losses[-len(target) :].sum())


def test_an_imported_tokenizer_goes_out_as_it_came(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    pb.export("foreign", "out")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (here / "out" / name).read_bytes() == (here / "theirs" / name).read_bytes()
    assert json.loads((here / "out/config.json").read_text())["eos_token_id"] == 0


def test_an_earlier_checkpoint_is_measured_and_the_runs_answers_stay(ask, here: Path) -> None:
    words = (*YARDSTICK, "--cache", "cache", "--json")
    newest = json.loads(ask("evaluate", "first", *words).out)
    (path,) = (here / "runs/first/evaluations").iterdir()
    before = path.read_bytes()
    told = json.loads(ask("evaluate", "runs/first/checkpoints/step-000000001", *words).out)
    assert (told["step"], newest["step"]) == (1, 3)
    assert told["nats_sum"] != newest["nats_sum"]
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def native(here: Path, name: str, n_vocab: int) -> None:
    spec = pb.load("gpt2", n_layers=1, d_model=16, n_heads=2, n_vocab=n_vocab, max_length=32)
    pb.save(pb.build(spec, seed=1), here / name)


def test_a_checkpoint_without_a_tokenizer_is_given_one(ask, here: Path) -> None:
    native(here, "bare", 270 + 107)
    lacks = (
        "error: bare holds no tokenizer.json, so text cannot be read; put the one it was trained"
        " with there, or name"
    )
    for words in (
        ("generate", "bare", TEXT),
        ("evaluate", "bare", "--corpus", "text.json", *YARDSTICK),
    ):
        told = ask(*words, "--cache", "cache") if words[0] == "evaluate" else ask(*words)
        assert told.status == 1
        assert told.err.splitlines()[-1].startswith(lacks)
    tokenizer = "runs/first/checkpoints/step-000000003/tokenizer.json"
    assert ask("generate", "bare", TEXT, "--tokenizer", tokenizer).status == 0
    told = ask(
        "evaluate",
        "bare",
        "--corpus",
        "text.json",
        *YARDSTICK,
        "--cache",
        "cache",
        "--tokenizer",
        tokenizer,
    )
    assert told.status == 0, told.err
    assert ask("export", "bare", "without").status == 0
    assert not (here / "without/tokenizer.json").exists()
    assert ask("export", "bare", "with", "--tokenizer", tokenizer).status == 0
    assert transformers.AutoTokenizer.from_pretrained("with").eos_token_id == 271
    assert torch.equal(
        pb.restore("bare").embedding.weight, pb.restore(here / "bare").embedding.weight
    )


def test_a_tokenizer_that_does_not_fit_is_refused(ask, here: Path) -> None:
    native(here, "bare", 300)
    told = ask("generate", "bare", TEXT, "--tokenizer", "theirs/tokenizer.json")
    assert told.status == 1
    assert "bare has n_vocab 300, but its tokenizer needs" in told.err
    assert "of which 107 are our special tokens; use the tokenizer it was trained with" in told.err
    told = ask("generate", "first", TEXT, "--tokenizer", "theirs/tokenizer.json")
    assert (
        "--tokenizer is theirs/tokenizer.json, but runs/first/checkpoints/step-000000003 has a"
        " tokenizer" in told.err
    )


def test_a_special_token_that_an_imported_model_lacks_is_named(ask, here: Path) -> None:
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 40}
    foreign(here / "mute", "GPT2Config", sizes)
    for name, key in (("config.json", "eos_token_id"), ("tokenizer_config.json", "eos_token")):
        path = here / "mute" / name
        table = json.loads(path.read_text()) | {key: None, key.replace("eos", "bos"): None}
        path.write_text(json.dumps(table))
    pb.import_("mute", out="mute-ours")
    told = ask("generate", "mute-ours", TEXT)
    assert told.status == 1
    assert told.err.endswith(
        "error: the model was imported, and its tokenizer has no special token 'end' (it has none);"
        " use a model that was trained here\n"
    )


def test_what_has_its_own_text_or_lacks_one_is_told(ask, here: Path) -> None:
    told = ask("evaluate", "foreign", *YARDSTICK)
    assert told.status == 2
    assert (
        told.err == "error: foreign was not trained here, so it has no held-out text; "
        "name one with --corpus SPEC, a file that `paribus corpus` takes\n"
    )
    told = ask("evaluate", "first", "--corpus", "text.json")
    assert told.status == 2
    assert (
        "--corpus is given, but runs/first has the text it was trained on; leave it out" in told.err
    )


NOT_THERE = {
    "nobody": "runs/nobody holds no run; `paribus runs` lists the runs",
    "no/where": (
        "no/where is neither a checkpoint nor a run; give one of them, or the name of a run in runs"
    ),
    "hf": (
        "hf is a Hugging Face folder, not a checkpoint or a run; `paribus import hf OUT`"
        " converts it"
    ),
    "text.json": (
        "text.json is a file, not a checkpoint or a run; give a folder, or the name of a run in"
        " runs"
    ),
    "onlyconfig": "onlyconfig is a Hugging Face folder, not a checkpoint or a run",
    "onlyspec": "onlyspec/weights.safetensors does not exist; give a folder that holds it",
    "study": "study is a study in runs/studies; name one of its runs, which `paribus runs` lists",
    "runs/first/checkpoints": (
        "runs/first/checkpoints holds the checkpoints of a run; name one of them, such as"
        " runs/first/checkpoints/step-"
    ),
    "begun": "runs/begun has no complete checkpoint; train it further",
}


@pytest.mark.parametrize("named", NOT_THERE)
def test_what_is_neither_is_refused_by_every_verb(ask, here: Path, named: str) -> None:
    for folder, name in (
        ("onlyconfig", "config.json"),
        ("onlyspec", "spec.json"),
        ("runs/studies/study", "plan.json"),
    ):
        (here / folder).mkdir(parents=True)
        (here / folder / name).write_text("{}")
    shutil.copytree(here / "runs/first", here / "runs/begun")
    shutil.rmtree(here / "runs/begun/checkpoints")
    for words in (("generate", named, TEXT), ("evaluate", named), ("export", named, "out")):
        told = ask(*words)
        assert told.status == 1
        assert told.err.startswith(f"error: {NOT_THERE[named]}")
    for act in (pb.restore, load_checkpoint, lambda name: pb.export(name, "out")):
        with pytest.raises(RecordError, match=NOT_THERE[named][:30]):
            act(named)
    assert not (here / "out").exists()


def test_a_damaged_spec_is_refused_by_every_verb(ask, here: Path) -> None:
    (here / "again/spec.json").write_text('{"n_layers": -1}')
    for words in (("generate", "again", TEXT), ("evaluate", "again"), ("export", "again", "out")):
        told = ask(*words)
        assert told.status == 1
        assert told.err.startswith("error: again/spec.json is not an architecture: ")


def test_a_skipped_checkpoint_is_warned_of(ask, here: Path) -> None:
    torn = here / "runs/first/checkpoints/step-000000003/weights.safetensors"
    torn.write_bytes(torn.read_bytes()[:-8])
    with pytest.warns(UserWarning, match="step-000000003 is skipped: "):
        model = pb.restore("first")
    assert torch.equal(
        model.embedding.weight, pb.restore("runs/first/checkpoints/step-000000001").embedding.weight
    )
    with pytest.warns(UserWarning, match="step-000000003 is skipped: "):
        pb.export("first", "out")


def test_what_a_named_checkpoint_has_is_not_given_twice(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    with pytest.raises(
        SpecError,
        match="extra_config or tokenizer is given beside first, which has its own; leave them out",
    ):
        pb.export("first", "out", extra_config={})


def test_a_tokenizer_that_cannot_be_read_stops_the_import(ask, here: Path) -> None:
    (here / "theirs/tokenizer.json").write_text("{}")
    told = ask("import", "theirs", "out")
    assert told.status == 1
    assert "theirs/tokenizer.json cannot be read as a tokenizer: " in told.err
    assert not (here / "out").exists()


def test_an_encoder_is_not_asked_for_a_likelihood(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    spec = pb.load("bert", n_layers=1, d_model=16, n_heads=2, n_vocab=400, max_length=32)
    pb.save(pb.build(spec), "filler")
    with pytest.raises(
        UnsupportedError, match="filler was not trained here, and neither a config nor a spec says"
    ):
        pb.evaluate_run("filler", corpus="text.json", workspace=Workspace(cache="cache"))


def test_a_loaded_checkpoint_holds_model_tokenizer_vocabulary_and_stage(here: Path):
    loaded = load_checkpoint(here / "runs/first")
    assert loaded.tokenizer is loaded.tokenizer  # read once
    assert loaded.vocabulary is loaded.vocabulary
    assert loaded.vocabulary.size == loaded.restore().spec.n_vocab
    assert loaded.encode_text(TEXT) == loaded.tokenizer.encode(TEXT)
    assert loaded.stage is not None
    assert loaded.stage.training.n_steps == TRAINING["n_steps"]
