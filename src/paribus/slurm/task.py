"""One task of an array, as SLURM starts it: a worker makes one run and answers in a file.

submitit pickles the name of `run_task` and its arguments, which are text and numbers. SLURM sends
USR2 (or USR1) before the time of a job is over: then the run is saved first, and the job requeues
itself and goes on later. TERM comes before a job is preempted or cancelled: the run is saved, and
SLURM itself requeues a job that it preempted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from paribus.files import read_text
from paribus.record.disk import write_json
from paribus.record.file_names import CHECKPOINTS, EVALUATIONS

RESUME_STATUS = os.EX_TEMPFAIL  # 75, which says: interrupted, run me again
REQUEUE_SIGNALS = (signal.SIGUSR1, signal.SIGUSR2)
END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_REQUEUE_SECONDS = 60
_MAX_JOB_BYTES = 2**26


def run_task(
    command: Sequence[str], job: str, answer: str, run_folders: Sequence[str], time_limit: float
) -> None:
    """Give a worker the job that a file holds, and write what it answers; SystemExit(75) of a run
    that was saved and is to be gone on with.

    `run_folders` are those of the run and of the stages before it: where an attempt that used up
    its time has left nothing new in them, the next one would not either, and the run has failed.
    """
    began_at, before = time.monotonic(), _progress(run_folders)
    signals: list[int] = []
    worker = subprocess.Popen(
        list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def stop(number: int, _: FrameType | None) -> None:
        signals.append(number)
        worker.send_signal(signal.SIGTERM)

    for number in (*REQUEUE_SIGNALS, *END_SIGNALS):
        signal.signal(number, stop)
    line = _ask_worker(worker, read_text(Path(job), _MAX_JOB_BYTES))
    if line:
        _write_reply(answer, json.loads(line))
    elif not signals:
        _fail(answer, f"its process ended with status {worker.wait()}; run again to resume it")
    elif set(signals) & set(REQUEUE_SIGNALS):
        seconds = time.monotonic() - began_at
        if seconds > time_limit / 2 > 0 and _progress(run_folders) == before:
            _fail(
                answer,
                f"its time was over after {seconds:.0f} seconds, and nothing of it was done;"
                " give more, such as --slurm time=240",
            )
        else:
            _requeue(answer)
    else:
        raise SystemExit(RESUME_STATUS)


def _ask_worker(worker: subprocess.Popen[str], job: str) -> str:
    """The line that a worker answers; nothing where it ends before."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        with worker.stdout as answers, worker.stdin as jobs:  # a worker whose jobs end leaves
            jobs.write(" ".join(job.splitlines()) + "\n")
            jobs.flush()
            line = answers.readline()
    except OSError:
        line = ""
    worker.wait()
    return line


def _progress(run_folders: Sequence[str]) -> set[str]:
    """The checkpoints and evaluations that there are."""
    paths = set[str]()
    for folder in run_folders:
        for part in (CHECKPOINTS, EVALUATIONS):
            paths |= {str(path) for path in (Path(folder) / part).glob("*")}
    return paths


def _write_reply(answer: str, reply: dict[str, Any]) -> None:
    """What a worker answers; where its node is not fit, with the name that SLURM has for it."""
    node = os.environ.get("SLURMD_NODENAME")
    if "unfit" in reply and node is not None:
        reply = {**reply, "node": node}
    write_json(Path(answer), reply)


def _fail(answer: str, why: str) -> None:
    write_json(Path(answer), {"failed": why})


def _requeue(answer: str) -> None:
    """Ask SLURM for this very job again, and end; where it does not give it, the run has failed
    until it is submitted anew.
    """
    job = _own_job()
    try:
        done = _ask_slurm(["scontrol", "requeue", job])
        is_requeued = done.returncode == 0 or _waits_already(job)
        fault = done.stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as caught:
        is_requeued, fault = False, str(caught)
    if is_requeued:
        raise SystemExit(RESUME_STATUS)
    _fail(answer, f"it was saved, and SLURM did not requeue it: {fault}; run again")


def _own_job() -> str:
    """The number of this task. SLURM_JOB_ID would not do: of one task of an array it is the
    number of the whole array.
    """
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array is None:
        return os.environ["SLURM_JOB_ID"]
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"


def _waits_already(job: str) -> bool:
    """Whether somebody else has requeued a job, such as SLURM that preempts it."""
    done = _ask_slurm(["squeue", "--noheader", f"--jobs={job}", "--format=%T"])
    return done.stdout.strip() in ("PENDING", "REQUEUED")


def _ask_slurm(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_REQUEUE_SECONDS,
        check=False,
    )
