"""How many runs one GPU should carry side by side: a small model leaves most of it idle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from paribus.design.plan import Plan
from paribus.design.quantities import PlannedArm
from paribus.train.memory import training_bytes

# Up to so many parameters, so many runs share a GPU. Measured on an H200 with MPS: at 2.7M
# parameters, 12 runs read 4.1M tokens a second; at 4.3M, 4 runs read 5.6M and one 2.2 to 3.7M.
# Above 10M nothing was measured: 2 is a guess.
SHARED_BY = ((3_000_000, 12), (10_000_000, 4), (30_000_000, 2))
MEMORY_SHARE = 0.8  # of the GPU that runs may take together
# What a run takes beside what it cannot do without: the context of its process, and for each byte
# of the latter what layers keep for their gradients.
PROCESS_BYTES, KEPT_TIMES = 1 << 30, 16


@dataclass(frozen=True)
class ProposedJobs:
    """A number of jobs, and what it follows from."""

    n_jobs: int
    parameters: int  # of the run in the middle of all FLOPs
    limit: str  # what keeps it from being more


@dataclass(frozen=True)
class GpuLimits:
    """What bounds the number of jobs."""

    n_bytes: int  # of one GPU
    n_gpus: int
    n_cores: int


def gpu_limits(device: torch.device) -> GpuLimits | None:
    """The GPUs of this machine; None where runs are made on none."""
    if device.type != "cuda":
        return None
    n_bytes = torch.cuda.get_device_properties(device).total_memory
    n_gpus = 1 if device.index is not None else torch.cuda.device_count()
    return GpuLimits(n_bytes, n_gpus, os.cpu_count() or 1)


def propose_jobs(plan: Plan, n_runs: int, machine: GpuLimits) -> ProposedJobs:
    """As many as the size of most of the work asks for, and memory, cores and runs allow."""
    weighted = sorted(_weighted_arms(plan), key=lambda pair: pair[1].price.parameters)
    half, parameters = sum(flops for flops, _ in weighted) / 2, 0
    for flops, arm in weighted:
        parameters = arm.price.parameters
        half -= flops
        if half <= 0:
            break
    needed = max(PROCESS_BYTES + KEPT_TIMES * training_bytes(arm.run) for _, arm in weighted)
    limits = {
        "its size": _shared_by(parameters),
        "memory": max(1, int(MEMORY_SHARE * machine.n_bytes / needed)),
        "CPU cores": max(1, machine.n_cores // machine.n_gpus),
        "the number of runs": max(1, -(-n_runs // machine.n_gpus)),
    }
    limit = min(limits, key=lambda name: limits[name])
    return ProposedJobs(limits[limit] * machine.n_gpus, parameters, limit)


def _weighted_arms(plan: Plan) -> Iterator[tuple[float, PlannedArm]]:
    """Every arm at every size with the FLOPs of one seed."""
    for arm in plan.arms:
        yield arm.total("training_flops"), arm
    for rung in plan.rungs:
        for arm in rung.arms:
            n_steps = sum(rung.n_steps(arm, n_tokens) for n_tokens in rung.tokens)
            yield arm.step_cost.training_flops * n_steps, arm


def _shared_by(parameters: int) -> int:
    for most, n_jobs in SHARED_BY:
        if parameters <= most:
            return n_jobs
    return 1
