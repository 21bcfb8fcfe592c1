"""How jobs stand in SLURM's queue, as squeue says it; no accounting is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from paribus.errors import UnsupportedError
from paribus.slurm.submission import Submission, open_submissions, read_submissions

_FORMAT = "Name:|,ArrayJobID:|,ArrayTaskID:|,State:|,RestartCnt:|,Reason:|"
_NODE_FORMAT = "ArrayTaskID:|,NodeList:|"
_PATIENCE_SECONDS = 60
_REASON_WIDTH = 40  # some are sentences


@dataclass(frozen=True)
class QueuedTask:
    """A task that is in the queue."""

    job: str  # the number of its array
    state: str  # PENDING, RUNNING, COMPLETING, …
    n_restarts: int
    reason: str  # why it waits; None where it does not

    @property
    def word(self) -> str:
        """How it stands, in a word: pending, running, or requeued of one that waits again."""
        if self.state == "PENDING" and self.n_restarts:
            return "requeued"
        return self.state.lower()

    @property
    def description(self) -> str:
        """How it stands, and why it waits."""
        if self.state == "PENDING" and self.reason not in ("", "None"):
            return f"{self.word}: {shorten(self.reason, _REASON_WIDTH, placeholder=' …')}"
        return self.word


@dataclass(frozen=True)
class StudyQueue:
    """How the runs of a study stand in the queue."""

    words: dict[str, str]  # by run: pending, running, requeued, …, done, failed, unfit node or gone
    fault: str | None  # why the queue could not be read


def study_queue(study_folder: Path) -> StudyQueue | None:
    """How each run that was submitted for a study stands; None where none was."""
    submissions = read_submissions(study_folder)
    if not submissions:
        return None
    words: dict[str, str] = {}
    for submission in submissions:
        for run in submission.runs:
            words[run] = _word_of_answer(submission.read_answer(run))
    try:
        tasks = queued_tasks(open_submissions(study_folder))
    except UnsupportedError as fault:
        return StudyQueue(words, str(fault))
    for (_, run), task in tasks.items():
        words[run] = task.description
    return StudyQueue(words, None)


def _word_of_answer(answer: Mapping[str, Any] | None) -> str:
    """How a task stands that is not in the queue."""
    if answer is None:
        return "gone"
    if "unfit" in answer:
        return "unfit node"
    if answer:
        return "failed"
    return "done"


def queued_tasks(submissions: Sequence[Submission]) -> dict[tuple[str, str], QueuedTask]:
    """The tasks of these arrays that are in the queue, by the name of the array and the run.
    UnsupportedError where squeue does not answer.
    """
    by_name = {one.job_name: one for one in submissions}
    if not by_name:
        return {}
    answer = _ask_squeue(["--array", f"--name={','.join(by_name)}", f"--Format={_FORMAT}"])
    tasks: dict[tuple[str, str], QueuedTask] = {}
    for line in answer.splitlines():
        name, job, index, state, n_restarts, reason, *_ = line.strip().split("|")
        submission = by_name.get(name)
        if submission is None:
            continue
        place = int(index) if index.isdecimal() else 0
        if place < len(submission.runs):
            run = submission.runs[place]
            n = int(n_restarts) if n_restarts.isdecimal() else 0
            tasks[name, run] = QueuedTask(job, state, n, reason)
    return tasks


def task_nodes(submission: Submission) -> dict[str, str]:
    """The node on which the task of each run is or was, if SLURM still knows. UnsupportedError
    where squeue does not answer.
    """
    arguments = ["--array", "--states=all", f"--name={submission.job_name}"]
    nodes: dict[str, str] = {}
    for line in _ask_squeue([*arguments, f"--Format={_NODE_FORMAT}"]).splitlines():
        index, node, *_ = line.strip().split("|")
        place = int(index) if index.isdecimal() else 0
        if node and place < len(submission.runs):
            nodes[submission.runs[place]] = node
    return nodes


def _ask_squeue(arguments: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            ["squeue", "--noheader", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise UnsupportedError(
            f"the queue of SLURM cannot be read: {fault}; run this where squeue works"
        ) from None
    if done.returncode != 0:
        fault = (done.stderr.strip().splitlines() or ["squeue failed"])[-1]
        raise UnsupportedError(
            f"the queue of SLURM cannot be read: {fault}; run this where squeue works"
        )
    return done.stdout
