"""A run that begins from another run is the longer chain; one that begins from a checkpoint takes
over its weights, its tokenizer and its special tokens.
"""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import paribus as pb
from paribus.cli import runs
from paribus.errors import RecordError, SpecError
from paribus.interop import load_checkpoint
from paribus.interop.begin import open_begin
from paribus.record import latest_checkpoint, read_rows, read_stages
from paribus.record.disk import file_sha256
from paribus.spec.run import RunSpec, load_run, load_text
from paribus.spec.stages import stage_architectures
from paribus.train.learner import Learner
from paribus.train.parent import begin_checkpoint, with_added_rows
from paribus.workspace import Workspace

hf_models = pytest.importorskip("hf_models")
transformers = pytest.importorskip("transformers")

TRAINING = {
    "n_steps": 6,
    "n_sequences": 2,
    "length": 32,
    "row_every": 2,
    "valid_every": 3,
    "valid_batches": 1,
    "checkpoint_every": 2,
}
SOURCES = [{"kind": "copy", "form": "text", "n_documents": 400}]
FIRST: dict[str, Any] = {
    "architecture": {
        "preset": "gpt2",
        "positions": "rotary",
        "n_layers": 1,
        "d_model": 16,
        "attention": {"n_heads": 2},
    },
    "corpus": {"sources": SOURCES, "tokenizer": {"kind": "bpe", "n_vocab": 270}},
    "training": TRAINING,
}
LATER: dict[str, Any] = {
    "kind": "adapt",
    "architecture": {"mask": "prefix"},
    "corpus": {"sources": SOURCES},
    "objective": "prefix",
    "training": TRAINING,
}
BEGUN: dict[str, Any] = {
    "begin": "gpt2",
    "corpus": {"sources": SOURCES},
    "training": TRAINING,
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a tiny GPT-2 of transformers and its import."""
    folder = tmp_path_factory.mktemp("begin")
    hf_models.write_family("gpt2", folder / "theirs")
    pb.import_(folder / "theirs", out=folder / "gpt2")
    pb.train_run(FIRST, name="first", workspace=space(folder))
    return folder


@pytest.fixture
def here(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(shelf, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def space(folder: Path) -> Workspace:
    return Workspace(folder / "runs", folder / "cache", "cpu")


def load(table: dict[str, Any], here: Path) -> RunSpec:
    return load_run(table, open_begin=partial(open_begin, runs=here / "runs"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    newest = latest_checkpoint(folder / "checkpoints").checkpoint
    assert newest is not None
    return load_file(newest.folder / "weights.safetensors")


def problems(table: dict[str, Any], here: Path) -> str:
    with pytest.raises((SpecError, RecordError)) as caught:
        load(table, here)
    return str(caught.value)


def test_a_run_that_begins_from_a_run_is_the_longer_chain(here: Path) -> None:
    chain = {**FIRST, "stages": [{}, LATER]}
    begun = pb.train_run({"begin": "first", **LATER}, workspace=space(here))
    written = read_stages(begun.folder)
    assert sorted(path.name for path in (here / "runs").iterdir()) == sorted(
        ["first", begun.folder.name]
    )  # the ancestor was not trained again
    assert written[0] == read_stages(here / "runs/first")[0]
    shutil.move(here / "runs", here / "before")
    again = pb.train_run(chain, workspace=space(here))
    assert again.folder.name == begun.folder.name
    for name, tensor in weights(again.folder).items():
        assert tensor.equal(weights(here / "before" / begun.folder.name)[name]), name


def test_a_third_stage_begins_from_the_second_though_the_first_has_another_name(
    here: Path,
) -> None:
    second = pb.train_run({"begin": "first", **LATER}, workspace=space(here))
    third = {"begin": second.folder.name, "training": TRAINING, "corpus": {"sources": SOURCES}}
    outcome = pb.train_run(third, workspace=space(here))
    assert len(list((here / "runs").iterdir())) == 3
    stages = read_stages(outcome.folder)
    assert [stage["kind"] for stage in stages] == ["pretrain", "adapt", "adapt"]
    assert [stage["objective"]["kind"] for stage in stages] == ["causal", "prefix", "prefix"]


def test_the_first_step_has_the_loss_of_the_import_itself(here: Path, monkeypatch: Any) -> None:
    posed: list[Any] = []
    step = Learner.step

    def watched(self: Learner, number: int, problems: Any, *rest: Any) -> Any:
        posed.extend(problems)
        return step(self, number, problems, *rest)

    monkeypatch.setattr(Learner, "step", watched)
    table = {**BEGUN, "training": {**TRAINING, "row_every": 1}}
    outcome = pb.train_run(table, workspace=space(here))
    theirs = transformers.AutoModelForCausalLM.from_pretrained("theirs").double().eval()
    problem = posed[0]
    tokens = problem.inputs.tokens_BT
    with torch.no_grad():
        logits = theirs(tokens).logits[:, :-1].log_softmax(-1)
    wanted = -logits.gather(-1, tokens[:, 1:, None]).mean().item()
    first = read_rows(outcome.folder / "rows.jsonl").rows[0]
    assert first["nats"] == pytest.approx(wanted, rel=1e-5)
    read = torch.cat([one.inputs.tokens_BT for one in posed])
    assert 0 in read  # its own end of text stands between documents
    assert int(read.max()) < theirs.config.vocab_size
    assert read_stages(outcome.folder)[0]["begin"] == {
        "name": "gpt2",
        "weights": file_sha256(here / "gpt2/weights.safetensors"),
        "tokenizer": file_sha256(here / "gpt2/tokenizer.json"),
    }


def test_a_run_that_began_from_an_import_is_measured_said_and_exported(here: Path) -> None:
    outcome = pb.train_run(BEGUN, workspace=space(here))
    loaded = load_checkpoint(outcome.folder)
    assert loaded.vocabulary.own_special_tokens == {"begin": 0, "end": 0, "pad": 0}
    assert loaded.vocabulary.frame is None
    fields = {"kind": "halves", "max_bytes": 30, "n_items": 3}
    assert len(pb.evaluate_run(outcome.folder, fields, workspace=space(here)).answers) == 3
    assert pb.generate_text(outcome.folder, "abc", pb.Sampling(n_tokens=3)) is not None
    pb.export(outcome.folder, "out")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (here / "out" / name).read_bytes() == (here / "theirs" / name).read_bytes()
    model = transformers.AutoModelForCausalLM.from_pretrained("out")
    assert model.config.eos_token_id == 0
    ours = weights(outcome.folder)["embedding.weight"]
    assert torch.equal(model.transformer.wte.weight, ours)
    assert not torch.equal(ours, load_file("gpt2/weights.safetensors")["embedding.weight"])
    second = pb.train_run({**BEGUN, "begin": outcome.folder.name}, workspace=space(here))
    assert "begin" in read_stages(second.folder)[0]
    pb.export(second.folder, "out-again")


def test_a_killed_run_goes_on_to_the_same_end(here: Path, monkeypatch: Any) -> None:
    whole = pb.train_run(BEGUN, workspace=space(here))
    wanted, rows = weights(whole.folder), read_rows(whole.folder / "rows.jsonl").rows
    shutil.rmtree(whole.folder)
    step = Learner.step

    def killed(self: Learner, number: int, *rest: Any) -> Any:
        if number == 3:
            raise KeyboardInterrupt
        return step(self, number, *rest)

    monkeypatch.setattr(Learner, "step", killed)
    with pytest.raises(KeyboardInterrupt):
        pb.train_run(BEGUN, workspace=space(here))
    monkeypatch.setattr(Learner, "step", step)
    again = pb.train_run(BEGUN, workspace=space(here))
    assert again.folder == whole.folder
    for name, tensor in weights(again.folder).items():
        assert tensor.equal(wanted[name]), name
    found = read_rows(again.folder / "rows.jsonl").rows
    assert [row["nats"] for row in found] == [row["nats"] for row in rows]


def test_where_a_checkpoint_lies_is_no_part_of_an_address(here: Path) -> None:
    first = pb.train_run(BEGUN, workspace=space(here))
    shutil.move(here / "gpt2", here / "elsewhere")
    moved = pb.train_run({**BEGUN, "begin": str(here / "elsewhere")}, workspace=space(here))
    assert moved.folder == first.folder
    assert str(here) not in json.dumps(read_stages(first.folder)[0]["begin"])


def change_weights(here: Path) -> None:
    path = here / "gpt2/weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def test_changed_weights_are_refused(here: Path) -> None:
    run = load(BEGUN, here)
    assert run.begin is not None
    pinned = {**BEGUN, "begin": {"name": "gpt2", "weights": run.begin.weights}}
    pb.train_run(pinned, name="mine", workspace=space(here))
    change_weights(here)
    assert f"begin.weights is {run.begin.weights[:12]}…, but the weights of 'gpt2'" in problems(
        pinned, here
    )
    with pytest.raises(RecordError, match=r"begin\.weights .* → "):
        pb.train_run(BEGUN, name="mine", workspace=space(here))


def test_weights_that_change_after_the_plan_are_refused(here: Path) -> None:
    begin = load(BEGUN, here).begin
    assert begin is not None
    assert begin_checkpoint(begin) == Path("gpt2")
    change_weights(here)
    with pytest.raises(
        RecordError, match=r"whose weights had the sha256 .* restore it, or begin a"
    ):
        begin_checkpoint(begin)
    shutil.rmtree(here / "gpt2")
    with pytest.raises(RecordError, match=r"gpt2/weights.safetensors is not there; restore it"):
        begin_checkpoint(begin)


def test_what_left_from_here_and_came_back_has_our_special_tokens(here: Path) -> None:
    architecture = {**FIRST["architecture"], "positions": "learned"}
    pb.train_run({**FIRST, "architecture": architecture}, name="plain", workspace=space(here))
    pb.export(here / "runs/plain", "hf")
    pb.import_("hf", out="again")
    outcome = pb.train_run({**BEGUN, "begin": "again"}, workspace=space(here))
    vocabulary = load_checkpoint(outcome.folder).vocabulary
    ours = load_checkpoint(here / "runs/plain").vocabulary
    assert vocabulary.named_special_tokens == ours.named_special_tokens
    assert vocabulary.size == ours.size
    pb.export(outcome.folder, "hf-again")
    assert Path("hf-again/tokenizer.json").read_bytes() == Path("hf/tokenizer.json").read_bytes()


def test_the_list_of_runs_says_where_a_chain_began(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = pb.train_run(BEGUN, workspace=space(here))
    capsys.readouterr()
    runs.command(here / "runs")
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["run", "begins", "from"]
    (line,) = [line for line in lines if line.startswith(begun.folder.name)]
    assert line.split()[1] == "gpt2"
    runs.command(here / "runs", json=True)
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert listed[begun.folder.name]["begin"]["name"] == "gpt2"
    assert listed["first"]["begin"] is None


def test_tokens_of_roles_are_added_as_rows_where_a_stage_asks(here: Path) -> None:
    talks = {"kind": "reverse", "form": "conversations", "n_documents": 300}
    talks |= {"min_length": 3, "max_length": 6}
    instruct = {"kind": "instruct", "corpus": {"sources": [talks]}, "objective": "seq2seq"}
    table = {
        "begin": "gpt2",
        "corpus": {"sources": SOURCES},
        "training": TRAINING,
        "stages": [{"kind": "adapt"}, instruct],
    }
    run = load(table, here)
    n_before = run.architecture.n_vocab
    n_vocabs = [architecture.n_vocab for architecture in stage_architectures(run)]
    assert n_vocabs == [n_before, n_before + 4]
    alone = load({**BEGUN, "kind": "adapt"}, here)
    assert alone.stages[0] == run.stages[0]  # the ancestor is shared with a chain without roles
    outcome = pb.train_run(table, workspace=space(here))
    assert weights(outcome.folder)["embedding.weight"].shape[0] == n_before + 4
    vocabulary = load_checkpoint(outcome.folder).vocabulary
    assert vocabulary.end_of_turn == n_before + 3
    assert list(vocabulary.role_tokens.values()) == [n_before, n_before + 1, n_before + 2]
    written = read_stages(outcome.folder)[1]["corpus"]["tokenizer"]["special_tokens"]
    assert written["assistant"] == n_before + 2
    pb.export(outcome.folder, "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained("out")
    assert len(tokenizer) == n_before + 4
    turn = [{"role": "user", "content": "abc"}]
    asked = tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)
    assert asked == load_checkpoint(outcome.folder).encode_prompt("abc")
    assert tokenizer("abc‹end of turn›")["input_ids"][-1] == vocabulary.end_of_turn
    assert tokenizer("abc")["input_ids"] == load_checkpoint("gpt2").tokenizer.encode("abc")
    assert (
        transformers.AutoModelForCausalLM.from_pretrained("out").config.vocab_size == n_before + 4
    )


def test_added_rows_are_drawn_by_their_name_and_seed_like_the_others() -> None:
    table = torch.randn(500, 7) * 3 + 2
    longer = with_added_rows(table, 504, 1, "embedding.weight")
    assert torch.equal(longer[:500], table)
    assert longer.shape == (504, 7)
    assert torch.equal(longer, with_added_rows(table, 504, 1, "embedding.weight"))
    assert not torch.equal(longer, with_added_rows(table, 504, 2, "embedding.weight"))
    assert not torch.equal(longer, with_added_rows(table, 504, 1, "head.weight"))
    assert float((longer[500:] - 2).abs().mean()) < 6
    assert torch.equal(with_added_rows(table, 500, 1, "head.weight"), table)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"begin": "nobody"}, "runs/nobody holds no run"),
    ({"begin": 3}, "begin is 3; name a run or the folder of a checkpoint"),
    ({"begin": {"name": "gpt2", "sha": "a"}}, "begin.sha is not a key here"),
    (
        {"architecture": {"n_layers": 7}},
        "architecture.n_layers is 7, but the run begins from 'gpt2', which has 2; leave it out:"
        " only mask, encoder.mask, dropout and max_length can change",
    ),
    ({"architecture": {"preset": "llama"}}, "but the run begins from 'gpt2', which has"),
    (
        {"architecture": {"max_length": 200}},
        "max_length is 200, but learned positions have weights",
    ),
    (
        {"corpus": {"sources": SOURCES, "tokenizer": "bytes"}},
        "corpus.tokenizer is {'kind': 'bytes'}, but a run has one tokenizer, that of 'gpt2'",
    ),
    ({"kind": "pretrain"}, "stages.0.kind is 'pretrain', which only a stage that begins with"),
    (
        {"stages": [{"training": TRAINING}, {"kind": "tune", "begin": "gpt2"}]},
        "stages.1.begin is 'gpt2', but a later stage begins from the stage before it",
    ),
    (
        {"stages": [{"training": TRAINING, "begin": "gpt2"}]},
        "begin and stages.0.begin are both given; write one of them",
    ),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_cannot_begin_so_is_refused(here: Path, change: dict[str, Any], message: str) -> None:
    assert message in problems({**BEGUN, **change}, here)


def test_a_checkpoint_without_a_tokenizer_is_refused(here: Path) -> None:
    (here / "gpt2/tokenizer.json").unlink()
    assert "gpt2 holds no tokenizer.json, so no run can begin from it" in problems(BEGUN, here)


def test_a_run_of_another_folder_is_refused(here: Path) -> None:
    shutil.copytree(here / "runs", here / "others")
    table = {"begin": "others/first", **LATER}
    assert "others/first, which is not in " in problems(table, here)


def test_nothing_can_be_looked_up_without_an_opener() -> None:
    with pytest.raises(SpecError, match="begin is 'gpt2', and what it is cannot be looked up here"):
        load_run(BEGUN)
    with pytest.raises(
        SpecError, match="begin is 'gpt2', whose tokenizer the text is written with"
    ):
        load_text(BEGUN)


def test_a_checkpoint_of_a_run_may_change_its_mask(here: Path) -> None:
    table = {
        "begin": "runs/first/checkpoints/step-000000005",
        "architecture": {"mask": "prefix", "max_length": 40},
        "stages": [{"corpus": {"sources": SOURCES}, "objective": "prefix", "training": TRAINING}],
    }
    run = load(table, here)
    assert str(run.last_architecture.mask) == "prefix"
    assert run.last_architecture.max_length == 40
    assert run.begin is not None
    assert run.begin.name == "first/step-000000005"
    outcome = pb.train_run(table, workspace=space(here))
    assert load_checkpoint(outcome.folder).vocabulary.own_special_tokens is None
