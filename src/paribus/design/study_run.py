"""A study from its plan to its last run, however often it is interrupted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paribus.analyse import study_rows
from paribus.analyse.laws.prediction import REFUSAL, prediction_refusal
from paribus.analyse.seal import plan_seal
from paribus.analyse.study_laws import prediction_tables
from paribus.design.asked_tasks import write_tasks
from paribus.design.cell_run import is_complete
from paribus.design.cells import (
    Cell,
    bracket_cells,
    ladder_cells,
    length_cells,
    rate_grid,
    reported_cells,
    sweep_cells,
)
from paribus.design.execute import cells_of_shard, execute_cells
from paribus.design.ladder_rates import RungRates, read_rung_rates, size_plans
from paribus.design.on.places import scheduler_of
from paribus.design.on.scheduler import Scheduler
from paribus.design.plan import Plan
from paribus.design.plan_table import plan_record
from paribus.design.stage_tuning import (
    SweepRunner,
    first_sweep,
    known_tuning,
    rates_without_sweep,
    tune_ladder,
    tune_stages,
)
from paribus.design.study_watcher import StudyWatcher
from paribus.design.variance import variance_cells
from paribus.errors import RecordError
from paribus.record import (
    PlanLock,
    Study,
    describe_lock_difference,
    environment_differences,
    last_row,
    plan_differences,
    read_environments,
)
from paribus.record.file_names import PLAN_LOCK_FILE, ROWS_FILE
from paribus.record.plan import EDITION
from paribus.record.plan_file import read_plan
from paribus.spec.design import is_swept
from paribus.workspace import Execution

PREDICTED = "prediction"  # the round of the run that a law is asked about beforehand


@dataclass(frozen=True)
class StudyProgress:
    """How far a study got: what failed, what other shards still have to do, and the rates that
    were found.
    """

    failures: dict[str, str]
    n_waiting: int
    rates: dict[str, float] | None


def freeze(plan: Plan, study: Study) -> None:
    """The plan on disk, and its lock: that first, for what changed is told by the plan that is
    still there.
    """
    code = plan.environment["code"]
    study.require_no_newer_plan()
    study.freeze(
        plan.fingerprint, plan.design_fingerprint, plan.rule, code, _changed_fields(plan, study)
    )
    study.write_plan({**plan_record(plan).table, "edition": _edition(study)})
    write_tasks(study.folder, plan.tasks)


def _edition(study: Study) -> int:
    """The rules of judgement of a study: those that it was begun with, once it has a result. A
    plan whose file is lost gets those of now.
    """
    if not study.has_result():
        return EDITION
    try:
        return read_plan(study).edition
    except RecordError:
        return EDITION


def freeze_or_describe_departure(plan: Plan, study: Study) -> str | None:
    """Freeze a plan of which nothing was run; otherwise what running it would change, and
    nothing is written.
    """
    departure = describe_departure(plan, study)
    if departure is None:
        freeze(plan, study)
    return departure


def describe_departure(plan: Plan, study: Study) -> str | None:
    """What running a plan changes of one that has results; None where it changes nothing that
    counts.
    """
    before = study.read_lock()
    if before is None or before.latest_fingerprint == plan.fingerprint or not study.has_result():
        return None
    now = PlanLock(
        fingerprint=plan.fingerprint,
        design=plan.design_fingerprint,
        rule=plan.rule,
        code=plan.environment["code"],
        frozen_at="",
    )
    what = "; ".join((describe_lock_difference(before, now), *_changed_fields(plan, study)))
    return (
        f"{study.folder} has results of the plan {before.latest_fingerprint[:16]}; running this one"
        f" is recorded as a change: {what}"
    )


def _changed_fields(plan: Plan, study: Study) -> tuple[str, ...]:
    """Where a plan parts from the one on disk; nothing where that cannot be read."""
    try:
        before = read_plan(study)
    except RecordError:
        return ()
    return plan_differences(before, plan_record(plan))


def run_study(
    plan: Plan, study: Study, execution: Execution, watcher: StudyWatcher
) -> StudyProgress:
    """Sweeps first, then the reported runs, then those of other lengths, each made at most once."""
    _require_one_environment(_known_cells(plan, study), plan, study, execution)
    with scheduler_of(execution) as scheduler:
        for arm in plan.arms:
            for text in arm.texts:
                scheduler.verified_text(text)
        _require_nobody_at_work(plan, study)
        freeze(plan, study)
        watcher.note(f"the plan is locked; its seal is {plan_seal(study)}")
        progress = _run_rounds(plan, study, scheduler, watcher)
        _require_own_plan(plan, study)
        return progress


def _require_nobody_at_work(plan: Plan, study: Study) -> None:
    """RecordError where a process is carrying out another plan of this study, such as one made
    with other text.
    """
    before = study.read_lock()
    if before is None or before.latest_fingerprint == plan.fingerprint or not study.is_running():
        return
    what = "; ".join(_changed_fields(plan, study)) or "the two differ in more than the design"
    raise RecordError(
        f"{study.folder} is being run with the plan {before.latest_fingerprint[:16]}, and"
        f" this one is {plan.fingerprint[:16]}: {what}; wait until that one is done, or run this"
        " one under another --name"
    )


def _require_own_plan(plan: Plan, study: Study) -> None:
    """RecordError where another process has frozen another plan meanwhile: no run of this one
    counts there.
    """
    now = study.read_lock()
    if now is None or now.latest_fingerprint != plan.fingerprint:
        there = "none" if now is None else now.latest_fingerprint[:16]
        raise RecordError(
            f"{study.folder} was begun with the plan {plan.fingerprint[:16]}, and its"
            f" {PLAN_LOCK_FILE} now holds {there}: another process changed it; run one plan"
            " at a time, each under its own --name"
        )


def _run_rounds(
    plan: Plan, study: Study, scheduler: Scheduler, watcher: StudyWatcher
) -> StudyProgress:
    rates, rung_rates = rates_without_sweep(plan), None
    if plan.kept_rates:
        study.remove_rates()
        study.write_rates(dict(plan.kept_rates))
        _require_rates_of_series(plan, rates)
    elif plan.design.tune is not None:
        later = _flops(cells_of_shard(_all_cells(plan, rates), scheduler.execution.shard))
        tuned, result = tune_stages(plan, study, SweepRunner(scheduler, watcher, later))
        if tuned is None:
            return StudyProgress(result.failures, len(result.open_elsewhere), None)
        plan, rates = tuned.plan, tuned.rates
        _require_rates_of_series(plan, rates)
        rung_rates, result = tune_ladder(plan, study, SweepRunner(scheduler, watcher, later))
        if result.failures or result.open_elsewhere:
            return StudyProgress(result.failures, len(result.open_elsewhere), rates)
    else:
        study.remove_rates()
    rounds = _rounds(plan, rates, rung_rates)
    _note_older_runs(rounds["runs"], study)
    study.add_cells([cell.record for cell in itertools.chain.from_iterable(rounds.values())])
    failures: dict[str, str] = {}
    n_waiting = 0
    later = [cells_of_shard(own, scheduler.execution.shard) for own in rounds.values()]
    for name, own in rounds.items():
        mine, *later = later
        if name == PREDICTED:
            if failures or n_waiting:
                n_waiting += len(own)
                continue  # the law waits for its points
            lock_predictions(plan, own, study, watcher)
        rest = _flops(itertools.chain.from_iterable(later))
        result = execute_cells(own, study, scheduler, watcher.begin_round(name, mine, rest))
        failures |= result.failures
        n_waiting += len(result.open_elsewhere)
    return StudyProgress(failures, n_waiting, rates)


def lock_predictions(
    plan: Plan, cells: Sequence[Cell], study: Study, watcher: StudyWatcher
) -> None:
    """Write down what the laws say of the largest run before it is begun, or why they say nothing:
    no law can be fitted, or some of its cells had begun. The run is made either way.
    """
    if not study.read_predictions():
        study.lock_predictions(_prediction_tables(plan, cells, study))
    refusal = prediction_refusal(study.read_predictions())
    if refusal:
        watcher.note(f"the largest run is made without a prediction: {refusal}")


def _prediction_tables(plan: Plan, cells: Sequence[Cell], study: Study) -> list[dict[str, Any]]:
    begun = [cell for cell in cells if last_row(study.root / cell.name / ROWS_FILE) is not None]
    if begun:
        reason = (
            f"{len(begun)} of its {len(cells)} runs had begun before anything was predicted, such"
            " as by another study"
        )
        return [{REFUSAL: reason}]
    ladder = plan.design.ladder
    assert ladder is not None
    n_seeds = min(ladder.n_seeds, len(plan.seeds))
    return prediction_tables(read_plan(study), study_rows(study), n_seeds)


def _flops(cells: Iterable[Cell]) -> float:
    return sum(cell.flops for cell in cells)


def _require_rates_of_series(plan: Plan, rates: Mapping[str, float]) -> None:
    """RecordError where a later study of a series would train at other rates than the first,
    whose sweep it shares.
    """
    if plan.series is None or plan.series.rates is None:
        return
    for arm, rate in rates.items():
        first = plan.series.rates.get(arm)
        if first != rate:
            raise RecordError(
                f"{plan.name}: the sweep of {plan.series.first} found the rate {first} for {arm},"
                f" and now it comes out as {rate}; use the version that the series was begun with,"
                " or begin a new study by --name"
            )


def _known_cells(plan: Plan, study: Study) -> list[Cell | None]:
    """Every cell that can be named by now: sweeps, and reported runs where rates are known;
    None for those to come.
    """
    if not is_swept(plan.design):
        return [*_all_cells(plan, rates_without_sweep(plan))]
    tuned = known_tuning(plan, study)
    if tuned is None:
        return [*first_sweep(plan), None]
    swept_cells = list(sweep_cells(tuned.plan, rate_grid(plan.design, plan.arms)))
    sizes = size_plans(tuned.plan)
    for own in sizes:
        grid = rate_grid(own.plan.design, own.plan.arms)
        swept_cells += sweep_cells(own.plan, grid, size=own.size)
    rung_rates = read_rung_rates(tuned.plan, study) if sizes else None
    if sizes and rung_rates is None:
        return [*swept_cells, None]
    return [*swept_cells, *_all_cells(tuned.plan, tuned.rates, rung_rates)]


def _rounds(
    plan: Plan, rates: Mapping[str, float], rung_rates: RungRates | None = None
) -> dict[str, tuple[Cell, ...]]:
    """What is run at the tuned rates, round by round: the reported runs first."""
    rounds = {
        "runs": reported_cells(plan, rates),
        "bracket": bracket_cells(plan, rates),
        "lengths": length_cells(plan, rates),
        "noise": variance_cells(plan, rates),
        "ladder": ladder_cells(plan, rates, rung_rates),
        PREDICTED: ladder_cells(plan, rates, rung_rates, is_predicted=True),
    }
    return {name: cells for name, cells in rounds.items() if cells}


def _all_cells(
    plan: Plan, rates: Mapping[str, float], rung_rates: RungRates | None = None
) -> list[Cell]:
    return list(itertools.chain.from_iterable(_rounds(plan, rates, rung_rates).values()))


def _require_one_environment(
    cells: Sequence[Cell | None], plan: Plan, study: Study, execution: Execution
) -> None:
    """RecordError where runs to be made would stand beside others made otherwise: they are not
    pooled silently.
    """
    complete_cells: list[Cell] = []
    for cell in cells:
        if cell is not None and is_complete(cell, study):
            complete_cells.append(cell)
    if execution.workspace.accept_environment or len(complete_cells) == len(cells):
        return
    changes: dict[str, tuple[Any, Any]] = {}
    for name in dict.fromkeys([cell.name for cell in complete_cells]):
        before = read_environments(study.root / name)[-1]
        changes |= environment_differences(before, plan.environment)
    if changes:
        descriptions = [f"{name} was {then}, is {now}" for name, (then, now) in changes.items()]
        raise RecordError(
            f"{study.folder}: some of its runs were made under another environment:"
            f" {'; '.join(descriptions)};"
            " continue under the former one, use another folder with --runs, or give"
            f" --accept-environment, which the report then mentions{_threads_advice(changes)}"
        )


def _threads_advice(changes: Mapping[str, Any]) -> str:
    """Where it is threads that differ, the option that decides them."""
    if "n_threads" not in changes:
        return ""
    return "; --jobs 2 or more gives each run one thread, --jobs 1 gives it all"


def _note_older_runs(cells: Sequence[Cell], study: Study) -> None:
    """Reported runs that were done before this study ever named them are written into its lock:
    they were known.
    """
    known_runs = {cell.run for cell in study.read_cells()}
    older: set[str] = set()
    for cell in cells:
        if cell.name in known_runs:
            continue
        outcome, _ = study.run_outcome(cell.name)
        if outcome in ("finished", "diverged"):
            older.add(cell.name)
    if older:
        study.note_older_runs(len(older))
