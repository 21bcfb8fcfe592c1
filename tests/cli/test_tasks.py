"""Tasks from the command line: listed, shown as each architecture is asked, and asked of runs."""

import json
from pathlib import Path

import pytest

import paribus as pb

SPEC = """
architecture = { preset = "gpt2", n_layers = 1, d_model = 16, attention = { n_heads = 2 } }
corpus = { sources = [{ kind = "copy", form = "text", n_documents = 400 }] }
training = { n_steps = 2, n_sequences = 4, length = 48, valid_batches = 1 }
"""
TASK = """
kind = "choices"
paths = "capitals.jsonl"
context = "The capital of {country} is"
options = " {cities}"
key = "{right}"
"""
ROWS = [
    {"country": "France", "cities": ["Paris", "Rome"], "right": 0},
    {"country": "Italy", "cities": ["Paris", "Rome"], "right": 1},
    {"country": "Peru", "cities": ["Oslo", "Lima"], "right": 1},
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.toml").write_text(SPEC)
    (tmp_path / "capitals.toml").write_text(TASK)
    (tmp_path / "capitals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def train(ask, name: str, *words: str) -> None:
    done = ask("train", "run.toml", "--name", name, "--device", "cpu", *words)
    assert done.status == 0, done.err


def test_tasks_and_readers_are_listed(ask, here: Path) -> None:
    listed = ask("tasks")
    assert listed.status == 0, listed.err
    for word in ("function-summary", "recall-choices", "blimp", "winogrande", "conll"):
        assert word in listed.out
    assert json.loads(ask("tasks", "--json").out) == pb.tasks()


def test_an_item_is_shown_as_each_architecture_is_asked(ask, here: Path) -> None:
    shown = ask("tasks", "capitals.toml", "--show", "gpt2", "--show", "t5", "--show", "bert")
    assert shown.status == 0, shown.err
    assert "capitals: choices, 3 items" in shown.out
    assert "The capital of France is" in shown.out
    rows = {line.split()[0]: line for line in shown.out.splitlines() if line.strip()}
    assert "‹end›The capital of France is Pari " in rows["gpt2"]
    assert "‹start› Pari " in rows["t5"]
    assert "‹mask›Paris" in rows["bert"]
    table = json.loads(ask("tasks", "capitals.toml", "--show", "unilm", "--json").out)
    assert table["shown"]["unilm"]["scored"] == " Paris"
    assert table["shown"]["unilm"]["n_prefix"] == len("The capital of France is") + 1


def test_what_cannot_be_shown_is_refused(ask, here: Path) -> None:
    refused = ask("tasks", "capitals.toml", "--show", "nothing")
    assert refused.status == 2
    assert "neither an architecture nor a run" in refused.err
    refused = ask("tasks", "capitals.toml", "--item", "x")
    assert "--item is 'x', which the task does not have" in refused.err


def test_several_runs_are_asked_the_same(ask, here: Path) -> None:
    train(ask, "first")
    train(ask, "second", "--set", "architecture.preset=unilm", "--set", "objective=prefix")
    words = ("evaluate", "first", "second", "--tasks", "capitals.toml", "--device", "cpu")
    asked = ask(*words)
    assert asked.status == 0, asked.err
    heading, first, second = asked.out.splitlines()
    assert heading.split()[:6] == ["run", "task", "protocol", "measure", "score", "95"]
    assert first.split()[:4] == ["first", "capitals", "zero-shot", "accuracy"]
    assert second.split()[0] == "second"
    assert ask(*words).out == asked.out
    tables = json.loads(ask(*words, "--json").out)
    assert tables[0]["items"] == tables[1]["items"]
    assert tables[0]["floors"]["uniform"] == 0.5
    assert tables[0]["overlap"] == 0.0
    results = pb.evaluate_tasks(["first", "second"], "capitals.toml")
    assert [result.evaluation.score for result in results] == [one["score"] for one in tables]
    assert len(list((here / "runs/first/evaluations").glob("task-*.jsonl"))) == 1


def test_demonstrations_are_given_as_many_as_fit(ask, here: Path) -> None:
    train(ask, "first")
    (here / "capitals.toml").write_text(TASK + 'train = "capitals.jsonl"\nseparator = "|"\n')
    asked = ask("evaluate", "first", "--tasks", "capitals.toml", "--shots", "2", "--json")
    assert asked.status == 0, asked.err
    protocol = json.loads(asked.out)[0]["protocol"]
    assert (protocol["kind"], protocol["n_demonstrations"]) == ("few-shot", 2)
    assert protocol["most"] < 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--tasks", ","), "--tasks names no task"),
        (("--tasks", "capitals.toml,capitals.toml"), "two tasks are called 'capitals'"),
        (("--tasks", "capitals.toml", "--yardstick", "halves"), "--yardstick is given beside"),
        (("--tasks", "capitals.toml", "--sequences", "4"), "--sequences is given beside --tasks"),
        (("--shots", "2"), "--shots is given without --tasks"),
        (("other",), "2 runs are named, but only tasks are asked of several at once"),
        (("--tasks", "nothing"), "nothing is no task"),
    ],
)
def test_what_makes_no_sense_together_is_refused(
    ask, here: Path, words: tuple[str, ...], message: str
) -> None:
    refused = ask("evaluate", "first", *words)
    assert refused.status == 2
    assert message in refused.err


def test_items_are_written_as_pairs_to_train_on(ask, here: Path) -> None:
    words = ("tasks", "capitals.toml", "--split", "test", "--pairs", "pairs.jsonl")
    written = ask(*words)
    assert (written.status, written.out) == (0, "3 pairs in pairs.jsonl\n"), written.err
    lines = [json.loads(line) for line in (here / "pairs.jsonl").read_text().splitlines()]
    assert lines[2] == {
        "source": "The capital of Peru is",
        "target": " Lima",
        "task": "capitals",
    }
    refused = ask(*words)
    assert refused.status == 2
    assert "pairs.jsonl exists; choose another file, or overwrite it with --force" in refused.err
    answer = ask(*words, "--force", "--json", "--set", "n_items=1")
    assert json.loads(answer.out) == {"n_pairs": 1, "file": "pairs.jsonl"}
    changes = {"train": "capitals.jsonl"}
    assert pb.write_pairs("capitals.toml", "more.jsonl", changes=changes) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("capitals.toml", "--pairs", "p.jsonl"), "has no train split; name the train file as its"),
        (("capitals.toml", "--pairs", "p.jsonl", "--split", "dev"), "split is 'dev'; use one of"),
        (("capitals.toml", "--pairs", "p.jsonl", "--show", "t5"), "--show is given beside --pairs"),
        (("capitals.toml", "--split", "test"), "--split is given without --pairs"),
        (("capitals.toml", "--force"), "--force is given without --pairs"),
        (("--pairs", "p.jsonl"), "--pairs is given without a task; name one"),
        (("--show", "t5"), "--show is given without a task; name one"),
        (("--set", "n_items=3"), "--set is given without a task; name one"),
        (
            ("capitals.toml", "--pairs", "p.jsonl", "--cache", "c"),
            "--cache is given beside --pairs; leave it out",
        ),
    ],
)
def test_pairs_that_cannot_be_written_are_refused(
    ask, here: Path, words: tuple[str, ...], message: str
) -> None:
    refused = ask("tasks", *words)
    assert refused.status == 2
    assert message in refused.err
    assert not (here / "p.jsonl").exists()
