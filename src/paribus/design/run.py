"""A study from its plan to its last run, however often it is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paribus.analyse.shapes import readable_rates
from paribus.design.cells import Cell, bracket_cells, grid_of, length_cells, reported_cells, sweep_cells
from paribus.design.crew import Crew, Means, Watcher
from paribus.design.execute import Done, execute, own_part
from paribus.design.perform import settled
from paribus.design.plan import Plan
from paribus.design.plan_table import plan_record
from paribus.design.tune import (
    grown,
    more_rates,
    optima,
    rates_of,
    rates_record,
    require_fair,
    require_tunable,
    sweep_scores,
)
from paribus.design.variance import variance_cells
from paribus.errors import RecordError
from paribus.record import Lock, Study, differences, environments_of, fields_apart, parts_apart
from paribus.record.file_names import PLAN_LOCK_FILE
from paribus.record.plan_file import read_plan

Stage = Callable[[str, Sequence[Cell], float], Watcher]  # its name, its runs, and the FLOPs of what comes after


@dataclass(frozen=True)
class Carried:
    """How far a study got: what failed, what other shards still have to do, and the rates that were found."""

    failed: dict[str, str]
    waiting: int
    rates: dict[str, float] | None


def frozen(plan: Plan, study: Study) -> None:
    """The plan on disk, and its lock: that first, for what changed is told by the plan that is still there."""
    code = plan.environment["code"]
    study.require_no_newer_plan()
    study.freeze(plan.fingerprint, plan.design_fingerprint, plan.rule, code, _fields_changed(plan, study))
    study.write_plan(plan_record(plan).table)


def proposed(plan: Plan, study: Study) -> str | None:
    """Freeze a plan of which nothing was run; otherwise what running it would change, and nothing is written."""
    said = departure(plan, study)
    if said is None:
        frozen(plan, study)
    return said


def departure(plan: Plan, study: Study) -> str | None:
    """What running a plan changes of one that has results; None where it changes nothing that counts."""
    before = study.lock()
    if before is None or before.latest == plan.fingerprint or not study.has_result():
        return None
    now = Lock(plan.fingerprint, plan.design_fingerprint, plan.rule, plan.environment["code"], "")
    what = "; ".join((parts_apart(before, now), *_fields_changed(plan, study)))
    return (
        f"{study.folder} has results of the plan {before.latest[:16]}; running this one is recorded as a change: {what}"
    )


def _fields_changed(plan: Plan, study: Study) -> tuple[str, ...]:
    """Where a plan parts from the one on disk; nothing where that cannot be read."""
    try:
        before = read_plan(study)
    except RecordError:
        return ()
    return fields_apart(before, plan_record(plan))


def carry_out(plan: Plan, study: Study, means: Means, watch: Stage) -> Carried:
    """Sweeps first, then the reported runs, then those of other lengths, each made at most once."""
    _require_one_environment(_foreseen(plan, study), plan, study, means)
    with Crew(means) as crew:
        for arm in plan.arms:
            crew.verified_text(arm.built)
        _require_nobody_at_work(plan, study)
        frozen(plan, study)
        carried = _carried_out(plan, study, crew, watch)
        _require_own_plan(plan, study)
        return carried


def _require_nobody_at_work(plan: Plan, study: Study) -> None:
    """RecordError where a process is carrying out another plan of this study, such as one made with other text."""
    before = study.lock()
    if before is None or before.latest == plan.fingerprint or not study.is_at_work():
        return
    what = "; ".join(_fields_changed(plan, study)) or "the two differ in more than the design"
    raise RecordError(
        f"{study.folder} is being carried out by the plan {before.latest[:16]}, and this one is "
        f"{plan.fingerprint[:16]}: {what}; wait until that one is done, or carry this one out under another --name"
    )


def _require_own_plan(plan: Plan, study: Study) -> None:
    """RecordError where another process has frozen another plan meanwhile: no run of this one counts there."""
    now = study.lock()
    if now is None or now.latest != plan.fingerprint:
        there = "none" if now is None else now.latest[:16]
        raise RecordError(
            f"{study.folder} was begun by the plan {plan.fingerprint[:16]}, and its {PLAN_LOCK_FILE} now holds "
            f"{there}: another process changed it; carry one plan out at a time, each under its own --name"
        )


def _carried_out(plan: Plan, study: Study, crew: Crew, watch: Stage) -> Carried:
    rates = _base_rates(plan)
    if plan.design.tune is not None:
        swept, done = _swept(plan, study, crew, watch)
        if swept is None:
            return Carried(done.failed, len(done.elsewhere), None)
        rates = swept
        _require_rates_of_series(plan, rates)
    else:
        study.forget_rates()
    rounds = _rounds(plan, rates)
    _note_older(rounds["runs"], study)
    study.add_cells(cell.placed for own in rounds.values() for cell in own)
    failed: dict[str, str] = {}
    n_waiting = 0
    later = [own_part(own, crew.means.shard) for own in rounds.values()]
    for name, own in rounds.items():
        mine, *later = later
        rest = sum(cell.flops for others in later for cell in others)
        done = execute(own, study, crew, watch(name, mine, rest))
        failed |= done.failed
        n_waiting += len(done.elsewhere)
    return Carried(failed, n_waiting, rates)


def _require_rates_of_series(plan: Plan, rates: Mapping[str, float]) -> None:
    """RecordError where a later study of a series would train at other rates than the first, whose sweep it shares."""
    first = None if plan.series is None else plan.series.rates
    apart = [arm for arm, rate in rates.items() if first is not None and first.get(arm) != rate]
    if apart and first is not None and plan.series is not None:
        arm = apart[0]
        raise RecordError(
            f"{plan.name}: the sweep of {plan.series.first} found the rate {first.get(arm)} for {arm}, and now it "
            f"comes out as {rates[arm]}; use the version that the series was begun with, or begin a new study by --name"
        )


def _foreseen(plan: Plan, study: Study) -> list[Cell | None]:
    """Every cell that can be named by now: sweeps, and reported runs where rates are known; None for those to come."""
    if plan.design.tune is None:
        return [*_all_cells(plan, _base_rates(plan))]
    known = _known_rates(plan, study)
    swept = sweep_cells(plan, grid_of(plan.design, plan.arms))
    if known is None:
        return [*swept, None]
    return [*swept, *_all_cells(plan, known)]


def _rounds(plan: Plan, rates: Mapping[str, float]) -> dict[str, tuple[Cell, ...]]:
    """What is run at the tuned rates, round by round: the reported runs first."""
    found = {
        "runs": reported_cells(plan, rates),
        "bracket": bracket_cells(plan, rates),
        "lengths": length_cells(plan, rates),
        "noise": variance_cells(plan, rates),
    }
    return {name: cells for name, cells in found.items() if cells}


def _all_cells(plan: Plan, rates: Mapping[str, float]) -> list[Cell]:
    return [cell for own in _rounds(plan, rates).values() for cell in own]


def _known_rates(plan: Plan, study: Study) -> dict[str, float] | None:
    """What sweeps of these arms have found so far; None where that cannot be read, for it is found again."""
    arms = [arm.name for arm in plan.arms]
    try:
        known = readable_rates(study, arms)
    except RecordError:
        return None
    return None if known is None or set(known) != set(arms) else {arm: known[arm]["rate"] for arm in arms}


def _base_rates(plan: Plan) -> dict[str, float]:
    return {arm.name: arm.run.stages[-1].training.optimizer.rate for arm in plan.arms}


def _require_one_environment(cells: Sequence[Cell | None], plan: Plan, study: Study, means: Means) -> None:
    """RecordError where runs to be made would stand beside others made otherwise: they are not pooled silently."""
    there = [cell for cell in cells if cell is not None and settled(cell, study)]
    if means.accept_environment or len(there) == len(cells):
        return
    apart: dict[str, tuple[Any, Any]] = {}
    for name in dict.fromkeys(cell.name for cell in there):
        apart |= differences(environments_of(study.root / name)[-1], plan.environment)
    if apart:
        listed = "; ".join(f"{name} was {then}, is {now}" for name, (then, now) in apart.items())
        raise RecordError(
            f"{study.folder}: runs of it were made under another environment: {listed}; go on under the former one, "
            f"begin in another folder by --runs, or give --accept-environment, which the verdict then tells"
            f"{_of_threads(apart, plan)}"
        )


def _of_threads(apart: Mapping[str, Any], plan: Plan) -> str:
    """Where it is threads that differ, the option that decides them."""
    if "n_threads" not in apart or plan.environment["device"] != "cpu":
        return ""
    return "; on a CPU --jobs 2 or more gives each run one thread, --jobs 1 gives it all"


def _note_older(cells: Sequence[Cell], study: Study) -> None:
    """Reported runs that were done before this study ever named them are written into its lock: they were known."""
    named = {cell.run for cell in study.cells()}
    done = ("finished", "diverged")
    older = {cell.name for cell in cells if cell.name not in named and study.outcome(cell.name)[0] in done}
    if older:
        study.note_older(len(older))


def _swept(plan: Plan, study: Study, crew: Crew, watch: Stage) -> tuple[dict[str, float] | None, Done]:
    """The rate of each arm; None where runs failed or other shards are not done.

    Round by round: the grid for all arms, longer where one needs it, then rates of each arm's own. What the next round
    tries follows from the scores so far, so that whoever goes on later makes the same runs.
    """
    grid, more = grid_of(plan.design, plan.arms), dict[str, tuple[float, ...]]()
    require_fair(plan.design, grid)
    n_extensions = 0
    later = sum(cell.flops for cell in own_part(_all_cells(plan, _base_rates(plan)), crew.means.shard))
    while True:
        cells = sweep_cells(plan, grid, more)
        study.add_cells(cell.placed for cell in cells)
        done = execute(cells, study, crew, watch("sweep", own_part(cells, crew.means.shard), later))
        if done.failed or done.elsewhere:
            return None, done
        swept = sweep_scores(cells, study)
        found = optima(swept, grid)
        longer = grown(grid, found, n_extensions)
        if longer != grid:
            grid, n_extensions = longer, n_extensions + 1
            continue
        require_tunable(found, swept)
        if not any(optimum.tries for optimum in found.values()):
            rates = rates_of(found)
            study.write_rates(rates_record(swept, grid, found, rates))
            return rates, done
        more = more_rates(more, found)
