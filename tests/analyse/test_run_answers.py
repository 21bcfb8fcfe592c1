"""Which answers of a run are those that a plan asks for; others may lie beside them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paribus.analyse.run_answers import read_answers
from paribus.record.task_answers import (
    TaskAnswer,
    TaskEvaluation,
    TaskHead,
    task_evaluation_path,
    write_task_evaluation,
)

YARDSTICK = {"kind": "head", "split": "test", "measure": "accuracy"}
HEAD = TaskHead(
    task={"split": "test"},
    name="labels",
    measure="accuracy",
    label="head",
    protocol={"kind": "head"},
    component={},
    step=39,
    weights="0" * 64,
    window=64,
    items="1" * 64,
    n_items=1,
    n_truncated=0,
    n_left_out=0,
    text="books",
    floors={},
    summary={},
    environment={},
)
PROBE_TABLE: dict[str, Any] = {
    "kind": "probe",
    "split": "test",
    "probe": {"kind": "rank"},
    "quantity": "effective rank",
    "stack": "stack",
    "branch": "attention",
    "variant": "",
}


def keep(folder: Path, head: TaskHead, score: float) -> None:
    answer = TaskAnswer("one", "page", score, 1.0, chosen=0, key=0)
    path = task_evaluation_path(folder, head.task, head.protocol, head.items)
    write_task_evaluation(path, TaskEvaluation(head, (answer,)))


def scores(folder: Path, *yardsticks: dict[str, Any]) -> dict[str, float]:
    found = {}
    for column, answers in read_answers(folder, yardsticks, "books", 40).items():
        assert isinstance(answers, TaskEvaluation)
        found[column] = answers.score
    return found


def test_answers_of_a_head_are_those_of_its_split_its_text_and_the_last_step(
    tmp_path: Path,
) -> None:
    others = [
        replace(HEAD, items="2" * 64, task={"split": "valid"}),
        replace(HEAD, items="3" * 64, text="letters"),
        replace(HEAD, items="4" * 64, step=20),
        replace(HEAD, items="5" * 64, protocol={"kind": "probe"}),
    ]
    for head in others:
        keep(tmp_path, head, 0.25)
    assert read_answers(tmp_path, [YARDSTICK], "books", 40) == {}
    keep(tmp_path, HEAD, 0.75)
    assert scores(tmp_path, YARDSTICK) == {"head.test": 0.75}


def test_what_a_probe_found_and_what_a_head_answered_are_told_apart(tmp_path: Path) -> None:
    looked = replace(HEAD, task=PROBE_TABLE, protocol={"kind": "probe"}, items="6" * 64)
    keep(tmp_path, looked, 0.5)
    keep(tmp_path, HEAD, 0.75)
    assert list(scores(tmp_path, PROBE_TABLE, YARDSTICK).values()) == [0.5, 0.75]


@pytest.mark.parametrize("kind", ["head", "probe"])
def test_what_was_not_asked_has_no_column(tmp_path: Path, kind: str) -> None:
    yardstick = {"head": YARDSTICK, "probe": PROBE_TABLE}[kind]
    assert read_answers(tmp_path, [yardstick], "books", 40) == {}
