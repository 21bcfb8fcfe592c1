"""What SLURM is asked where nodes are not fit."""

from pathlib import Path

import pytest

from paribus.slurm.nodes import cancel_waiting, keep_off
from paribus.slurm.submission import Submission


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where scontrol and scancel note what they are asked; both fail, as of a task that runs."""
    for name in ("scontrol", "scancel"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/asked\nexit 1\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "asked"


def test_tasks_that_wait_are_kept_off_nodes_or_taken_out(asked: Path, tmp_path: Path) -> None:
    arrays = [Submission(tmp_path, f"study-{job}", ("run1",), job) for job in ("12", "13", None)]
    keep_off(arrays, "b7,b8")
    cancel_waiting(arrays)
    assert asked.read_text().splitlines() == [
        "scontrol update JobId=12 ExcNodeList=b7,b8",
        "scontrol update JobId=13 ExcNodeList=b7,b8",
        "scancel --state=PENDING 12 13",
    ]


def test_a_machine_without_these_programs_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    keep_off([Submission(tmp_path, "study-12", ("run1",), "12")], "b7")
