"""Cells whose nodes are not fit, without SLURM; with one it is test_slurm_nodes.py."""

from pathlib import Path

import pytest
from study_notes import NoteTaker
from trained_study import RATE, make_small_plan

from paribus.design.cells import reported_cells
from paribus.design.on import slurm_round
from paribus.design.on.slurm_round import Round
from paribus.errors import UnsupportedError
from paribus.record import open_study
from paribus.slurm.queue import QueuedTask
from paribus.slurm.submission import Submission


@pytest.fixture
def work(study_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Round:
    """Two cells in one array, and no program of SLURM."""
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = make_small_plan(study_cache)
    cells = reported_cells(plan, dict.fromkeys([arm.name for arm in plan.arms], RATE))[:2]
    by_run = {cell.name: cell for cell in cells}
    own = Round(open_study(tmp_path, "mine"), NoteTaker(), by_run, {})
    submit(own, tmp_path)
    return own


def submit(work: Round, folder: Path) -> None:
    submission = Submission(folder, "mine-aa", tuple(work.cells), "12")
    work.submissions |= dict.fromkeys(work.missing_runs, submission)


def notes(work: Round) -> list[str]:
    assert isinstance(work.watcher, NoteTaker)
    return work.watcher.notes


def test_a_cell_whose_node_is_unfit_is_missing_again_and_has_not_failed(work: Round) -> None:
    first, second = work.cells
    work.begun.add(first)
    work.leave_node(first, "b7", "the node b has other code")
    assert (work.missing_runs, work.begun, work.failures) == ([first], set(), {})
    assert work.unfit_nodes == {"b7": "the node b has other code"}
    work.leave_node(second, "b7", "the node b has other code")
    assert work.missing_runs == [first, second]
    assert notes(work) == ["the node b has other code; b7 is not used any more"]


def test_a_cell_that_comes_to_the_same_unfit_node_again_has_failed(
    work: Round, tmp_path: Path
) -> None:
    run = next(iter(work.cells))
    cell = str(work.cells[run])
    work.leave_node(run, "b7", "its disk is full")
    submit(work, tmp_path)
    work.leave_node(run, "b7", "its disk is full")
    assert list(work.failures) == [cell]
    with pytest.raises(UnsupportedError, match="could begin its run: its disk is full"):
        work.require_some_begun()


def test_a_cell_that_meets_unfit_nodes_alone_has_failed_in_the_end(
    work: Round, tmp_path: Path
) -> None:
    run = next(iter(work.cells))
    for number in range(slurm_round.MAX_UNFIT_NODES):
        assert run in work.cells
        submit(work, tmp_path)
        work.leave_node(run, f"b{number}", f"the disk of b{number} is full")
    assert run not in work.cells
    assert list(work.unfit_nodes) == ["b0", "b1", "b2"]


def test_what_waits_for_unfit_nodes_is_taken_out_and_the_reasons_are_said(work: Round) -> None:
    first, second = work.cells
    work.leave_node(first, "b7", "the disk of b is full")
    work.waiting = {second: QueuedTask("12", "PENDING", 0, "Resources")}
    assert not work.is_stuck
    work.waiting = {second: QueuedTask("12", "PENDING", 0, "BadConstraints")}
    assert work.is_stuck
    work.require_node()
    work.strand()
    assert not work.submissions
    with pytest.raises(UnsupportedError) as caught:
        work.require_node()
    assert str(caught.value) == (
        "no node of SLURM can take a run any more: the disk of b is full; what was done is kept,"
        " and the same command resumes"
    )


def test_runs_that_are_being_made_are_waited_for_where_no_node_is_left(work: Round) -> None:
    work.leave_node(next(iter(work.cells)), "b7", "the disk of b is full")
    work.strand()
    assert len(work.submissions) == 1
    work.require_node()
