"""The scheduler of each place where runs can be carried out."""

from __future__ import annotations

from typing import assert_never

from paribus.design.on.local import WorkerPool
from paribus.design.on.ray import RayCluster
from paribus.design.on.ray_connection import require_ray
from paribus.design.on.scheduler import Scheduler
from paribus.design.on.slurm import SlurmQueue, require_slurm
from paribus.workspace import Execution, Local, Place, Ray, Slurm


def scheduler_of(execution: Execution) -> Scheduler:
    """Who carries out the runs where an execution says."""
    match execution.on:
        case Local():
            return WorkerPool(execution)
        case Ray():
            return RayCluster(execution)
        case Slurm():
            return SlurmQueue(execution)
        case _:
            assert_never(execution.on)


def require_installed(place: Place) -> None:
    """UnsupportedError where a place needs a package or a program that is not there."""
    match place:
        case Ray():
            require_ray()
        case Slurm():
            require_slurm()
        case Local():
            pass
        case _:
            assert_never(place)
