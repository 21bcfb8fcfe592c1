"""A full disk: the run ends with a clear word and all it had, and goes on once there is room."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from train_shell import assert_same_run, step_line

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("full")


@pytest.fixture(scope="module")
def answers(home: Path) -> dict[str, dict[str, Any]]:
    command = [sys.executable, str(SUPPORT / "full_disk.py"), str(home)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_disk_full_at_a_checkpoint_leaves_the_last_one_and_the_rows(
    home: Path, answers: dict[str, dict[str, Any]]
) -> None:
    found = answers["checkpoint"]
    place = home / "checkpoint/run/checkpoints/step-000000007"
    assert found["status"] == 1
    assert found["err"].startswith(f"error: {place} cannot be written: ")
    assert "File too large" in found["err"]
    assert (
        "; free some space, or correct that, and the same command resumes: earlier checkpoints"
        in found["err"]
    )
    assert (found["checkpoints"], found["rows"]) == ([3], 8)
    assert found["state"].startswith(f"failed: RecordError: {place} cannot be written")


def test_a_disk_full_at_a_row_leaves_the_rows_before_it_whole(
    home: Path, answers: dict[str, dict[str, Any]]
) -> None:
    found = answers["rows"]
    said = "cannot be written: File too large; free some space; the same command resumes the run"
    assert found["status"] == 1
    assert found["err"] == f"error: {home / 'rows/run/rows.jsonl'} {said}\n"
    assert (found["checkpoints"], found["rows"]) == ([3], 6)


@pytest.mark.parametrize("name", ["checkpoint", "rows"])
def test_with_room_again_the_run_ends_as_if_nothing_had_been(
    home: Path, answers: dict[str, dict[str, Any]], name: str
) -> None:
    again = answers[name]["again"]
    assert again["status"] == 0, again["err"]
    assert again["out"].startswith("note: it resumes at step 5 of 12\n")
    assert again["out"].splitlines()[2].startswith(step_line(5))
    assert_same_run(home / name / "run", home / "whole/run")


def test_a_disk_full_while_text_is_prepared_leaves_nothing_half_done(
    home: Path, answers: dict[str, dict[str, Any]]
) -> None:
    found = answers["building"]
    said = "cannot be written: File too large; free some space, or choose another folder for texts"
    assert found["status"] == 1
    assert found["err"].splitlines()[-1] == f"error: {home / 'cache'} {said}"
    assert found["left"] == []
    assert found["again"]["status"] == 0
