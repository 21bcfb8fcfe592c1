"""How many runs should share a GPU: by size, and by what the machine allows."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from trained_study import make_small_plan

from paribus.cli.terminal.console import console
from paribus.cli.terminal.plan_tables import print_proposed_jobs
from paribus.design.plan import Plan
from paribus.design.proposed_jobs import GpuLimits, ProposedJobs, gpu_limits, propose_jobs

GPU = GpuLimits(n_bytes=140 << 30, n_gpus=1, n_cores=64)


@pytest.fixture(scope="module")
def plan(study_cache: Path) -> Plan:
    return make_small_plan(study_cache, {})


def of_size(plan: Plan, *sizes: int) -> Plan:
    """The plan with arms of other sizes, all of the same work."""
    arms = []
    for arm, size in zip(plan.arms, sizes, strict=True):
        arms.append(replace(arm, price=replace(arm.price, parameters=size)))
    return replace(plan, arms=tuple(arms))


@pytest.mark.parametrize(
    ("sizes", "n_jobs"),
    [
        ((2_700_000, 2_700_000, 2_700_000), 12),
        ((4_300_000, 4_300_000, 4_300_000), 4),
        ((14_000_000, 14_000_000, 14_000_000), 2),
        ((99_000_000, 99_000_000, 99_000_000), 1),
        ((1_000_000, 4_300_000, 99_000_000), 4),  # where half of the work is
    ],
)
def test_small_models_share_a_gpu(plan: Plan, sizes: tuple[int, ...], n_jobs: int) -> None:
    proposed = propose_jobs(of_size(plan, *sizes), 100, GPU)
    assert (proposed.n_jobs, proposed.limit) == (n_jobs, "its size")


@pytest.mark.parametrize(
    ("machine", "n_runs", "expected"),
    [
        (replace(GPU, n_cores=6), 100, (6, "CPU cores")),
        (replace(GPU, n_bytes=4 << 30), 100, (3, "memory")),
        (GPU, 5, (5, "the number of runs")),
        (replace(GPU, n_gpus=2), 100, (24, "its size")),
        (replace(GPU, n_bytes=1 << 20), 100, (1, "memory")),
    ],
)
def test_memory_cores_and_runs_are_limits(
    plan: Plan, machine: GpuLimits, n_runs: int, expected: tuple[int, str]
) -> None:
    proposed = propose_jobs(plan, n_runs, machine)
    assert (proposed.n_jobs, proposed.limit) == expected


def test_nothing_is_proposed_for_a_cpu() -> None:
    assert gpu_limits(torch.device("cpu")) is None


@pytest.mark.parametrize(
    ("proposed", "words"),
    [
        (ProposedJobs(12, 2_700_000, "its size"), "--jobs 12: at 2.7M parameters, where half"),
        (ProposedJobs(1, 99_000_000, "its size"), "at 99M parameters, one run fills a GPU"),
        (ProposedJobs(1, 2_700_000, "memory"), "--jobs 1, for memory"),
    ],
)
def test_a_proposal_says_why(
    proposed: ProposedJobs, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_proposed_jobs(proposed, console())
    assert words in capsys.readouterr().out
