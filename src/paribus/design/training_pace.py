"""How long steps take on this machine: arithmetic, and calls, which take time however small.

Two small measurements made now say how both compare. Where there are earlier runs of like size on
such a device, their steps say how long it really takes.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from paribus.design.plan import Plan
from paribus.design.quantities import PlannedArm
from paribus.errors import ParibusError, RecordError
from paribus.record import RunEntry, read_environments, read_rows, runs
from paribus.record.file_names import ROWS_FILE
from paribus.record.folder import read_stages
from paribus.record.rows import seconds_without_compiling
from paribus.runtime import select_device
from paribus.spec import Architecture, resolve
from paribus.spec.reading import parse_architecture
from paribus.workspace import Workspace

TYPICAL_UTILISATION = 0.35  # of a plain product's speed that training usually reaches
PRODUCTS_PER_BLOCK = 200  # small products with their gradient that take as long as a block's calls
GPU_BLOCK_SECONDS = 4e-4  # of a block in a step, in a captured graph that has little to compute
MAX_EARLIER_RUNS = 20  # runs that a pace is taken from
# by which a step of a run may have more or less than one of a plan, in FLOPs and in blocks, and
# still be of like size: what tiny steps take beside arithmetic tells nothing of large ones
LIKE_SIZE = 4.0


@dataclass(frozen=True)
class StepWork:
    """What some steps take: FLOPs, and blocks that are called, summed over steps."""

    flops: float
    n_block_steps: float

    def __add__(self, other: StepWork) -> StepWork:
        return StepWork(self.flops + other.flops, self.n_block_steps + other.n_block_steps)

    def __sub__(self, other: StepWork) -> StepWork:
        return self + other * -1

    def __mul__(self, n: float) -> StepWork:
        return StepWork(self.flops * n, self.n_block_steps * n)


NO_WORK = StepWork(0.0, 0.0)


@dataclass(frozen=True)
class StepPace:
    """What arithmetic and calls take, and how it is known."""

    flops_per_second: float
    block_seconds: float
    basis: str
    factor: float = 1.0  # by which earlier runs took longer

    def seconds(self, work: StepWork) -> float:
        arithmetic = work.flops / self.flops_per_second
        return self.factor * (arithmetic + work.n_block_steps * self.block_seconds)


def n_block_calls(architecture: Architecture, n_micro_batches: int) -> int:
    """Blocks that a step calls, those of the encoder too, each once for every micro-batch."""
    spec = resolve(architecture)
    n_encoder = 0 if spec.encoder is None else len(spec.encoder.layers)
    return n_micro_batches * (len(spec.stack.layers) + n_encoder)


def training_pace(plan: Plan, workspace: Workspace) -> StepPace:
    """The pace of the newest runs of like size on such a device, or else what is measured now."""
    pace = measure_pace(select_device(workspace.device))
    planned_steps = list(map(step_work, plan.arms))
    comparable = []
    for entry in runs(workspace.runs_folder):
        is_finished = entry.state == "finished" and entry.last_row is not None
        if is_finished and _device(entry) == plan.environment["device"]:
            comparable.append(entry)
    factors = (_factor(entry, pace, planned_steps) for entry in sorted(comparable, key=_age))
    # a factor is above 0: only None is left out
    earlier = list(itertools.islice(filter(None, factors), MAX_EARLIER_RUNS))
    if not earlier:
        return pace
    basis = _describe_earlier_runs(len(earlier))
    return replace(pace, factor=statistics.median(earlier), basis=basis)


def step_work(arm: PlannedArm) -> StepWork:
    """What a step of the last stage of an arm takes."""
    n_calls = n_block_calls(arm.run.last_architecture, arm.run.last.training.n_micro_batches)
    return StepWork(arm.step_cost.training_flops, n_calls)


def _is_like(step: StepWork, planned_steps: Sequence[StepWork]) -> bool:
    """Is a step as large as one of those of a plan, within a factor?"""
    for planned in planned_steps:
        flops = step.flops / planned.flops
        blocks = step.n_block_steps / planned.n_block_steps
        if all(1 / LIKE_SIZE <= ratio <= LIKE_SIZE for ratio in (flops, blocks)):
            return True
    return False


def measure_pace(device: torch.device) -> StepPace:
    """What a large product and small ones take now."""
    speed = _matmul_speed(device) * TYPICAL_UTILISATION
    if device.type != "cpu":
        return StepPace(speed, GPU_BLOCK_SECONDS, "guessed from one matrix product")
    block_seconds = PRODUCTS_PER_BLOCK * _small_product_seconds()
    return StepPace(speed, block_seconds, "guessed from a few matrix products")


def _describe_earlier_runs(n: int) -> str:
    if n == 1:
        return "at the pace of 1 earlier run"
    return f"at the pace of {n} earlier runs"


def _age(entry: RunEntry) -> float:
    """Smallest for the run that ended last."""
    return -(entry.folder / ROWS_FILE).stat().st_mtime


def _factor(entry: RunEntry, pace: StepPace, planned_steps: Sequence[StepWork]) -> float | None:
    """How much longer a run took than a pace says, the median between rows: what is measured now
    and then is not counted, nor what older runs have compiled. None where its steps are not of
    like size.
    """
    try:
        stage = read_stages(entry.folder)[-1]  # whose rows they are
        architecture = parse_architecture(stage["architecture"])
        n_calls = n_block_calls(architecture, stage["training"]["n_micro_batches"])
        last_row = entry.last_row or {}
        own_step = StepWork(last_row["dense_flops"] / (last_row["step"] + 1), n_calls)
        if not _is_like(own_step, planned_steps):
            return None
        spans = list(_row_spans(entry, n_calls))
    except (ParibusError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    factors = [seconds / pace.seconds(work) for seconds, work in spans if work.flops > 0]
    if not factors:
        return None
    return statistics.median(factors)


def _row_spans(entry: RunEntry, n_calls: int) -> Iterator[tuple[float, StepWork]]:
    """Seconds between each two rows and before the first, and what was done in them."""
    since, before, step_before = 0.0, 0.0, -1
    for row in read_rows(entry.folder / ROWS_FILE).rows:
        seconds, flops, step = seconds_without_compiling(row), row["dense_flops"], row["step"]
        if seconds > since:
            yield seconds - since, StepWork(flops - before, n_calls * (step - step_before))
        since, before, step_before = seconds, flops, step


def _device(entry: RunEntry) -> str | None:
    """What a run was made on; a damaged record is no reason not to plan."""
    try:
        return read_environments(entry.folder)[-1].get("device")
    except RecordError:
        return None


def _matmul_speed(device: torch.device, n: int = 1024) -> float:
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    a = torch.ones(n, n, device=device, dtype=dtype)
    spans = []
    for _ in range(5):
        begin = time.perf_counter()
        (a @ a)[0, 0].item()
        spans.append(time.perf_counter() - begin)
    return 2 * n**3 / min(spans)


def _small_product_seconds(n: int = 16) -> float:
    a = torch.ones(n, n)
    b = torch.ones(n, n, requires_grad=True)
    spans = []
    for _ in range(200):
        begin = time.perf_counter()
        torch.autograd.grad((a @ b).sum(), b)
        spans.append(time.perf_counter() - begin)
    return statistics.median(spans)
