"""Nodes that are not fit: what waits in the queue is kept off them, or taken out."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress

from paribus.slurm.submission import Submission

_PATIENCE_SECONDS = 60


def keep_off(submissions: Sequence[Submission], nodes: str) -> None:
    """Let the tasks of arrays that still wait begin on other nodes. Where SLURM does not, a task
    that begins there finds its node unfit.
    """
    for submission in submissions:
        if submission.job is not None:
            _ask(["scontrol", "update", f"JobId={submission.job}", f"ExcNodeList={nodes}"])


def cancel_waiting(submissions: Sequence[Submission]) -> None:
    """Take the tasks of arrays that still wait out of the queue."""
    jobs = [one.job for one in submissions if one.job is not None]
    if jobs:
        _ask(["scancel", "--state=PENDING", *jobs])


def _ask(command: Sequence[str]) -> None:
    """A command of SLURM that may fail, for instance because a task runs by now."""
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
