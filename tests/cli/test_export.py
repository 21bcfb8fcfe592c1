"""A run leaves as a Hugging Face folder, tokenizer and all; which of its checkpoints, and when
not.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import paribus as pb
from paribus.corpus.tokenizer import open_tokenizer
from paribus.errors import SpecError
from paribus.record.manifest import write_manifest
from paribus.workspace import Workspace

SPEC = {
    "architecture": {"preset": "gpt2", "n_layers": 1, "d_model": 16, "attention": {"n_heads": 2}},
    "corpus": {
        "sources": [{"kind": "copy", "form": "text", "n_documents": 300}],
        "tokenizer": {"kind": "bpe", "n_vocab": 270},
    },
    "training": {
        "n_steps": 6,
        "n_sequences": 2,
        "length": 32,
        "row_every": 2,
        "valid_every": 2,
        "valid_batches": 1,
        "checkpoint_every": 2,
        "keep_last": 3,
    },
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that holds one, `first`, with checkpoints of steps 1, 3 and 5."""
    folder = tmp_path_factory.mktemp("trained")
    pb.train_run(
        SPEC,
        name="first",
        workspace=Workspace(folder / "runs", cache=folder / "cache", device="cpu"),
    )
    return folder / "runs"


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "runs")
    return tmp_path / "runs"


def scored(runs: Path) -> dict[str, float]:
    places = sorted((runs / "first" / "checkpoints").iterdir())
    return {
        place.name: json.loads((place / "checkpoint.json").read_text())["score"] for place in places
    }


def same_weights(folder: Path, checkpoint: Path) -> bool:
    back = torch.equal(
        AutoModelForCausalLM.from_pretrained(folder).transformer.wte.weight,
        pb.restore(checkpoint).embedding.weight,
    )
    return bool(back)


@pytest.mark.parametrize("given", ["first", "runs/first", "runs/first/checkpoints/step-000000005"])
def test_a_run_is_exported_by_name_by_folder_or_by_checkpoint(
    ask, runs: Path, tmp_path: Path, given: str
) -> None:
    answer = ask("export", given, "hf")
    assert answer.status == 0, answer.err
    newest = runs / "first/checkpoints/step-000000005"
    assert same_weights(tmp_path / "hf", newest)
    assert "tokenizer.json" in answer.out
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    text = "abcabc=naïve"
    assert tokenizer(text)["input_ids"] == open_tokenizer(newest / "tokenizer.json").encode(text)
    assert tokenizer.eos_token_id == 271


def test_what_transformers_says_is_what_we_say(ask, runs: Path, tmp_path: Path) -> None:
    ask("export", "first", "hf")
    model, tokenizer = (
        auto.from_pretrained(tmp_path / "hf") for auto in (AutoModelForCausalLM, AutoTokenizer)
    )
    # in training an end stands before each document
    asked = tokenizer(tokenizer.eos_token + "abc", return_tensors="pt")
    said = model.generate(**asked, max_new_tokens=9, do_sample=False)[
        0, asked["input_ids"].shape[1] :
    ]
    ours = pb.generate_text(runs / "first", "abc", pb.Sampling(n_tokens=9))
    assert tokenizer.decode(said, skip_special_tokens=True) == ours


def test_the_best_is_taken_where_asked(ask, runs: Path, tmp_path: Path) -> None:
    scores = scored(runs)
    assert len(scores) == 3
    assert all(score is not None for score in scores.values())
    path = runs / "first/checkpoints/step-000000003"
    worst = {place.name: 9.0 for place in (runs / "first/checkpoints").iterdir()} | {path.name: 1.0}
    for name, score in worst.items():
        rescored(runs / "first/checkpoints" / name, score)
    assert ask("export", "first", "hf", "--best").status == 0
    assert same_weights(tmp_path / "hf", path)


def rescored(place: Path, score: float | None) -> None:
    """Another score, and a manifest that knows of it."""
    told = json.loads((place / "checkpoint.json").read_text())
    (place / "checkpoint.json").write_text(json.dumps({**told, "score": score}))
    (place / "manifest.json").unlink()
    write_manifest(place)


def test_a_torn_checkpoint_is_passed_over_and_told_of(ask, runs: Path, tmp_path: Path) -> None:
    torn = runs / "first/checkpoints/step-000000005/weights.safetensors"
    torn.write_bytes(torn.read_bytes()[:-8])
    answer = ask("export", "first", "hf")
    assert answer.status == 0
    assert "note: step-000000005 is skipped: " in answer.err
    assert same_weights(tmp_path / "hf", runs / "first/checkpoints/step-000000003")


def test_a_run_elsewhere_is_named_with_its_folder(ask, runs: Path, tmp_path: Path) -> None:
    runs.rename(tmp_path / "elsewhere")
    assert ask("export", "first", "hf", "--runs", "elsewhere").status == 0


def test_a_name_that_something_else_here_has_too_is_still_that_of_a_run(
    ask, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "first").mkdir()
    assert ask("export", "first", "hf").status == 0


BAD = [
    (("nobody",), 1, "runs/nobody holds no run; `paribus runs` lists the runs"),
    (
        ("no/where",),
        1,
        "no/where is neither a checkpoint nor a run; give one of them, or the name of a run in"
        " runs",
    ),
    (
        (".",),
        1,
        ". is neither a checkpoint nor a run; give one of them, or the name of a run in runs",
    ),
    (("../x y",), 1, "../x y is neither a checkpoint nor a run"),
    (
        ("runs/first/checkpoints/step-000000005", "--best"),
        2,
        "--best chooses among the checkpoints of a run, but",
    ),
    (("first", "--dtype", "int8"), 2, "--dtype is 'int8'; use float32, bfloat16, float16"),
]


@pytest.mark.parametrize(("words", "status", "complaint"), BAD)
def test_what_is_not_there_is_refused(
    ask, runs: Path, tmp_path: Path, words: tuple[str, ...], status: int, complaint: str
) -> None:
    answer = ask("export", words[0], "hf", *words[1:])
    assert answer.status == status
    assert answer.err.startswith(f"error: {complaint}")
    assert not (tmp_path / "hf").exists()


def test_a_run_without_a_whole_checkpoint_is_told_so(ask, runs: Path) -> None:
    for place in (runs / "first/checkpoints").iterdir():
        rescored(place, None)
    assert (
        ask("export", "first", "hf", "--best").err
        == "error: runs/first has no complete checkpoint with a score; leave out --best\n"
    )
    shutil.rmtree(runs / "first/checkpoints")
    (runs / "first/checkpoints").mkdir()
    anew = "train it further, or if it has finished, remove its folder and make it again"
    for words in (("export", "first", "hf"), ("generate", "first", "abc")):
        assert ask(*words).err == f"error: runs/first has no complete checkpoint; {anew}\n"


def test_a_text_too_long_for_the_model_is_cut_and_told(ask, runs: Path) -> None:
    told = ask("generate", "first", "xyz" * 40 + "abc", "--tokens", "40")
    assert (
        told.err
        == "note: TEXT has 123 tokens, of which only the last 16 are read: the length of the"
        " model is 32\n"
    )
    assert told.out == ask("generate", "first", ("xyz" * 40 + "abc")[-16:], "--tokens", "17").out
    assert ask("generate", "first", "xyz" * 7, "--tokens", "12").err == ""


def test_a_run_that_was_never_asked_to_go_on_says_so(ask, runs: Path) -> None:
    changed = {"objective": "masked", "architecture": SPEC["architecture"] | {"mask": "causal"}}
    pb.train_run(
        SPEC | changed,
        name="masked",
        workspace=Workspace(runs, cache=runs.parent / "cache", device="cpu"),
    )
    said = (
        "note: it was trained with 'masked' and never predicted the next token: its output"
        " means little\n"
    )
    assert ask("generate", "masked", "abc").err.endswith(said)


def test_a_checkpoint_speaks_wherever_it_lies(ask, runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "first/checkpoints/step-000000005", tmp_path / "kept/sub/checkpoint")
    (tmp_path / "kept/spec.json").write_text("{}")  # of something else
    told = ask("generate", "kept/sub/checkpoint", "abc", "--tokens", "5")
    assert (told.out, told.err) == (ask("generate", "first", "abc", "--tokens", "5").out, "")


def test_a_run_speaks_by_name_or_by_folder(ask, runs: Path) -> None:
    said = ask("generate", "first", "abc", "--tokens", "5").out
    assert said == ask("generate", "runs/first", "abc", "--tokens", "5").out
    assert said == pb.generate_text("first", "abc", pb.Sampling(n_tokens=5), runs=runs) + "\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("",), "TEXT is empty; give a text to continue"),
        (("a", "--temperature", "inf"), "temperature is inf; use 0 or more"),
        (("a", "--temperature", "nan"), "Invalid value for '--temperature'"),
        (("a", "--temperature", "-1"), "Invalid value for '--temperature'"),
        (("a", "--tokens", "0"), "Invalid value for '--tokens'"),
        (("a", "--seed", "-1"), "Invalid value for '--seed'"),
    ],
)
def test_what_cannot_be_gone_on_from_is_refused(
    ask, runs: Path, words: tuple[str, ...], complaint: str
) -> None:
    answer = ask("generate", "first", *words)
    assert answer.status == 2
    assert complaint in answer.err


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"temperature": float("nan")}, "temperature is nan; use 0 or more, and below infinity"),
        ({"temperature": -1.0}, r"temperature is -1\.0; use 0 or more, and below infinity"),
        ({"n_tokens": 0}, "n_tokens is 0; use a whole number from 1 up"),
        ({"seed": -1}, "seed is -1; use a whole number from 0 up"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_a_run_is_looked_for(
    given: dict[str, float], complaint: str
) -> None:
    with pytest.raises(SpecError, match=complaint):
        pb.generate_text("nobody", "a", pb.Sampling(**given))  # pyright: ignore[reportArgumentType]
