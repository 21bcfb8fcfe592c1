"""A stage that prefers between responses: it begins with its parent, learns, and resumes; own
responses are drawn once, and the same again.
"""

import json
from functools import partial
from pathlib import Path

import pytest
from conversation_run import LANGUAGE, preference_run, preference_table
from safetensors.torch import load_file
from small_corpus import write_jsonl

from paribus.cli.generate import generate_text
from paribus.corpus import language_answer, prepare_corpus
from paribus.corpus.own_pairs import parse_own_pairs, reward_of
from paribus.design.step_cost import measure_step_costs
from paribus.errors import RecordError, SpecError
from paribus.generate import Sampling, draw_own_pairs
from paribus.record import latest_checkpoint
from paribus.record.file_names import OWN_PAIRS_FILE
from paribus.record.rows import CLOCK_FIELDS
from paribus.spec import ReverseLanguage
from paribus.spec.run import RunSpec, load_run
from paribus.train.chain import prepare_texts, train_chain
from paribus.train.loop import train
from paribus.train.parent import Texts, name_of_run
from paribus.watcher import Watcher
from paribus.workspace import Workspace


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def texts_of(run: RunSpec, cache: Path) -> Texts:
    return prepare_texts(run, partial(prepare_corpus, cache=cache, show_progress=False))


def rows_of(folder: Path) -> list[dict[str, object]]:
    rows = []
    for line in (folder / "rows.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows.append({name: value for name, value in row.items() if name not in CLOCK_FIELDS})
    return rows


def newest_file(folder: Path, name: str) -> dict[str, object]:
    newest = latest_checkpoint(folder / "checkpoints").checkpoint
    assert newest is not None
    tensors = load_file(newest.folder / name)
    return {key: own for key, own in tensors.items() if key != "pending.counters"}


def require_same_tensors(one: dict[str, object], other: dict[str, object]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.equal(other[name]), name


class _Interrupted(Exception):
    pass


class _Stops(Watcher):
    """Stops a run after a step, as if its process had died."""

    def __init__(self, last: int):
        self.last = last

    def step(self, step: int) -> None:
        if step == self.last:
            raise _Interrupted


@pytest.mark.parametrize("own_samples", [False, True], ids=["file", "own samples"])
@pytest.mark.parametrize("name", ["causal", "encoder-decoder"])
def test_a_stage_that_is_stopped_and_resumed_ends_the_same(tmp_path, cache, name, own_samples):
    run = preference_run(name, own_samples)
    texts = texts_of(run, cache)
    workspace = Workspace(tmp_path, device="cpu")
    whole = train_chain(run, texts, workspace, name="whole", draw_pairs=draw_own_pairs).folder
    parent = tmp_path / name_of_run(run.first_stages(2), texts[:2])
    before = newest_file(parent, "weights.safetensors")
    own = {"name": "torn", "draw_pairs": draw_own_pairs}
    for last in (0, 4):
        with pytest.raises(_Interrupted):
            train(run, texts, workspace, watcher=_Stops(last), **own)
    outcome = train(run, texts, workspace, **own)
    assert any("resumes at step 4 of 6" in note for note in outcome.notes)
    assert rows_of(outcome.folder) == rows_of(whole)
    for file in ("weights.safetensors", "learning.safetensors"):
        require_same_tensors(newest_file(outcome.folder, file), newest_file(whole, file))
    require_same_tensors(before, newest_file(parent, "weights.safetensors"))
    if own_samples:
        contents = [(folder / OWN_PAIRS_FILE).read_bytes() for folder in (whole, outcome.folder)]
        assert contents[0] == contents[1]


def test_rows_say_how_far_preferences_are_learnt(tmp_path, cache):
    lines = []
    for number in range(80):
        lines.append({"prompt": f"is it {number}?", "chosen": "yes", "rejected": "no"})
    path = write_jsonl(tmp_path / "given.jsonl", lines)
    table = preference_table()
    table["stages"]["2"]["corpus"] = {"sources": [{"kind": "preferences", "paths": str(path)}]}
    run = load_run(table, {"stages.2.training.n_steps": 60})
    texts = texts_of(run, cache)
    rows = rows_of(train_chain(run, texts, Workspace(tmp_path, device="cpu")).folder)
    first, last = rows[0], rows[-1]
    assert first["nats"] == pytest.approx(0.693, abs=0.05)
    assert last["nats"] < 0.5
    assert last["valid_nats"] < 0.5
    assert last["preferred"] == 1
    assert last["reward_margin"] > first["reward_margin"]
    assert last["kl"] > first["kl"] >= 0
    costs = measure_step_costs(run, texts)
    assert last["dense_flops"] == pytest.approx(60 * costs[2].training_flops, rel=0.01)
    # a row is two responses, each learnt and read once more by the parent: 2 · (3 + 1) / 3
    assert costs[2].training_flops == pytest.approx(costs[1].training_flops * 8 / 3, rel=1e-6)


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    run = preference_run(own_samples=True)
    root = tmp_path_factory.mktemp("runs")
    workspace = Workspace(root, device="cpu")
    return train_chain(run, texts_of(run, cache), workspace, draw_pairs=draw_own_pairs).folder


def test_own_pairs_are_ranked_by_the_exact_reward_and_never_tied(own_run):
    own = parse_own_pairs((own_run / OWN_PAIRS_FILE).read_text(), "here")
    counts = [sum(pair.split == split for pair in own.pairs) for split in ("train", "valid")]
    assert counts == [20, 2]
    assert own.n_ties > 0
    language = ReverseLanguage(**{key: own for key, own in LANGUAGE.items() if key != "kind"})
    for pair in own.pairs:
        question = pair.prompt.removeprefix("‹user›").removesuffix("‹end of turn›‹assistant›")
        answer = language_answer(language, question)
        expected = (reward_of(pair.chosen_text, answer), reward_of(pair.rejected_text, answer))
        assert pair.rewards == expected
        assert expected[0] > expected[1]


def test_the_reward_is_the_share_of_letters_in_their_places():
    assert reward_of("abc", "abc") == 1
    assert reward_of("abd", "abc") == pytest.approx(2 / 3)
    assert reward_of("abcd", "abc") == pytest.approx(3 / 4)
    assert reward_of("", "abc") == 0
    assert reward_of("bca", "abc") == 0


def test_a_repeated_run_draws_the_same_pairs(own_run, cache):
    run = preference_run(own_samples=True)
    own = {"name": "again", "draw_pairs": draw_own_pairs}
    again = train(run, texts_of(run, cache), Workspace(own_run.parent, device="cpu"), **own)
    first, second = ((own / OWN_PAIRS_FILE).read_bytes() for own in (own_run, again.folder))
    assert first == second
    digest = next(note for note in again.notes if "20 pairs of own responses" in note)
    assert "sha256" in digest


def test_pairs_that_were_changed_or_lost_are_not_learnt_from(own_run, cache):
    run = preference_run(own_samples=True)
    texts, workspace = texts_of(run, cache), Workspace(own_run.parent, device="cpu")
    own = {"name": "spoilt", "draw_pairs": draw_own_pairs}
    with pytest.raises(_Interrupted):
        train(run, texts, workspace, watcher=_Stops(4), **own)
    path = own_run.parent / "spoilt" / OWN_PAIRS_FILE
    content = path.read_text()
    path.write_text(content.replace("chosen", "choosen", 1))
    with pytest.raises(RecordError, match=r"own-pairs.jsonl .*; restore it, or remove the folder"):
        train(run, texts, workspace, **own)
    path.unlink()
    with pytest.raises(RecordError, match=r"own-pairs.jsonl is missing, and the run has learnt"):
        train(run, texts, workspace, **own)


def test_pairs_that_are_none_are_refused():
    with pytest.raises(RecordError, match="here does not hold pairs as they were written"):
        parse_own_pairs('{"n_pairs": 1, "n_ties": 0}\n', "here")


def test_too_few_pairs_are_told_with_their_number(own_run, cache):
    run = preference_run(own_samples=True, changes={"stages.2.objective.own_samples.n_pairs": 5000})
    with pytest.raises(SpecError, match=r"asks for 5000 pairs of train prompts, but \d+ prompts"):
        train(
            run,
            texts_of(run, cache),
            Workspace(own_run.parent, device="cpu"),
            draw_pairs=draw_own_pairs,
        )


def test_without_a_sampler_own_samples_are_refused(own_run, cache):
    run = preference_run(own_samples=True)
    with pytest.raises(SpecError, match="own_samples is given, but nothing draws samples"):
        train(run, texts_of(run, cache), Workspace(own_run.parent, device="cpu"), name="none")


def test_a_run_that_prefers_answers_in_turns(own_run):
    answer = generate_text(own_run, "abc=", Sampling(6))
    assert "‹" not in answer


SORT = {"kind": "sort", "form": "conversations"}
REFUSALS = {
    "stages.2.kind is 'prefer', but objective.kind is 'seq2seq'; use 'preference'": {
        "objective": "seq2seq"
    },
    "stages.2.kind is 'prefer', but corpus.sources gives conversations; use a source": {
        "corpus": {"sources": [SORT]}
    },
    "stages.2.kind is 'tune', but corpus.sources gives preferences; use 'prefer'": {
        "kind": "tune",
        "objective": "seq2seq",
    },
    "stages.2.kind is 'adapt', but objective.kind is 'preference'; use the kind 'prefer'": {
        "kind": "adapt"
    },
    "training.z_loss is 0.001, which is no part of a loss over pairs; use 0": {
        "training": {"n_steps": 3, "z_loss": 0.001}
    },
    "own_samples is given, but corpus.sources is sort, copy; use one invented language": {
        "objective": {"kind": "preference", "own_samples": {}},
        "corpus": {"sources": [SORT, {"kind": "copy", "form": "conversations"}]},
    },
    "own_samples is given, but corpus.sources gives preferences; use form = 'conversations'": {
        "objective": {"kind": "preference", "own_samples": {}}
    },
}


@pytest.mark.parametrize("message", REFUSALS)
def test_a_kind_its_text_and_its_objective_belong_together(message):
    table = preference_table()
    table["stages"]["2"].update(REFUSALS[message])
    with pytest.raises(SpecError, match=message):
        load_run(table)


def test_a_model_that_sees_ahead_cannot_prefer(tmp_path, cache):
    table = preference_table()
    table["stages"]["2"]["architecture"] = {"mask": "full"}
    run = load_run(table)
    with pytest.raises(SpecError, match=r"'seq2seq', under which position .* but it can see it"):
        train_chain(run, texts_of(run, cache), Workspace(tmp_path, device="cpu"))
