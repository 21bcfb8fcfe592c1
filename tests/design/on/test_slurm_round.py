"""Cells whose nodes are not fit, without SLURM; with one it is test_slurm_nodes.py."""

import json
from pathlib import Path

import pytest
from study_notes import NoteTaker
from trained_study import RATE, make_small_plan

from paribus.design.cells import Cell, reported_cells
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


BUSY = "echo busy >&2; exit 1"
UNREAD = (
    "the queue of SLURM cannot be read: busy; run this where squeue works; it is asked again until"
    " it answers"
)


def write_squeue(folder: Path, now: str, ever: str = BUSY) -> None:
    """A squeue that says what is in the queue now, and on which nodes tasks ever were; it counts
    how often it is asked.
    """
    asked = f'echo >> {folder}/calls\ncase "$*" in *--states=all*) {ever};; *) {now};; esac'
    (folder / "squeue").write_text(f"#!/bin/sh\n{asked}\n")
    (folder / "squeue").chmod(0o755)


def n_calls(folder: Path) -> int:
    """How often squeue was asked so far."""
    return len((folder / "calls").read_text())


def queue_lines(*lines: str) -> str:
    return "; ".join([f"echo '{line}'" for line in lines] or ["true"])


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


def test_what_waits_for_unfit_nodes_is_taken_out_and_the_reasons_are_said(
    work: Round, tmp_path: Path
) -> None:
    first, second = work.cells
    work.leave_node(first, "b7", "the disk of b is full")
    work.waiting = {second: QueuedTask("12", "PENDING", 0, "Resources")}
    assert not work.is_stuck
    work.waiting = {second: QueuedTask("12", "PENDING", 0, "BadConstraints")}
    assert work.is_stuck
    work.require_node()
    write_squeue(tmp_path, queue_lines())
    work.strand()
    assert not work.submissions
    with pytest.raises(UnsupportedError) as caught:
        work.require_node()
    assert str(caught.value) == (
        "no node of SLURM can take a run any more: the disk of b is full; what was done is kept,"
        " and the same command resumes"
    )


def test_runs_that_are_being_made_are_waited_for_where_no_node_is_left(
    work: Round, tmp_path: Path
) -> None:
    work.leave_node(next(iter(work.cells)), "b7", "the disk of b is full")
    write_squeue(tmp_path, queue_lines("mine-aa|12|1|RUNNING|0|None|"))
    work.strand()
    assert len(work.submissions) == 1
    work.require_node()


def test_what_waits_stays_on_record_where_slurm_does_not_say_that_it_is_out(
    work: Round, tmp_path: Path
) -> None:
    waiting = [f"mine-aa|12|{place}|PENDING|0|BadConstraints|" for place in (0, 1)]
    work.unfit_nodes["b7"] = "the disk of b is full"
    write_squeue(tmp_path, queue_lines(*waiting))
    work.look()
    assert work.must_strand
    write_squeue(tmp_path, BUSY)
    work.strand()
    assert len(work.submissions) == 2
    assert notes(work) == [UNREAD]
    write_squeue(tmp_path, queue_lines(*waiting))
    work.look()
    assert work.must_strand
    write_squeue(tmp_path, queue_lines())
    work.strand()
    assert not work.submissions


def test_a_run_that_was_requeued_and_taken_out_has_not_failed(
    work: Round, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_round, "UNSEEN_SECONDS", -1.0)
    work.unfit_nodes["b7"] = "the disk of b is full"
    write_squeue(tmp_path, queue_lines("mine-aa|12|0|RUNNING|0|None|"))
    first, second = work.cells
    work.begun.add(first)
    work.strand()
    assert list(work.submissions) == [first]
    write_squeue(tmp_path, queue_lines())
    work.look()
    assert work.missing_runs == [first, second]
    assert not work.failures


def test_tasks_of_runs_that_nobody_waits_for_do_not_hide_that_no_node_is_left(work: Round) -> None:
    waiting = QueuedTask("12", "PENDING", 0, "BadConstraints")
    work.unfit_nodes["b7"] = "the disk of b is full"
    work.waiting = {**dict.fromkeys(work.cells, waiting), "another": waiting}
    assert work.is_stuck
    del work.waiting[next(iter(work.cells))]
    assert not work.is_stuck


def test_a_node_that_slurm_does_not_name_now_is_asked_for_again(
    work: Round, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_round, "UNSEEN_SECONDS", -1.0)
    write_squeue(tmp_path, queue_lines())
    for _ in range(2):
        work.look()
        assert len(work.submissions) == 2
    assert notes(work) == [UNREAD]
    write_squeue(tmp_path, queue_lines(), queue_lines("0|b7|", "1|b7|"))
    work.look()
    assert work.missing_runs == list(work.cells)
    assert list(work.unfit_nodes) == ["b7"]


def test_slurm_is_asked_once_for_the_nodes_of_an_array(
    work: Round, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_round, "UNSEEN_SECONDS", -1.0)
    write_squeue(tmp_path, queue_lines(), queue_lines("0|b7|", "1|b8|"))
    work.look()
    assert sorted(work.unfit_nodes) == ["b7", "b8"]
    assert n_calls(tmp_path) == 2


class PutBackTaker(NoteTaker):
    """Remembers which cells wait again."""

    def __init__(self) -> None:
        super().__init__()
        self.put_back_cells: list[str] = []

    def put_back(self, cell: Cell) -> None:
        self.put_back_cells.append(cell.name)


def test_the_watcher_hears_of_a_cell_that_had_begun_and_waits_again(
    work: Round, tmp_path: Path
) -> None:
    work.watcher = PutBackTaker()
    first, second = work.cells
    work.begun.add(first)
    for place, run in enumerate((first, second)):
        answer = {"unfit": "its disk is full", "node": f"b{place}"}
        (tmp_path / f"{run}.answer.json").write_text(json.dumps(answer))
    write_squeue(tmp_path, queue_lines())
    work.look()
    assert work.watcher.put_back_cells == [first]
