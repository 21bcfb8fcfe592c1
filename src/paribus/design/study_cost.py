"""What a plan will take: runs, FLOPs, time and disk."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from paribus.analyse.bracket import SIDES
from paribus.design.ladder_rates import size_plans
from paribus.design.plan import Plan
from paribus.design.quantities import PlannedArm
from paribus.design.variance import noise_crossing
from paribus.design.wrong_targets import wrongly_taught_arms
from paribus.errors import RecordError
from paribus.record import RunEntry, read_environments, read_rows, runs
from paribus.record.file_names import ROWS_FILE
from paribus.record.rows import seconds_without_compiling
from paribus.runtime import select_device
from paribus.spec.design import length_arms
from paribus.train.parent import name_of_run
from paribus.workspace import Workspace

TYPICAL_UTILISATION = 0.35  # of a plain product's speed that training usually reaches
CHECKPOINT_BYTES_PER_PARAMETER = 12  # of a parameter in a checkpoint: its value and two moments
MAX_EARLIER_RUNS = 20  # runs that a pace is taken from
N_EXTRA_RATES = (
    3  # of an arm beside the grid: two beside its vertex, and one where a neighbour is of no use
)


@dataclass(frozen=True)
class StudyCost:
    """An estimate, and what it rests on; `n_runs` counts sweeps and runs of other lengths, too."""

    n_runs: int
    n_sweep_runs: int
    flops: float
    seconds: float
    n_bytes: float
    basis: str
    flops_per_seed: float  # of all arms under one more seed, other lengths included
    n_length_runs: int = 0  # runs of other lengths
    n_ladder_runs: int = 0  # runs on rungs of the ladder

    @property
    def seconds_per_seed(self) -> float:
        return self.seconds * self.flops_per_seed / self.flops


def estimate_cost(plan: Plan, workspace: Workspace) -> StudyCost:
    """An upper bound but for extensions of the grid: of an arm's own rates, as many are counted
    as are mostly needed.

    Runs made already are counted too, arms that differ in name only once.
    """
    design = plan.design
    arms = [group[0] for group in group_identical_arms(plan)]
    ancestors = _ancestors(arms)
    shares = [share for share in design.lengths or () if share < 1]
    longer = _length_groups(plan)
    # of one seed at one rate
    full = sum(_last_flops(arm) for arm in arms)
    swept_arms = _swept_arms(plan, arms)
    swept = sum(_last_flops(arm) for arm in swept_arms)
    before = sum(_last_flops(arm) for arm in ancestors)
    other = sum(_last_flops(arm) * sum(shares) for arm in longer)
    n_swept, n_sweep_seeds, (share, last_share) = _sweep_size(plan)
    n_rates, n_noise = n_rates_per_seed(plan), _n_noise_runs(plan)
    n_seeds, n_reported = len(plan.seeds), len(plan.seeds) * n_rates
    per_seed = full * n_rates + before + other
    total = per_seed * n_seeds + before * n_sweep_seeds
    total += (swept * last_share + before * share) * n_swept
    total += n_noise * plan.arms[0].total("training_flops")
    ladder = _ladder_cost(plan)
    total += ladder.flops
    speed, basis = _training_speed(plan, workspace)
    n_arms, n_lengths = len(arms), n_seeds * len(longer) * len(shares)
    n_before = len(ancestors) * (n_seeds + n_sweep_seeds)
    return StudyCost(
        n_runs=n_reported * n_arms
        + n_swept * (len(swept_arms) + len(ancestors))
        + n_before
        + n_lengths
        + n_noise
        + ladder.n_runs,
        n_sweep_runs=n_swept * (len(swept_arms) + len(ancestors)) + ladder.n_sweep_runs,
        flops=total,
        seconds=total / speed,
        n_bytes=_disk_bytes(plan, arms, ancestors) + ladder.n_bytes,
        basis=basis,
        flops_per_seed=per_seed,
        n_length_runs=n_lengths,
        n_ladder_runs=ladder.n_runs - ladder.n_sweep_runs,
    )


class _LadderCost(NamedTuple):
    """What all runs on rungs of a ladder take, those of its sweeps too."""

    n_runs: int
    n_sweep_runs: int
    flops: float
    n_bytes: float


def _ladder_cost(plan: Plan) -> _LadderCost:
    if plan.design.ladder is None:
        return _LadderCost(0, 0, 0.0, 0.0)
    n_runs, flops, n_bytes = 0, 0.0, 0.0
    n_rates, _, (_, share) = _sweep_size(plan)
    n_swept = 0
    for own in size_plans(plan):
        for arm in own.plan.arms:
            n_swept += n_rates
            flops += n_rates * share * arm.total("training_flops")
            n_bytes += n_rates * _checkpoint_bytes(arm, share)
    n_seeds = min(plan.design.ladder.n_seeds, len(plan.seeds))
    for rung in plan.rungs:
        for arm, n_tokens in itertools.product(rung.arms, rung.tokens):
            n_steps = rung.n_steps(arm, n_tokens)
            n_runs += n_seeds
            flops += n_seeds * n_steps * arm.step_cost.training_flops
            n_bytes += n_seeds * _checkpoint_bytes(arm, n_steps / arm.n_steps)
    return _LadderCost(n_runs + n_swept, n_swept, flops, n_bytes)


def _n_noise_runs(plan: Plan) -> int:
    """Runs of the baseline that only show where the noise comes from."""
    crossing = noise_crossing(plan)
    if crossing is None:
        return 0
    return crossing.n_new_runs


def _sweep_size(plan: Plan) -> tuple[int, int, tuple[float, float]]:
    """Runs and seeds of the sweep of one stage of one arm, and their share of the full length: of
    earlier stages, and of the last.
    """
    tune = plan.design.tune
    if tune is None:
        return 0, 0, (0.0, 0.0)
    shares = (tune.share, tune.share_of(is_last=True))
    return (tune.n_rates + N_EXTRA_RATES) * tune.n_seeds, tune.n_seeds, shares


def _disk_bytes(plan: Plan, arms: Sequence[PlannedArm], ancestors: Sequence[PlannedArm]) -> float:
    """Bytes of the checkpoints of all runs."""
    n_swept, n_sweep_seeds, (share, last_share) = _sweep_size(plan)
    n_seeds, n_reported = len(plan.seeds), len(plan.seeds) * n_rates_per_seed(plan)
    n_bytes = 0
    for arm in arms:
        n_bytes += n_reported * _checkpoint_bytes(arm, 1.0)
    for arm in _swept_arms(plan, arms):
        n_bytes += n_swept * _checkpoint_bytes(arm, last_share)
    for arm in ancestors:
        n_bytes += (n_seeds + n_sweep_seeds) * _checkpoint_bytes(arm, 1.0)
        n_bytes += n_swept * _checkpoint_bytes(arm, share)
    shorter = [length for length in plan.design.lengths or () if length < 1]
    for arm, length in itertools.product(_length_groups(plan), shorter):
        n_bytes += n_seeds * _checkpoint_bytes(arm, length)
    return n_bytes + _n_noise_runs(plan) * _checkpoint_bytes(plan.arms[0], 1.0)


def _swept_arms(plan: Plan, arms: Sequence[PlannedArm]) -> list[PlannedArm]:
    """Those of some arms whose last stage has a sweep, if the design has one."""
    wrong = wrongly_taught_arms(plan.design, plan.arms)
    return [arm for arm in arms if arm.name not in wrong]


def _last_flops(arm: PlannedArm) -> float:
    """FLOPs of the last stage."""
    return arm.step_cost.training_flops * arm.n_steps


def _ancestors(arms: Sequence[PlannedArm]) -> list[PlannedArm]:
    """The stages before the last, each as an arm that ends there; those that arms share once, and
    not those that are an arm themselves.
    """
    ancestors: dict[str, PlannedArm] = {}
    names = set[str]()
    for arm in arms:
        names.add(name_of_run(arm.run, arm.texts))
        for n_stages in range(1, len(arm.run.stages)):
            part = arm.first_stages(n_stages)
            ancestors.setdefault(name_of_run(part.run, part.texts), part)
    return [part for name, part in ancestors.items() if name not in names]


def _length_groups(plan: Plan) -> list[PlannedArm]:
    """One arm of every group that is one run a seed and is trained at other lengths."""
    names, arms = set(length_arms(plan.design)), []
    for group in group_identical_arms(plan):
        if names.intersection([arm.name for arm in group]):
            arms.append(group[0])
    return arms


def n_rates_per_seed(plan: Plan) -> int:
    """At how many rates an arm is run under each reported seed."""
    tune = plan.design.tune
    if tune is None or not tune.bracket:
        return 1
    return 1 + len(SIDES)


def group_identical_arms(plan: Plan) -> list[tuple[PlannedArm, ...]]:
    """Arms in groups that are one run a seed, for they differ in name only; the baseline's
    first.
    """
    groups: dict[str, list[PlannedArm]] = {}
    for arm in plan.arms:
        name = name_of_run(arm.run, arm.texts)
        groups.setdefault(name, []).append(arm)
    return list(map(tuple, groups.values()))


def _checkpoint_bytes(arm: PlannedArm, share: float) -> int:
    """Bytes of the checkpoints of a run over a share of the steps: the last few and the best,
    if there are so many.
    """
    training = arm.run.last.training
    n_written = math.ceil(arm.n_steps * share / training.checkpoint_every)
    n_checkpoints = min(training.keep_last + 1, n_written)
    return arm.price.parameters * CHECKPOINT_BYTES_PER_PARAMETER * n_checkpoints


def _describe_earlier_runs(n: int) -> str:
    if n == 1:
        return "at the pace of 1 earlier run"
    return f"at the pace of {n} earlier runs"


def _training_speed(plan: Plan, workspace: Workspace) -> tuple[float, str]:
    """FLOPs a second: of the newest runs on such a device, or else of a product measured now."""
    comparable = []
    for entry in runs(workspace.runs_folder):
        is_finished = entry.state == "finished" and entry.last_row is not None
        if is_finished and _device(entry) == plan.environment["device"]:
            comparable.append(entry)
    paces = map(_pace, sorted(comparable, key=_age))
    # a pace is above 0: only None is left out
    earlier = list(itertools.islice(filter(None, paces), MAX_EARLIER_RUNS))
    if earlier:
        return statistics.median(earlier), _describe_earlier_runs(len(earlier))
    speed = _matmul_speed(select_device(workspace.device))
    return speed * TYPICAL_UTILISATION, "guessed from one matrix product"


def _age(entry: RunEntry) -> float:
    """Smallest for the run that ended last."""
    return -(entry.folder / ROWS_FILE).stat().st_mtime


def _pace(entry: RunEntry) -> float | None:
    """FLOPs a second, the median between rows: what is measured now and then is not counted, nor
    what older runs have compiled.
    """
    try:
        paces = _row_paces(read_rows(entry.folder / ROWS_FILE).rows)
    except (RecordError, KeyError, TypeError):
        return None
    pace = statistics.median(paces) if paces else 0.0
    if pace > 0:
        return pace
    return None


def _row_paces(rows: Iterable[dict[str, Any]]) -> list[float]:
    """FLOPs a second between each two rows, and before the first."""
    paces, since, before = [], 0.0, 0.0
    for row in rows:
        seconds, flops = seconds_without_compiling(row), row["dense_flops"]
        if seconds > since:
            paces.append((flops - before) / (seconds - since))
        since, before = seconds, flops
    return paces


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
