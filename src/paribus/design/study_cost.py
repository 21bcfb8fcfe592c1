"""What a plan will take: runs, FLOPs, time and disk."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from paribus.analyse.bracket import SIDES
from paribus.design.cells import Cell, ladder_cells, length_cells, reported_cells
from paribus.design.ladder_rates import size_plans
from paribus.design.plan import Plan
from paribus.design.quantities import PlannedArm
from paribus.design.stage_tuning import rates_without_sweep
from paribus.design.training_pace import NO_WORK, StepWork, n_block_calls, step_work, training_pace
from paribus.design.variance import noise_crossing
from paribus.design.wrong_targets import wrongly_taught_arms
from paribus.runtime import select_device
from paribus.spec.design import is_swept, length_arms
from paribus.spec.stages import stage_architectures
from paribus.train.parent import name_of_run
from paribus.workspace import Workspace

# Guesses of what is no step. Of a study: Python, torch, the plan, and the first run, which is slow.
STUDY_SECONDS = 20.0
# Of each run: its model, checkpoints, records and evaluation; on a GPU also kernels that are chosen
# and graphs that are captured, but not code that is compiled for the first time.
RUN_SECONDS = {"cpu": 0.3}
GPU_RUN_SECONDS = 5.0
CHECKPOINT_BYTES_PER_PARAMETER = 12  # of a parameter in a checkpoint: its value and two moments
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
    n_runs_per_seed: int  # of all arms under one more seed, other lengths and stages included
    flops_per_seed: float
    seconds_per_seed: float
    n_length_runs: int = 0  # runs of other lengths
    n_ladder_runs: int = 0  # runs on rungs of the ladder


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
    full = _last_work(arms)
    swept_arms = _swept_arms(plan, arms)
    swept = _last_work(swept_arms)
    before = _last_work(ancestors)
    other = _last_work(longer) * sum(shares)
    n_swept, n_sweep_seeds, (share, last_share) = _sweep_size(plan)
    n_rates, n_noise = n_rates_per_seed(plan), _n_noise_runs(plan)
    n_seeds, n_reported = len(plan.seeds), len(plan.seeds) * n_rates
    per_seed = full * n_rates + before + other
    total = per_seed * n_seeds + before * n_sweep_seeds
    total += (swept * last_share + before * share) * n_swept
    total += _whole_work(plan.arms[0]) * n_noise
    ladder = _ladder_cost(plan)
    total += ladder.work
    pace = training_pace(plan, workspace)
    n_arms, n_lengths = len(arms), n_seeds * len(longer) * len(shares)
    n_before = len(ancestors) * (n_seeds + n_sweep_seeds)
    n_sweep_runs = n_swept * (len(swept_arms) + len(ancestors))
    n_runs = n_reported * n_arms + n_sweep_runs + n_before + n_lengths + n_noise + ladder.n_runs
    n_runs_per_seed = n_arms * n_rates + len(ancestors) + len(longer) * len(shares)
    kind = select_device(workspace.device).type
    return StudyCost(
        n_runs=n_runs,
        n_sweep_runs=n_sweep_runs + ladder.n_sweep_runs,
        flops=total.flops,
        seconds=STUDY_SECONDS + n_runs * run_seconds(kind) + pace.seconds(total),
        n_bytes=_disk_bytes(plan, arms, ancestors) + ladder.n_bytes,
        basis=pace.basis,
        n_runs_per_seed=n_runs_per_seed,
        flops_per_seed=per_seed.flops,
        seconds_per_seed=n_runs_per_seed * run_seconds(kind) + pace.seconds(per_seed),
        n_length_runs=n_lengths,
        n_ladder_runs=ladder.n_ladder_runs,
    )


class _LadderCost(NamedTuple):
    """What all runs on rungs of a ladder take, those of its sweeps too."""

    n_runs: int  # without those that are reported runs, too
    n_sweep_runs: int
    n_ladder_runs: int  # with them, and without sweeps
    work: StepWork
    n_bytes: float


def _ladder_cost(plan: Plan) -> _LadderCost:
    if plan.design.ladder is None:
        return _LadderCost(0, 0, 0, NO_WORK, 0.0)
    n_runs, work, n_bytes = 0, NO_WORK, 0.0
    n_rates, _, (_, share) = _sweep_size(plan)
    n_swept = 0
    for own in size_plans(plan):
        for arm in own.plan.arms:
            n_swept += n_rates
            work += _whole_work(arm) * (n_rates * share)
            n_bytes += n_rates * _checkpoint_bytes(arm, share)
    n_seeds = min(plan.design.ladder.n_seeds, len(plan.seeds))
    for rung in plan.rungs:
        for arm, n_tokens in itertools.product(rung.arms, rung.tokens):
            n_steps = rung.n_steps(arm, n_tokens)
            n_runs += n_seeds
            work += step_work(arm) * (n_seeds * n_steps)
            n_bytes += n_seeds * _checkpoint_bytes(arm, n_steps / arm.n_steps)
    shared_cells = _twice_counted_cells(plan)
    for cell in shared_cells:
        arm = next(arm for arm in plan.arms if arm.name == cell.arm)
        work -= step_work(arm) * cell.n_steps
        n_bytes -= _checkpoint_bytes(arm, cell.n_steps / arm.n_steps)
    return _LadderCost(n_runs + n_swept - len(shared_cells), n_swept, n_runs, work, n_bytes)


def _twice_counted_cells(plan: Plan) -> list[Cell]:
    """Runs on the ladder that are reported runs, too, or runs of another length. Which they are is
    known where rates on the ladder follow from those of the base.
    """
    if size_plans(plan):
        return []
    rates = rates_without_sweep(plan)
    counted = {cell.name for cell in (*reported_cells(plan, rates), *length_cells(plan, rates))}
    cells = (*ladder_cells(plan, rates), *ladder_cells(plan, rates, is_predicted=True))
    return [cell for cell in cells if cell.name in counted]


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
    if tune is None or not is_swept(plan.design):
        return 0, 0, (0.0, 0.0)
    shares = (tune.share, tune.share_of(is_last=True))
    return (tune.n_rates + N_EXTRA_RATES) * tune.n_seeds, tune.n_seeds, shares


def study_bytes(plan: Plan) -> float:
    """Bytes of the checkpoints of all runs, those on a ladder too."""
    arms = [group[0] for group in group_identical_arms(plan)]
    return _disk_bytes(plan, arms, _ancestors(arms)) + _ladder_cost(plan).n_bytes


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


def _last_work(arms: Sequence[PlannedArm]) -> StepWork:
    """What the last stage of each arm takes, all of them together."""
    work = NO_WORK
    for arm in arms:
        work += step_work(arm) * arm.n_steps
    return work


def _whole_work(arm: PlannedArm) -> StepWork:
    """What all stages of an arm take."""
    n_block_steps = 0
    for stage, architecture in zip(arm.run.stages, stage_architectures(arm.run), strict=True):
        n_calls = n_block_calls(architecture, stage.training.n_micro_batches)
        n_block_steps += stage.training.n_steps * n_calls
    return StepWork(arm.total("training_flops"), n_block_steps)


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


def run_seconds(device_type: str) -> float:
    """What a run takes beside its steps."""
    return RUN_SECONDS.get(device_type, GPU_RUN_SECONDS)
