"""Cells on their way through SLURM's queue: what the queue and the answers of tasks say of them.

A task that finds its node unfit has not begun its run. The node is not used any more, and the cell
waits to be submitted again, without that node.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paribus.design.cell_run import is_complete
from paribus.design.cells import Cell
from paribus.design.on.scheduler import UNSEEN_SECONDS
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import UnsupportedError
from paribus.record import Study
from paribus.slurm.nodes import cancel_waiting
from paribus.slurm.queue import QueuedTask, queued_tasks, task_nodes
from paribus.slurm.submission import Submission

WAIT_SECONDS = 30.0  # that all runs may wait before a note says why
NO_NODE_REASON = "BadConstraints"  # of a task that no node may take
MAX_UNFIT_NODES = 3  # nodes that a cell may meet before it counts as failed


@dataclass
class Round:
    """Cells on their way: the array in which each is."""

    study: Study
    watcher: StudyWatcher
    cells: dict[str, Cell]  # by their runs
    unfit_nodes: dict[str, str]  # why, by SLURM's name; the same table in every round
    submissions: dict[str, Submission] = field(default_factory=dict)  # by their runs
    met_nodes: dict[str, list[str]] = field(default_factory=dict)  # unfit ones, by runs
    begun: set[str] = field(default_factory=set)
    absent_since: dict[str, float] = field(default_factory=dict)
    has_submitted: bool = False  # whether some array has been there
    is_queue_read: bool = True  # whether the queue answered when it was last asked
    waiting: dict[str, QueuedTask] = field(default_factory=dict)  # those that had no node then
    has_node_left: bool = True  # whether SLURM has one that is not known to be unfit
    waiting_since: float | None = None  # since when all of them wait; None where one does not
    has_noted_wait: bool = False
    failures: dict[str, str] = field(default_factory=dict)
    n_ended: int = 0
    # why jobs could not begin their runs on their nodes, each with the log of the first such job
    node_faults: dict[str, str] = field(default_factory=dict)
    n_node_faults: int = 0
    # the nodes of tasks by the name of their array, as SLURM gave them in this look
    task_nodes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def arrays(self) -> list[Submission]:
        """The arrays that there are, each once."""
        return list({one.job_name: one for one in self.submissions.values()}.values())

    @property
    def missing_runs(self) -> list[str]:
        """Those that are in no array: not submitted yet, or to be submitted again."""
        return [run for run in self.cells if run not in self.submissions]

    def end(self, run: str, fault: str | None) -> None:
        cell = self.cells.pop(run)
        self.n_ended += 1
        if run not in self.begun:
            self.watcher.begin(cell)
        if fault is not None:
            fault = self.failures[str(cell)] = f"{fault} ({describe_log(self.submissions, run)})"
        self.submissions.pop(run, None)
        self.watcher.end(cell, fault)

    def end_unbegun(self, run: str, fault: str) -> None:
        """A run that its job could not begin, because of its node or because it was taken out."""
        self.n_node_faults += 1
        if fault not in self.node_faults:
            self.node_faults[fault] = f"{fault} ({describe_log(self.submissions, run)})"
        self.end(run, fault)

    def leave_node(self, run: str, node: str | None, fault: str) -> None:
        """A run whose node is not fit is to be submitted again without that node. It has failed
        where the node is not known, was to be left out already, or is one too many.
        """
        met = self.met_nodes.setdefault(run, [])
        if node is not None and node not in self.unfit_nodes:
            self.unfit_nodes[node] = fault
            self.watcher.note(f"{fault}; {node} is not used any more")
        if node is None or node in met or len(met) + 1 == MAX_UNFIT_NODES:
            self.end_unbegun(run, fault)
            return
        met.append(node)
        self._put_back(run)

    def _put_back(self, run: str) -> None:
        """A run that is in no array any more begins again with another job."""
        if run in self.begun:
            self.begun.remove(run)
            self.watcher.put_back(self.cells[run])
        self.absent_since.pop(run, None)
        del self.submissions[run]

    @property
    def is_stuck(self) -> bool:
        """Whether all runs that are in the queue wait for nodes that are not fit."""
        if not self.unfit_nodes or not self.submissions.keys() <= self.waiting.keys():
            return False
        return {self.waiting[run].reason for run in self.submissions} == {NO_NODE_REASON}

    @property
    def must_strand(self) -> bool:
        """Whether something waits in the queue although no node is left for it."""
        return self.is_stuck or (not self.has_node_left and bool(self.waiting))

    def strand(self) -> None:
        """No node is left: what waits is taken out of the queue, and what runs goes on. Where SLURM
        does not answer, all of it stays as it was, and is taken out after the next look.
        """
        self.has_node_left = False
        cancel_waiting(self.arrays)
        try:
            queued = queued_tasks(self.arrays)
        except UnsupportedError as fault:
            self.note_unread_queue(fault)
            return
        for run, submission in list(self.submissions.items()):
            is_over = run in self.begun or submission.read_answer(run) is not None
            if not is_over and (submission.job_name, run) not in queued:
                self._put_back(run)

    def require_node(self) -> None:
        """UnsupportedError where no node is left, and no run is being made any more."""
        if self.cells and not self.has_node_left and not self.submissions:
            raise UnsupportedError(
                "no node of SLURM can take a run any more:"
                f" {'; '.join(self.unfit_nodes.values())}; what was done is kept, and the same"
                " command resumes"
            )

    def require_some_begun(self) -> None:
        """UnsupportedError where no job could begin its run: later ones could not, either."""
        if self.n_ended and self.n_node_faults == self.n_ended:
            raise UnsupportedError(
                f"no job of SLURM could begin its run: {'; '.join(self.node_faults.values())};"
                " what was done is kept, and the same command resumes"
            )

    def describe_jobs(self) -> str:
        """The numbers of the jobs that there are, as scancel takes them."""
        return " ".join(sorted({one.job or "" for one in self.submissions.values()}))

    def look(self) -> None:
        """Ask the queue, then look for answers: a task that had left the queue has answered by
        then. Where SLURM does not answer, what it was asked stays open until the next look.
        """
        self.task_nodes = {}
        try:
            queued = queued_tasks(self.arrays)
            self.waiting = {
                run: task for (_, run), task in queued.items() if task.state == "PENDING"
            }
            for run, submission in list(self.submissions.items()):
                self._look_at(run, submission, queued.get((submission.job_name, run)))
        except UnsupportedError as fault:  # a controller that is busy or starts anew answers later
            self.note_unread_queue(fault)
            return
        self.is_queue_read = True
        self._note_wait(list(queued.values()))

    def note_unread_queue(self, fault: UnsupportedError) -> None:
        """Say once why SLURM's queue could not be read."""
        if self.is_queue_read:
            self.watcher.note(f"{fault}; it is asked again until it answers")
        self.is_queue_read = False

    def _look_at(self, run: str, submission: Submission, task: QueuedTask | None) -> None:
        """What became of a run since the last look; `task` is its own if it is in the queue."""
        self._note_begin(run, task)
        answer = submission.read_answer(run)
        if answer is not None and "unfit" in answer:
            self.leave_node(run, answer.get("node") or self._find_node(run), answer["unfit"])
        elif answer is not None:
            self.end(run, answer.get("failed"))
        elif task is not None:
            self.absent_since.pop(run, None)
        else:
            self._note_absence(run)

    def _find_node(self, run: str) -> str | None:
        """Where SLURM says that the task of a run was, if it still knows. UnsupportedError where it
        does not answer.
        """
        submission = self.submissions[run]
        if submission.job_name not in self.task_nodes:
            self.task_nodes[submission.job_name] = task_nodes(submission)
        return self.task_nodes[submission.job_name].get(run)

    def _note_begin(self, run: str, task: QueuedTask | None) -> None:
        if task is not None and task.state == "RUNNING" and run not in self.begun:
            self.begun.add(run)
            self.watcher.begin(self.cells[run])

    def _note_absence(self, run: str) -> None:
        """A task that is not in the queue and has not answered: cancelled, killed, or never begun.
        Its answer may be there and not be seen yet. Where it was on a node and not even its log is
        here, that node sees another folder.
        """
        if is_complete(self.cells[run], self.study):
            self.end(run, None)
            return
        now = time.monotonic()
        if now - self.absent_since.setdefault(run, now) <= UNSEEN_SECONDS:
            return
        if not self.has_node_left:  # it waited again, and was taken out
            self._put_back(run)
            return
        fault = "its job left the queue and did not answer; run again to resume it"
        if self.submissions[run].log_path(run).exists():
            self.end(run, fault)
            return
        node = self._find_node(run)
        if node is None:
            self.end_unbegun(run, fault)
            return
        folder = self.submissions[run].folder
        self.leave_node(
            run,
            node,
            f"the node {node} wrote no log to {folder}, and may not see it; mount the same folder"
            " there, or name one with --runs",
        )

    def _note_wait(self, tasks: Sequence[QueuedTask]) -> None:
        """Say once why no run is made although some are in the queue."""
        reasons = {task.reason: None for task in tasks if task.reason not in ("", "None")}
        if not reasons or any(task.state != "PENDING" for task in tasks):
            self.waiting_since = None
            return
        now = time.monotonic()
        if self.waiting_since is None:
            self.waiting_since = now
        if now - self.waiting_since > WAIT_SECONDS and not self.has_noted_wait:
            self.has_noted_wait = True
            self.watcher.note(
                f"runs that wait in SLURM's queue: {len(tasks)}, and none is being made:"
                f" {', '.join(reasons)}; if this does not pass, scancel {self.describe_jobs()}"
                " takes them out, and other options after --slurm may help"
            )


def describe_log(submissions: Mapping[str, Submission], run: str) -> str:
    """Where the log of a run's task is, or that there is none."""
    submission = submissions.get(run)
    if submission is None:
        return "it was not submitted"
    path = submission.log_path(run)
    if path.exists():
        return f"job {submission.task(run)}, log {path}"
    return (
        f"job {submission.task(run)} wrote no log {path}: its node may not see that folder; name"
        " a shared one with --runs"
    )
