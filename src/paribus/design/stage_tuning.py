"""The rate of every stage of every arm, found alike.

An earlier stage is tuned on the held-out loss of its own objective, and only its best rate is used
further. The last stage is tuned on the primary yardstick's validation split. Its sweep begins from
a parent of full length under the sweep seed. An arm that ends earlier than others is tuned as far
as it goes in the way of theirs, so that what they have in common is the same run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paribus.analyse.schemas import read_rates, read_stage_rates
from paribus.design.cells import Cell, rate_grid, sweep_cells
from paribus.design.execute import ExecutionResult, cells_of_shard, execute_cells
from paribus.design.ladder_rates import ladder_rates_record, read_rung_rates, size_plans
from paribus.design.on.scheduler import Scheduler
from paribus.design.plan import Plan
from paribus.design.study_watcher import StudyWatcher
from paribus.design.tune import (
    extended_grid,
    next_extra_rates,
    rate_optima,
    rates_record,
    require_above_floor,
    require_fair_sweep,
    require_tunable,
    sweep_scores,
    tuned_rates,
    untuned_record,
)
from paribus.design.wrong_targets import wrongly_taught_arms
from paribus.errors import RecordError
from paribus.record import Study


@dataclass(frozen=True)
class TunedPlan:
    """A plan whose earlier stages have their best rates, and the rates of the last stage."""

    plan: Plan
    rates: dict[str, float]  # by arm


@dataclass(frozen=True)
class SweepRunner:
    """Who runs the sweeps of a study, and who watches."""

    scheduler: Scheduler
    watcher: StudyWatcher
    later_flops: float  # of everything that comes after the sweeps


def rates_without_sweep(plan: Plan) -> dict[str, float]:
    """The rate of each arm's last stage: read from finished sweeps, or as the design writes it."""
    if plan.kept_rates:
        return {arm: own["rate"] for arm, own in plan.kept_rates.items()}
    return {arm.name: arm.run.last.training.optimizer.rate for arm in plan.arms}


def tune_stages(
    plan: Plan, study: Study, runner: SweepRunner
) -> tuple[TunedPlan | None, ExecutionResult]:
    """The best rates of all stages, stage by stage; None where runs failed or other shards are
    not done.
    """
    records = []
    n_stages = max(len(arm.run.stages) for arm in plan.arms)
    result = ExecutionResult({}, ())
    for number in range(n_stages - 1):
        part = _with_stages(plan, number + 1)
        record, result = _tune_rates(part, study, runner, is_last=False)
        if record is None:
            return None, result
        records.append(record)
        plan = _with_stage_rates(plan, number, _rates_of(record))
    study.write_stage_rates(records)
    record, result = _tune_rates(_with_stages(plan, n_stages), study, runner, is_last=True)
    if record is None:
        return None, result
    last_records = _last_stage_records(plan, [*records, record])
    study.write_rates(last_records)
    return TunedPlan(plan, _rates_of(last_records)), result


def tune_ladder(
    plan: Plan, study: Study, runner: SweepRunner
) -> tuple[dict[int, dict[str, float]] | None, ExecutionResult]:
    """The rates of every arm at every size of the ladder, by the power law of the sweeps at a few
    of them; None where no size is swept, where runs failed, or where other shards are not done.
    """
    sizes = size_plans(plan)
    if not sizes or read_rung_rates(plan, study) is None:
        study.remove_ladder_rates()  # what is there is of another plan
    result, sweeps = ExecutionResult({}, ()), dict[int, dict[str, dict[str, float]]]()
    for own in sizes:
        record, result = _tune_rates(own.plan, study, runner, is_last=True, size=own.size)
        if record is None:
            return None, result
        sweeps[own.size] = record
    if not sweeps:
        return None, result
    study.write_ladder_rates(ladder_rates_record(plan, sweeps))
    return read_rung_rates(plan, study), result


def _last_stage_records(
    plan: Plan, records: Sequence[Mapping[str, dict[str, float]]]
) -> dict[str, dict[str, float]]:
    """What the sweep of each arm's last stage found; not every arm has as many stages."""
    return {arm.name: records[len(arm.run.stages) - 1][arm.name] for arm in plan.arms}


def known_tuning(plan: Plan, study: Study) -> TunedPlan | None:
    """What sweeps of these arms have found so far; None where that cannot be read, for it is
    found again.
    """
    names = [arm.name for arm in plan.arms]
    try:
        rates, stage_rates = read_rates(study, names), read_stage_rates(study, names)
    except RecordError:
        return None
    n_stages = max(len(arm.run.stages) for arm in plan.arms)
    if rates is None or set(rates) != set(names) or len(stage_rates) != n_stages - 1:
        return None
    for number, record in enumerate(stage_rates):
        plan = _with_stage_rates(plan, number, _rates_of(record))
    return TunedPlan(plan, _rates_of(rates))


def first_sweep(plan: Plan) -> tuple[Cell, ...]:
    """The first cells that a plan with a sweep runs."""
    if all(len(arm.run.stages) == 1 for arm in plan.arms):
        return sweep_cells(plan, rate_grid(plan.design, plan.arms))
    part = _with_stages(plan, 1)
    return sweep_cells(part, rate_grid(part.design, part.arms), is_last=False)


def _rates_of(record: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {arm: own["rate"] for arm, own in record.items()}


def _with_stages(plan: Plan, n_stages: int) -> Plan:
    """The plan of the first stages alone, for the arms that have as many."""
    arms = []
    for arm in plan.arms:
        if len(arm.run.stages) >= n_stages:
            arms.append(arm.first_stages(n_stages))
    return replace(plan, arms=tuple(arms), frozen_design=plan.design_fingerprint)


def _with_stage_rates(plan: Plan, number: int, rates: Mapping[str, float]) -> Plan:
    """The plan with the rates of one of its stages."""
    arms = []
    for arm in plan.arms:
        if arm.name in rates:
            arm = replace(arm, run=arm.run.with_rate(number, rates[arm.name]))
        arms.append(arm)
    return replace(plan, arms=tuple(arms), frozen_design=plan.design_fingerprint)


def _with_unswept(record: dict[str, dict[str, float]], plan: Plan) -> dict[str, dict[str, float]]:
    """What the sweeps found, with the arms that were not swept."""
    baseline = plan.design.baseline
    for arm in wrongly_taught_arms(plan.design, plan.arms):
        record[arm] = untuned_record(baseline, record[baseline])
    return record


def _tune_rates(
    plan: Plan, study: Study, runner: SweepRunner, *, is_last: bool, size: int | None = None
) -> tuple[dict[str, dict[str, float]] | None, ExecutionResult]:
    """What the sweep of each arm found; None where runs failed or other shards are not done.

    Round by round: the grid for all arms, longer where one needs it, then rates of each arm's own.
    What the next round tries follows from the scores so far, so that whoever goes on later makes
    the same runs.
    """
    grid, more = rate_grid(plan.design, plan.arms), dict[str, tuple[float, ...]]()
    require_fair_sweep(plan.design, grid)
    written_rate = plan.arms[0].run.last.training.optimizer.rate
    n_extensions, scheduler = 0, runner.scheduler
    name = "sweep" if is_last else f"stage {len(plan.arms[0].run.stages)} sweep"
    if size is not None:
        name = f"sweep at d_model {size}"
    while True:
        cells = sweep_cells(plan, grid, more, is_last=is_last, size=size)
        study.add_cells([cell.record for cell in cells])
        mine = cells_of_shard(cells, scheduler.execution.shard)
        watcher = runner.watcher.begin_round(name, mine, runner.later_flops)
        result = execute_cells(cells, study, scheduler, watcher)
        if result.failures or result.open_elsewhere:
            return None, result
        sweeps = sweep_scores(cells, study)
        require_above_floor(sweeps, plan.arms[0].name)
        optima = rate_optima(sweeps, grid, written_rate)
        longer = extended_grid(grid, optima, n_extensions)
        if longer != grid:
            grid, n_extensions = longer, n_extensions + 1
            continue
        require_tunable(optima, sweeps)
        if not any(optimum.tries for optimum in optima.values()):
            record = rates_record(sweeps, grid, optima, tuned_rates(optima))
            return _with_unswept(record, plan), result
        more = next_extra_rates(more, optima)
