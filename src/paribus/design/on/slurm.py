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
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch

from paribus.design.cells import Cell
from paribus.design.on.node_check import NodeCheck, cells_check, write_node_token
from paribus.design.on.scheduler import RESUME_STATUS, UNSEEN_SECONDS, Scheduler
from paribus.design.on.slurm_round import Round
from paribus.design.plan import run_environment
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import ParibusError, UnsupportedError
from paribus.record import Study
from paribus.record.disk import explained, write_json
from paribus.runtime import deferred_signals
from paribus.slurm.nodes import keep_off
from paribus.slurm.options import require_plain_path, time_limit_seconds
from paribus.slurm.queue import queued_tasks
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
LOOK_SECONDS = 30.0  # for jobs that SLURM may have taken to come into its queue
# what sbatch says where it does not know whether SLURM has taken the jobs
_UNANSWERED = (
    "timed out",
    "zero bytes",
    "unexpected message",
    "connection reset",
    "job got killed",
)
_NO_NODE = "node configuration is not available"  # what it says where no node may take a job
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
        self.unfit_nodes: dict[str, str] = {}  # why, by SLURM's name
        self.own_arrays: set[str] = set()  # names of those that were not submitted by others

    def __exit__(self, *_: object) -> None:
        """Nothing was started here: jobs belong to the queue."""

    def run_cells(
        self, cells: Sequence[Cell], study: Study, watcher: StudyWatcher
    ) -> dict[str, str]:
        """Submit what is not in the queue yet, and wait for all of it; why some failed.
        UnsupportedError where no job could begin its run, or no node is left. A signal leaves the
        jobs where they are, by SystemExit(75).
        """
        require_plain_path(str(study.root.absolute()))
        by_run = {cell.name: cell for cell in cells}
        work = Round(study, watcher, by_run, self.unfit_nodes)
        with deferred_signals() as caught_signals:
            while work.cells:
                if caught_signals:
                    _note_jobs_left(work)
                    raise SystemExit(RESUME_STATUS)
                self._submit_missing(work)
                n_unfit = len(self.unfit_nodes)
                work.look()
                if len(self.unfit_nodes) > n_unfit:
                    self._keep_off_unfit_nodes(work)
                if work.must_strand:
                    work.strand()
                if work.submissions:
                    _sleep(QUEUE_SECONDS, caught_signals)
        work.require_some_begun()
        return work.failures

    def _submit_missing(self, work: Round) -> None:
        """Adopt the jobs that an earlier driver submitted, and submit the rest, again where a node
        was not fit. UnsupportedError where no node is left.
        """
        work.require_node()
        if not work.missing_runs or not work.has_node_left or not work.is_queue_read:
            return
        with submission_lock(work.study.folder):
            try:
                _adopt(work)
            except UnsupportedError as fault:
                if not work.has_submitted:
                    raise
                work.note_unread_queue(fault)
                return
            missing = work.missing_runs
            for first in range(0, len(missing), MAX_TASKS):
                cells = [work.cells[run] for run in missing[first : first + MAX_TASKS]]
                try:
                    submission = self._submit(cells, work.study)
                except _NoNodeError:
                    work.strand()
                    return
                work.submissions |= dict.fromkeys(submission.runs, submission)
                work.has_submitted = True
                self.own_arrays.add(submission.job_name)

    def _keep_off_unfit_nodes(self, work: Round) -> None:
        """Let what waits begin on other nodes; jobs of an earlier driver keep their options."""
        nodes = self._options().get("exclude")
        if self.unfit_nodes and isinstance(nodes, str):
            keep_off([one for one in work.arrays if one.job_name in self.own_arrays], nodes)

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
        except (ParibusError, _NoNodeError):
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
        options = sbatch_options(self.options, self.device, self.environment["n_threads"])
        return without_nodes(options, list(self.unfit_nodes))

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
            if self.unfit_nodes and _NO_NODE in words:
                raise _NoNodeError(words) from None
            raise UnsupportedError(
                f"SLURM did not take the jobs: {words}; mend the options after --slurm, or run this"
                " on a machine where sbatch works"
            ) from None
        return jobs[0].job_id.partition("_")[0]


class _NoNodeError(Exception):
    """Without the nodes that are not fit, SLURM has none for the jobs."""


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


def without_nodes(
    options: Mapping[str, str | Literal[True]], nodes: Sequence[str]
) -> dict[str, str | Literal[True]]:
    """Options that leave out some nodes, beside those that were left out already."""
    excluded = options.get("exclude")
    if not nodes:
        return dict(options)
    names = [excluded, *nodes] if isinstance(excluded, str) else nodes
    return {**options, "exclude": ",".join(names)}


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


def _adopt(work: Round) -> None:
    """Find what is in the queue already, and say that it keeps its options, whatever is given
    now.
    """
    earlier = {one.job_name: one for one in open_submissions(work.study.folder)}
    adopted: dict[str, Submission] = {}
    for (name, run), task in queued_tasks(list(earlier.values())).items():
        if earlier[name].job is None:
            earlier[name] = earlier[name].adopt_job(task.job)
        if run in work.missing_runs and earlier[name].read_answer(run) is None:
            adopted[run] = earlier[name]
    if adopted:
        jobs = sorted({one.job or "" for one in adopted.values()})
        work.watcher.note(
            f"runs in SLURM's queue already: {len(adopted)}, with the options that they"
            f" were submitted with; scancel {' '.join(jobs)} takes them out"
        )
        work.has_submitted = True
    work.submissions |= adopted


def _note_jobs_left(work: Round) -> None:
    if not work.submissions:
        work.watcher.note(
            "no run is in SLURM's queue; the same command submits those that are left"
        )
        return
    work.watcher.note(
        f"runs that stay in SLURM's queue: {len(work.submissions)}; the same command waits for them"
        f" again, and scancel {work.describe_jobs()} takes them out"
    )


def _sleep(seconds: float, caught_signals: Sequence[int]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not caught_signals:
        time.sleep(SIGNAL_POLL_SECONDS)
