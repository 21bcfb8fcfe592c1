"""Answers on disk: whole or absent, read without torch, and refused where they are not what was
written.
"""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record import (
    Answer,
    Evaluation,
    EvaluationHead,
    evaluation_path,
    read_evaluation,
    read_evaluations,
    write_evaluation,
)

HEAD = EvaluationHead(
    yardstick={"kind": "halves"},
    label="likelihood",
    component={"objective": {"kind": "causal"}},
    step=3,
    weights="aa",
    window=7,
    items="bb",
    n_items=2,
    n_truncated=1,
    text="cc",
    unigram_nats=9.5,
    environment={"device": "cpu"},
)
MADE = Evaluation(
    HEAD, (Answer("one", 2.5, 3, 5, 0, "page"), Answer("two", 0.1 + 0.2, 1, 1, 4, "page"))
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return evaluation_path(tmp_path, HEAD.yardstick, HEAD.items)


def test_what_is_written_is_read_back(path: Path, tmp_path: Path) -> None:
    write_evaluation(path, MADE)
    assert read_evaluation(path) == MADE
    assert list(read_evaluations(tmp_path)) == [MADE]
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert MADE.answers[0].bits_per_byte == pytest.approx(2.5 / math.log(2) / 5)


def test_an_evaluation_under_older_names_is_read(path: Path) -> None:
    write_evaluation(path, MADE)
    head, *answers = path.read_text().splitlines()
    head = head.replace('"component"', '"part"').replace('"n_truncated"', '"n_cut"')
    answers = [one.replace('"n_truncated_tokens"', '"n_cut"') for one in answers]
    path.write_text("\n".join([head, *answers]) + "\n")
    assert read_evaluation(path) == MADE


def test_a_run_without_evaluations_has_none(tmp_path: Path) -> None:
    assert list(read_evaluations(tmp_path)) == []


def test_an_item_is_a_line(path: Path) -> None:
    write_evaluation(path, MADE)
    head, *rows = map(json.loads, path.read_text().splitlines())
    assert head["label"] == "likelihood"
    assert [row["item"] for row in rows] == ["one", "two"]


def test_nats_that_are_not_finite_are_null_and_named(path: Path) -> None:
    odd = (replace(MADE.answers[0], nats=math.inf), replace(MADE.answers[1], nats=math.nan))
    write_evaluation(path, Evaluation(HEAD, odd))
    row = json.loads(path.read_text().splitlines()[2])
    assert (row["nats"], row["nonfinite"]) == (None, {"nats": "nan"})
    first, second = read_evaluation(path).answers
    assert first == odd[0]
    assert math.isnan(second.nats)


def test_other_yardsticks_and_items_have_other_files(tmp_path: Path) -> None:
    paths = {
        evaluation_path(tmp_path, {"kind": kind}, items)
        for kind in ("halves", "pseudo")
        for items in ("a", "b")
    }
    assert len(paths) == 4


def test_a_file_that_is_not_what_was_written_is_refused(path: Path) -> None:
    write_evaluation(path, MADE)
    lines = path.read_text().splitlines()
    for damaged, message in (
        (
            lines[:2],
            "holds 1 answers, 2 were written; remove it, and the same command measures again",
        ),
        ([], "holds no evaluation: list index out of range; remove it"),
        (lines[1:], "holds no evaluation: .*; remove it"),
        ([lines[0], lines[1], '{"item":"two"}'], "holds no evaluation: 'nats'; remove it"),
        (
            [lines[0], lines[1], '{"item":"two","nats":1}'],
            "holds no evaluation: 'document'; remove it",
        ),
        ([*lines[:2], lines[2][:-9]], "line 3 is not JSON: .*; remove it"),
        ([*lines[:2], "[1]"], "line 3 holds a list, not a table; remove it"),
    ):
        path.write_text("\n".join(damaged))
        with pytest.raises(RecordError, match=message):
            read_evaluation(path)
    path.unlink()
    with pytest.raises(RecordError, match="cannot be read: No such file or directory; remove it"):
        read_evaluation(path)


def test_a_folder_that_cannot_be_made_is_said_so(path: Path) -> None:
    path.parent.write_text("in the way")
    with pytest.raises(
        RecordError, match="evaluations cannot be made: File exists; remove what is in its place"
    ):
        write_evaluation(path, MADE)


def test_answers_are_read_without_torch() -> None:
    code = "import sys, paribus.record; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
