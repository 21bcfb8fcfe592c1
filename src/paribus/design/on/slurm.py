"""Runs as jobs of SLURM, submitted as arrays through submitit; what is in the queue is not
submitted again.

The queue does not need us: a driver that is interrupted leaves its jobs there, and the same
command finds them again by the record beside the study.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch

from paribus.design.cell_run import is_complete
from paribus.design.cells import Cell
from paribus.design.on.node_check import NodeCheck, cells_check, write_node_token
from paribus.design.on.scheduler import RESUME_STATUS, UNSEEN_SECONDS, Scheduler
from paribus.design.plan import run_environment
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import ParibusError, UnsupportedError
from paribus.record import Study
from paribus.record.disk import explained, write_json
from paribus.runtime import deferred_signals
from paribus.slurm.options import require_plain_path, time_limit_seconds
from paribus.slurm.queue import QueuedTask, queued_tasks
from paribus.slurm.submission import (
    Submission,
    next_folder,
    open_submissions,
    submission_lock,
)
from paribus.slurm.task import run_task
from paribus.train.parent import parent_folder
from paribus.workspace import Execution, Slurm

PROGRAMS = ("sbatch", "squeue", "scontrol", "srun")
DEFAULT_MINUTES = "60"  # of a job: a run that needs more is saved, requeued and gone on with
SIGNAL_SECONDS = 90  # before the time of a job is over it is told to save its run
MAX_TASKS = 1000  # of an array: SLURM allows so many unless its configuration says otherwise
QUEUE_SECONDS = 5.0  # between questions to the queue
SIGNAL_POLL_SECONDS = 0.2
WAIT_SECONDS = 30.0  # that all runs may wait before a note says why
LOOK_SECONDS = 30.0  # for jobs that SLURM may have taken to come into its queue
# what sbatch says where it does not know whether SLURM has taken the jobs
_UNANSWERED = (
    "timed out",
    "zero bytes",
    "unexpected message",
    "connection reset",
    "job got killed",
)
_TOKEN_BYTES = 4
_JOB_VARIABLE, _CONFIGURATION_VARIABLE = "SLURM_JOB_ID", "SLURM_CONF"
_JOB_PREFIXES = ("SLURM_", "SLURMD_", "SRUN_", "SUBMITIT_")


def require_slurm() -> None:
    """UnsupportedError where submitit or a program of SLURM is not there."""
    if find_spec("submitit") is None:
        raise UnsupportedError(
            "--on slurm needs submitit, which is not installed; run pip install 'paribus[cluster]'"
        )
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise UnsupportedError(
            f"--on slurm needs {', '.join(missing)} on the path; run this on a machine of the"
            " cluster from which jobs are submitted"
        )


@dataclass
class _Round:
    """Cells on their way: the array in which each is."""

    study: Study
    watcher: StudyWatcher
    cells: dict[str, Cell]  # by their runs
    submissions: dict[str, Submission] = field(default_factory=dict)  # by their runs
    begun: set[str] = field(default_factory=set)
    absent_since: dict[str, float] = field(default_factory=dict)
    is_queue_read: bool = True  # whether the queue answered when it was last asked
    waiting_since: float | None = None  # since when all of them wait; None where one does not
    has_noted_wait: bool = False
    failures: dict[str, str] = field(default_factory=dict)
    n_ended: int = 0
    # why jobs could not begin their runs on their nodes, each with the log of the first such job
    node_faults: dict[str, str] = field(default_factory=dict)
    n_node_faults: int = 0

    @property
    def arrays(self) -> list[Submission]:
        """The arrays that there are, each once."""
        return list({one.job_name: one for one in self.submissions.values()}.values())

    def end(self, run: str, fault: str | None) -> None:
        cell = self.cells.pop(run)
        self.n_ended += 1
        if run not in self.begun:
            self.watcher.begin(cell)
        if fault is not None:
            fault = self.failures[str(cell)] = f"{fault} ({describe_log(self.submissions, run)})"
        self.watcher.end(cell, fault)

    def end_unbegun(self, run: str, fault: str) -> None:
        """A run that its job could not begin, because of its node or because it was taken out."""
        self.n_node_faults += 1
        if fault not in self.node_faults:
            self.node_faults[fault] = f"{fault} ({describe_log(self.submissions, run)})"
        self.end(run, fault)

    def require_some_begun(self) -> None:
        """UnsupportedError where no job could begin its run: later ones could not, either."""
        if self.n_ended and self.n_node_faults == self.n_ended:
            raise UnsupportedError(
                f"no job of SLURM could begin its run: {'; '.join(self.node_faults.values())};"
                " what was done is kept, and the same command resumes"
            )

    def describe_jobs(self) -> str:
        """The numbers of the jobs that there are, as scancel takes them."""
        return " ".join(sorted({self.submissions[run].job or "" for run in self.cells}))


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


class SlurmQueue(Scheduler):
    """Jobs in SLURM's queue, one task for each cell."""

    unseen_seconds = UNSEEN_SECONDS

    def __init__(self, execution: Execution):
        require_slurm()
        super().__init__(execution)
        assert isinstance(execution.on, Slurm)
        self.options = execution.on.options
        if self.device.type not in ("cpu", "cuda"):
            raise UnsupportedError(
                f"--on slurm cannot ask for the device {self.device.type}; use cpu or cuda"
            )
        self.environment = run_environment(self.device, execution.n_jobs)

    def __exit__(self, *_: object) -> None:
        """Nothing was started here: jobs belong to the queue."""

    def run_cells(
        self, cells: Sequence[Cell], study: Study, watcher: StudyWatcher
    ) -> dict[str, str]:
        """Submit what is not in the queue yet, and wait for all of it; why some failed.
        UnsupportedError where no job could begin its run. A signal leaves the jobs where they are,
        by SystemExit(75).
        """
        require_plain_path(str(study.root.absolute()))
        work = _Round(study, watcher, {cell.name: cell for cell in cells})
        with deferred_signals() as caught_signals:
            if cells:
                self._submit_missing(work)
            while work.cells:
                if caught_signals:
                    _note_jobs_left(work)
                    raise SystemExit(RESUME_STATUS)
                _look(work)
                if work.cells:
                    _sleep(QUEUE_SECONDS, caught_signals)
        work.require_some_begun()
        return work.failures

    def _submit_missing(self, work: _Round) -> None:
        """Adopt the jobs that an earlier driver submitted, and submit the rest."""
        with submission_lock(work.study.folder):
            earlier = {one.job_name: one for one in open_submissions(work.study.folder)}
            for (name, run), task in queued_tasks(list(earlier.values())).items():
                if earlier[name].job is None:
                    earlier[name] = earlier[name].adopt_job(task.job)
                if run in work.cells and earlier[name].read_answer(run) is None:
                    work.submissions[run] = earlier[name]
            _note_adopted(work)
            missing = [run for run in work.cells if run not in work.submissions]
            for first in range(0, len(missing), MAX_TASKS):
                cells = [work.cells[run] for run in missing[first : first + MAX_TASKS]]
                submission = self._submit(cells, work.study)
                work.submissions |= dict.fromkeys(submission.runs, submission)

    def _submit(self, cells: Sequence[Cell], study: Study) -> Submission:
        """A new array, on record before SLURM knows of it. RecordError where a text has changed,
        UnsupportedError where SLURM does not take it, or may have taken it and does not say so;
        then its folder stays.
        """
        token = secrets.token_hex(_TOKEN_BYTES)
        folder = next_folder(study.folder.absolute(), token)
        with explained(folder, "made", "give a folder you may write to"):
            folder.mkdir(parents=True)
        runs = tuple(cell.name for cell in cells)
        submission = Submission(folder, f"{study.folder.name}-{token}", runs)
        try:
            check, n_cpus = self._node_check(cells, token, folder), task_cpus(self._options())
            for cell in cells:
                job = self.node_job(cell, study, check, n_cpus)
                write_json(submission.job_path(cell.name), job)
            submission.write()
            submission = submission.with_job(self._sbatch(submission, cells, study))
        except _UnansweredError as fault:
            return _find_unanswered(submission, str(fault))
        except ParibusError:
            shutil.rmtree(folder, ignore_errors=True)  # of jobs that there are not
            raise
        submission.write()
        return submission

    def _node_check(self, cells: Sequence[Cell], token: str, folder: Path) -> NodeCheck:
        """What a node must have; its token lies in the folder of the array and stays there as
        long as jobs may wait.
        """
        environment = self.environment
        if self.execution.workspace.accept_environment:
            environment = {"code": environment["code"]}
        write_node_token(folder, token)
        check = cells_check(cells, folder, token, self.device, environment)
        return replace(check, is_locked=False)  # a driver need not live as long as its jobs

    def _options(self) -> dict[str, str | Literal[True]]:
        return sbatch_options(self.options, self.device, self.environment["n_threads"])

    def _sbatch(self, submission: Submission, cells: Sequence[Cell], study: Study) -> str:
        """The number that SLURM gives to an array."""
        submitit = import_module("submitit")
        executor = submitit.SlurmExecutor(folder=submission.folder)
        options = self._options()
        executor.update_parameters(
            job_name=submission.job_name,
            array_parallelism=self.execution.n_jobs,
            signal_delay_s=SIGNAL_SECONDS,
            stderr_to_stdout=True,
            wckey=None,
            srun_args=[f"--cpus-per-task={options['cpus-per-task']}"],
            additional_parameters=options,
        )
        seconds = time_limit_seconds(options["time"])
        command = worker_command(self.execution.n_jobs)
        try:
            # submitit prints what sbatch says, and the error says it again
            with _outside_of_own_job(), redirect_stderr(io.StringIO()):
                jobs = executor.map_array(
                    run_task,
                    [command] * len(cells),
                    [str(submission.job_path(cell.name)) for cell in cells],
                    [str(submission.answer_path(cell.name)) for cell in cells],
                    [chain_folders(cell, study) for cell in cells],
                    [seconds] * len(cells),
                )
        except (RuntimeError, OSError) as fault:
            words = ", ".join(str(fault).split("\n")).strip(" ,")
            if may_be_queued(words):
                raise _UnansweredError(words or "sbatch was ended") from None
            raise UnsupportedError(
                f"SLURM did not take the jobs: {words}; mend the options after --slurm, or run this"
                " on a machine where sbatch works"
            ) from None
        return jobs[0].job_id.partition("_")[0]


class _UnansweredError(Exception):
    """SLURM was asked for jobs, and did not say whether it took them."""


def may_be_queued(words: str) -> bool:
    """Whether SLURM may have taken jobs although sbatch failed with these words; none are those
    of a program that was killed.
    """
    return not words or any(sign in words.lower() for sign in _UNANSWERED)


def _find_unanswered(submission: Submission, words: str) -> Submission:
    """An array that SLURM has taken after all. UnsupportedError where it is not seen in the queue
    for a while; its folder stays, for it may come there later.
    """
    until = time.monotonic() + LOOK_SECONDS
    while True:
        with suppress(UnsupportedError):  # of a controller that is still busy
            for task in queued_tasks([submission]).values():
                return submission.adopt_job(task.job)
        if time.monotonic() > until:
            break
        time.sleep(QUEUE_SECONDS)
    raise UnsupportedError(
        f"SLURM did not say whether it took the jobs: {words}; they may still come into its queue"
        f" as {submission.job_name}, so {submission.folder} is kept; run the same command again,"
        " which looks for them there first"
    )


@contextmanager
def _outside_of_own_job() -> Iterator[None]:
    """Where the driver is a job itself, its jobs do not inherit what SLURM told it of its own."""
    hidden: dict[str, str] = {}
    if _JOB_VARIABLE in os.environ:
        for name in list(os.environ):
            if name.startswith(_JOB_PREFIXES) and name != _CONFIGURATION_VARIABLE:
                hidden[name] = os.environ.pop(name)
    try:
        yield
    finally:
        os.environ.update(hidden)


def sbatch_options(
    user_options: Mapping[str, str | Literal[True]], device: torch.device, n_threads: int
) -> dict[str, str | Literal[True]]:
    """The options of an array: what was given, and what a run needs beside."""
    options: dict[str, str | Literal[True]] = {
        "requeue": True,
        "time": DEFAULT_MINUTES,
        "cpus-per-task": str(n_threads),
    }
    asks_for_gpus = any(name == "gres" or name.startswith("gpus") for name in user_options)
    if device.type == "cuda" and not asks_for_gpus:
        options["gres"] = "gpu:1"
    return {**options, **user_options}


def task_cpus(options: Mapping[str, str | Literal[True]]) -> int:
    """How many CPUs a task has, and so how many threads compile in it."""
    value = options["cpus-per-task"]
    if value is True or not value.isdecimal():  # sbatch refuses it
        return 1
    return max(1, int(value))


def worker_command(n_jobs: int) -> list[str]:
    """How a task starts its worker: with as many threads as a run of this study has elsewhere."""
    command = [sys.executable, "-m", "paribus.design.worker"]
    n_threads = "1" if n_jobs > 1 else os.environ.get("OMP_NUM_THREADS")
    if n_threads is None:
        return ["env", "--unset=OMP_NUM_THREADS", *command]
    return ["env", f"OMP_NUM_THREADS={n_threads}", *command]


def chain_folders(cell: Cell, study: Study) -> list[str]:
    """The folders of a cell's run and of the stages before it."""
    root = study.root.absolute()
    folders, run, texts = [str(root / cell.name)], cell.run, cell.texts
    while (parent := parent_folder(run, texts, root)) is not None:
        folders.append(str(parent))
        assert run.parent is not None
        run, texts = run.parent, texts[:-1]
    return folders


def _look(work: _Round) -> None:
    """Ask the queue, then look for answers: a task that had left the queue has answered by
    then.
    """
    try:
        queued = queued_tasks(work.arrays)
    except UnsupportedError as fault:  # a controller that is busy or starts anew answers later
        if work.is_queue_read:
            work.watcher.note(f"{fault}; it is asked again until it answers")
        work.is_queue_read = False
        return
    work.is_queue_read = True
    for run in list(work.cells):
        submission = work.submissions[run]
        task = queued.get((submission.job_name, run))
        _note_begin(work, run, task)
        answer = submission.read_answer(run)
        if answer is not None and "unfit" in answer:
            work.end_unbegun(run, answer["unfit"])
        elif answer is not None:
            work.end(run, answer.get("failed"))
        elif task is not None:
            work.absent_since.pop(run, None)
        else:
            _note_absence(work, run)
    _note_wait(work, list(queued.values()))


def _note_begin(work: _Round, run: str, task: QueuedTask | None) -> None:
    if task is not None and task.state == "RUNNING" and run not in work.begun:
        work.begun.add(run)
        work.watcher.begin(work.cells[run])


def _note_absence(work: _Round, run: str) -> None:
    """A task that is not in the queue and has not answered: cancelled, killed, or never begun. Its
    answer may be there and not be seen yet.
    """
    if is_complete(work.cells[run], work.study):
        work.end(run, None)
        return
    now = time.monotonic()
    if now - work.absent_since.setdefault(run, now) <= UNSEEN_SECONDS:
        return
    fault = "its job left the queue and did not answer; run again to resume it"
    if work.submissions[run].log_path(run).exists():
        work.end(run, fault)
    else:
        work.end_unbegun(run, fault)


def _note_wait(work: _Round, tasks: Sequence[QueuedTask]) -> None:
    """Say once why no run is made although some are in the queue."""
    reasons = {task.reason: None for task in tasks if task.reason not in ("", "None")}
    if not reasons or any(task.state != "PENDING" for task in tasks):
        work.waiting_since = None
        return
    now = time.monotonic()
    if work.waiting_since is None:
        work.waiting_since = now
    if now - work.waiting_since > WAIT_SECONDS and not work.has_noted_wait:
        work.has_noted_wait = True
        work.watcher.note(
            f"runs that wait in SLURM's queue: {len(tasks)}, and none is being made:"
            f" {', '.join(reasons)}; if this does not pass, scancel {work.describe_jobs()} takes"
            " them out, and other options after --slurm may help"
        )


def _note_adopted(work: _Round) -> None:
    """Say that jobs of an earlier driver keep their options, whatever is given now."""
    if work.submissions:
        jobs = sorted({one.job or "" for one in work.submissions.values()})
        work.watcher.note(
            f"runs in SLURM's queue already: {len(work.submissions)}, with the options that they"
            f" were submitted with; scancel {' '.join(jobs)} takes them out"
        )


def _note_jobs_left(work: _Round) -> None:
    work.watcher.note(
        f"{len(work.cells)} runs stay in SLURM's queue; the same command waits for them again,"
        f" and scancel {work.describe_jobs()} takes them out"
    )


def _sleep(seconds: float, caught_signals: Sequence[int]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not caught_signals:
        time.sleep(SIGNAL_POLL_SECONDS)
