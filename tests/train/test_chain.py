"""A chain of stages: each begins with the last weights of the one before, in a folder of its
own, and what runs share is trained once.
"""

import json
from pathlib import Path

import pytest
from chain_run import chain_spec, chain_texts
from safetensors.torch import load_file

from paribus.errors import DivergedError, RecordError, SpecError
from paribus.record import latest_checkpoint, run_name
from paribus.spec.run import RunSpec, addressed_stages
from paribus.train.chain import train_chain
from paribus.train.learner import Learner
from paribus.train.loop import train
from paribus.train.parent import Texts, name_of_run, with_own_draws
from paribus.workspace import Workspace


@pytest.fixture(scope="session")
def run() -> RunSpec:
    return chain_spec()


@pytest.fixture(scope="session")
def chain(run: RunSpec, texts: Path) -> Texts:
    return chain_texts(run, texts)


@pytest.fixture(scope="session")
def trained(
    run: RunSpec, chain: Texts, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Path]]:
    """The folder of runs, and those of the three stages."""
    root = tmp_path_factory.mktemp("chain")
    outcome = train_chain(run, chain, Workspace(root, device="cpu"))
    folders = []
    for n_stages in (1, 2, 3):
        own = run.first_stages(n_stages)
        folders.append(root / name_of_run(own, chain[:n_stages]))
    assert outcome.folder == folders[-1]
    return root, folders


def weights(folder: Path) -> dict[str, object]:
    newest = latest_checkpoint(folder / "checkpoints").checkpoint
    assert newest is not None
    return dict(load_file(newest.folder / "weights.safetensors"))


def test_every_stage_has_a_folder_named_after_the_chain_up_to_it(run, chain, trained):
    root, folders = trained
    assert sorted(path.name for path in root.iterdir()) == sorted(own.name for own in folders)
    stages = addressed_stages(run, [text.fingerprint for text in chain])
    assert [run_name(stages[:n]) for n in (1, 2, 3)] == [own.name for own in folders]
    for n_stages, folder in enumerate(folders, 1):
        written = json.loads((folder / "spec.json").read_text())["stages"]
        assert written == json.loads(json.dumps(stages[:n_stages]))


def test_a_stage_begins_with_the_last_weights_of_the_one_before(run, chain, trained, monkeypatch):
    """Seen at its first step, by the very model that learns."""
    root, folders = trained
    before = weights(folders[1])
    starts = []
    step = Learner.step

    def watched(self: Learner, number: int, *rest: object) -> object:
        if number == 0:
            starts.append({name: own.clone() for name, own in self.model.state_dict().items()})
        return step(self, number, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Learner, "step", watched)
    train(run, chain, Workspace(root, device="cpu"), name="again")
    (start,) = starts
    assert start.keys() == before.keys()
    for name, tensor in start.items():
        assert tensor.equal(before[name]), name


def test_the_optimizer_and_the_schedule_start_anew(trained):
    _, folders = trained
    rows = [json.loads(line) for line in (folders[1] / "rows.jsonl").read_text().splitlines()]
    first = json.loads((folders[0] / "rows.jsonl").read_text().splitlines()[0])
    assert rows[0]["step"] == first["step"]
    assert rows[0]["rate"] == first["rate"]
    newest = latest_checkpoint(folders[2] / "checkpoints").checkpoint
    assert newest is not None
    learning = load_file(newest.folder / "learning.safetensors")
    steps = {int(own) for name, own in learning.items() if name.startswith("step.")}
    assert steps == {12}


def test_all_stages_have_the_tokenizer_of_the_first(chain, trained):
    _, folders = trained
    assert len({text.tokenizer.json for text in chain}) == 1
    for folder in folders:
        newest = latest_checkpoint(folder / "checkpoints").checkpoint
        assert newest is not None
        assert (newest.folder / "tokenizer.json").read_text() == chain[0].tokenizer.json


def test_a_finished_chain_is_left_as_it_is(run, chain, trained):
    root, _ = trained
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    outcome = train_chain(run, chain, Workspace(root, device="cpu"))
    assert outcome.notes == ("it was finished before; nothing was done",)
    after = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    changed = {path.name for path in before if before[path] != after[path]}
    assert changed <= {"lock"}


def test_runs_that_share_their_first_stages_train_them_once(run, chain, trained, texts):
    root, folders = trained
    before = {path.name for path in root.iterdir()}
    other = chain_spec({"stages.2.training.optimizer.rate": 0.002})
    outcome = train_chain(other, chain, Workspace(root, device="cpu"))
    assert {path.name for path in root.iterdir()} == before | {outcome.folder.name}
    assert outcome.folder not in folders


def test_a_later_stage_draws_other_numbers_under_the_same_seeds(run):
    first = with_own_draws(run.stages[0], 0).training
    second = with_own_draws(run.stages[0], 1).training
    third = with_own_draws(run.stages[0], 2).training
    assert (first.seed, first.data_seed) == (1, 1)
    assert len({own.seed for own in (first, second, third)}) == 3
    assert len({own.data_seed for own in (first, second, third)}) == 3
    assert first.n_steps == second.n_steps


def test_a_stage_that_cannot_be_trained_is_refused_before_the_first_is(chain, tmp_path):
    short = chain_spec({"stages.2.architecture.max_length": 8})
    with pytest.raises(SpecError, match="past max_length 8"):
        train_chain(short, chain, Workspace(tmp_path, device="cpu"))
    assert not list(tmp_path.iterdir())


def test_a_stage_whose_parent_is_not_there_is_refused(run, chain, tmp_path):
    with pytest.raises(RecordError, match="the stage before, and it is not finished"):
        train(run, chain, Workspace(tmp_path, device="cpu"))


def test_a_stage_after_one_that_diverged_diverges_with_it(chain, tmp_path):
    wild = chain_spec({"stages.1.training.optimizer.rate": 1e30})
    with pytest.raises(DivergedError, match="the stage before"):
        train_chain(wild, chain, Workspace(tmp_path, device="cpu"))
    states = sorted((path / "state").read_text().split(":")[0] for path in tmp_path.iterdir())
    assert [own.strip() for own in states] == ["failed", "failed", "finished"]
    last = tmp_path / name_of_run(wild, chain) / "state"
    assert last.read_text().startswith("failed: DivergedError")


def test_a_stage_under_another_environment_than_its_parent_is_refused(run, chain, trained):
    root, folders = trained
    path = folders[1] / "environment.json"
    text = path.read_text()
    path.write_text(text.replace('"n_threads": ', '"n_threads": 1'))
    other = chain_spec({"stages.2.training.n_steps": 5})
    try:
        with pytest.raises(RecordError, match="made under another environment: n_threads"):
            train(other, chain, Workspace(root, device="cpu"))
    finally:
        path.write_text(text)
