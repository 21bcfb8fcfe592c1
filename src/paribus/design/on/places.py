"""The scheduler of each place where runs can be carried out."""

from __future__ import annotations

from typing import assert_never

from paribus.design.on.local import WorkerPool
from paribus.design.on.scheduler import Scheduler
from paribus.design.on.slurm import SlurmQueue
from paribus.errors import UnsupportedError
from paribus.workspace import Execution, Local, Ray, Slurm


def scheduler_of(execution: Execution) -> Scheduler:
    """Who carries out the runs where an execution says."""
    match execution.on:
        case Local():
            return WorkerPool(execution)
        case Ray():
            raise UnsupportedError("--on ray is not there yet")
        case Slurm():
            return SlurmQueue(execution)
        case _:
            assert_never(execution.on)
