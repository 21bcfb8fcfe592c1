"""Answers to tasks on disk: whole or absent, apart from those to yardsticks, and refused where
they are not what was written.
"""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record import (
    TaskAnswer,
    TaskEvaluation,
    TaskHead,
    read_evaluations,
    read_task_evaluation,
    read_task_evaluations,
    require_unchanged_task_evaluation,
    task_evaluation_path,
    write_task_evaluation,
)
from paribus.record.task_answers import read_task_head

HEAD = TaskHead(
    task={"kind": "choices"},
    name="pairs",
    measure="accuracy",
    label="likelihood",
    protocol={"kind": "zero-shot"},
    component={"objective": {"kind": "causal"}},
    step=3,
    weights="aa",
    window=7,
    items="bb",
    n_items=2,
    n_truncated=1,
    n_left_out=0,
    text="cc",
    floors={"uniform": 0.5, "majority": 0.625, "length": 0.25},
    summary={"by_byte": 0.5},
    environment={"device": "cpu"},
)
FIRST = TaskAnswer(
    item="one",
    document="page",
    score=1.0,
    count=1.0,
    chosen=0,
    key=0,
    option_nats=(2.5, 0.1 + 0.2),
    option_tokens=(3, 1),
    option_bytes=(5, 7),
    overlaps=True,
)
SECOND = TaskAnswer(item="two", document="page", score=0.5, count=1.0, chosen="der", key="die")
EVALUATION = TaskEvaluation(HEAD, (FIRST, SECOND))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return task_evaluation_path(tmp_path, HEAD.task, HEAD.protocol, HEAD.items)


def test_what_is_written_is_read_back(path: Path, tmp_path: Path) -> None:
    write_task_evaluation(path, EVALUATION)
    require_unchanged_task_evaluation(path)
    assert read_task_evaluation(path) == EVALUATION
    assert list(read_task_evaluations(tmp_path)) == [EVALUATION]
    assert EVALUATION.score == 0.75
    assert EVALUATION.highest_floor == 0.625


def test_scores_that_are_not_finite_are_read_back(path: Path) -> None:
    summary = {"by_byte": 0.5, "lowest": -math.inf, "none": math.nan}
    write_task_evaluation(path, replace(EVALUATION, head=replace(HEAD, summary=summary)))
    found = read_task_evaluation(path).head.summary
    assert (found["by_byte"], found["lowest"]) == (0.5, -math.inf)
    assert math.isnan(found["none"])
    assert read_task_head(path).summary["lowest"] == -math.inf


def test_a_reader_of_yardsticks_does_not_see_tasks(path: Path, tmp_path: Path) -> None:
    write_task_evaluation(path, EVALUATION)
    assert list(read_evaluations(tmp_path)) == []


def test_a_measure_without_floors_has_no_highest() -> None:
    assert TaskEvaluation(replace(HEAD, floors={}), (FIRST,)).highest_floor is None


def test_numbers_that_are_not_finite_are_null_and_named(path: Path) -> None:
    odd = replace(FIRST, score=math.inf, option_nats=(1.5, math.inf))
    write_task_evaluation(path, TaskEvaluation(HEAD, (odd, SECOND)))
    row = json.loads(path.read_text().splitlines()[1])
    assert row["nonfinite"] == {"score": "inf", "option_nats": ["1.5", "inf"]}
    assert read_task_evaluation(path).answers[0] == odd


def test_other_protocols_and_items_have_other_files(tmp_path: Path) -> None:
    paths = set()
    for protocol in ("zero-shot", "few-shot"):
        for items in ("a", "b"):
            paths.add(task_evaluation_path(tmp_path, HEAD.task, {"kind": protocol}, items))
    assert len(paths) == 4


def test_a_file_that_is_not_what_was_written_is_refused(path: Path) -> None:
    write_task_evaluation(path, EVALUATION)
    lines = path.read_text().splitlines()
    for damaged, message in (
        (lines[:2], "holds 1 answers, 2 were written; remove it, and the same command asks again"),
        ([], "holds no answers to a task: it is empty; remove it"),
        (lines[1:], "line 1 is no head of a task: .*; remove it"),
        ([lines[0].replace('"step":3', '"step":"3"')], "line 1 is no head of a task: its step is"),
        ([lines[0].replace("0.625", '"x"')], "no head of a task: its floors.majority is x"),
        ([*lines[:2], '{"item":"two"}'], "line 3 is no answer to a task: 'chosen'; remove it"),
        ([lines[0], lines[1].replace("[3,1]", "[3,true]")], "line 2 .* its option_tokens has True"),
        ([lines[0], lines[1].replace('"page"', "7")], "line 2 .*'one' has a value of another kind"),
        ([*lines[:2], lines[2][:-9]], "line 3 is not JSON: .*; remove it"),
        ([*lines[:2], "[1]"], "line 3 holds a list, not a table; remove it"),
    ):
        path.write_text("\n".join(damaged))
        with pytest.raises(RecordError, match=message):
            read_task_evaluation(path)
    with pytest.raises(RecordError, match="is not what was written"):
        require_unchanged_task_evaluation(path)
