"""What a verdict must add about how its runs were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from paribus.analyse.compare import NOT_TUNED
from paribus.analyse.plan_rules import has_open_seeds
from paribus.analyse.rate_sweep import short_sweep_remark
from paribus.analyse.run_table import Row
from paribus.record import Study, environment_differences, read_environments
from paribus.record.control_table import MATCH_SHIFT
from paribus.record.plan import PlanRecord


def plan_remarks(plan: PlanRecord, seeds: Sequence[int]) -> tuple[str, ...]:
    if has_open_seeds(plan):
        n_seeds = len(seeds)
    else:
        n_seeds = len(plan.design.declared_seeds)
    if len(seeds) < n_seeds:
        look_remarks = (f"a look at {len(seeds)} of {n_seeds} seeds",)
    else:
        look_remarks = ()
    remarks = [rate_remark(plan), begin_remark(plan), match_remark(plan)]
    return (*look_remarks, *filter(None, remarks))


def begin_remark(plan: PlanRecord) -> str | None:
    """That all arms begin from one checkpoint: how it was trained does not vary over seeds, so the
    interval holds later noise alone. None where arms begin with weights of their own seeds.
    """
    names, weights = [], set[str]()
    for arm in plan.order:
        begin = plan.arms[arm].run.table.get("begin")
        if begin is None:
            return None
        names.append(begin["name"])
        weights.add(begin["weights"])
    if len(weights) > 1:
        return None
    return f"all arms begin from {names[0]}, so the interval holds only the noise after it"


def match_remark(plan: PlanRecord) -> str | None:
    """How far the match has moved sizes that it does not make equal; None where it moved none."""
    shifts: list[str] = []
    for line in plan.control:
        if line.path == MATCH_SHIFT:
            for arm, shift in line.values.items():
                if "%" in shift:
                    shifts.append(f"moved {shift} in {arm}")
    if not shifts:
        return None
    return f"the match {', '.join(shifts)}"


def rate_remark(plan: PlanRecord) -> str | None:
    """What a verdict must add of rates that were not tuned, or on shorter runs."""
    tune, trainings = plan.design.tune, [plan.arms[arm].stage.training for arm in plan.order]
    if tune is None:
        rates = {training.optimizer.rate for training in trainings}
        if len(rates) == 1:
            return f"at one rate for all arms, {NOT_TUNED}"
        return f"each arm at the rate written for it, {NOT_TUNED}"
    n_steps, n_stages = (
        trainings[0].n_steps,
        max(len(plan.arms[arm].run.stages) for arm in plan.order),
    )
    last_share = tune.share if tune.last_share is None else tune.last_share
    remark = short_sweep_remark(max(2, round(n_steps * last_share)), n_steps)
    if n_stages == 1 or tune.share == last_share:
        return remark
    earlier = f"rates of earlier stages tuned at {100 * tune.share:.3g} %"
    return earlier if remark is None else f"{remark}; {earlier}"


def environment_remarks(study: Study, rows: Sequence[Row]) -> tuple[str, ...]:
    """What the runs were not all made under alike; nothing where they were."""
    first: dict[str, Any] | None = None
    differences: dict[str, None] = {}
    for run in dict.fromkeys(map(itemgetter("run"), rows)):
        if not (study.root / run).is_dir():
            continue
        for here in read_environments(study.root / run):
            first = first or here
            differences |= dict.fromkeys(environment_differences(first, here))
    if differences:
        return (f"runs were made under different {', '.join(differences)}",)
    return ()


def padding_remarks(plan: PlanRecord, rows: Sequence[Row]) -> tuple[str, ...]:
    """What must be known of runs on pairs whose rows are older than the count of tokens without
    padding.
    """
    n_old = 0
    for row in rows:
        is_old = row["tokens_read"] and not row["positions_computed"]
        if is_old and _trains_on_pairs(plan.arms[row["arm"]].stage.objective):
            n_old += 1
    if n_old:
        return (f"tokens_read counts padding in {n_old} of {len(rows)} runs, as it once did",)
    return ()


def _trains_on_pairs(objective: Mapping[str, Any]) -> bool:
    kinds = [part["objective"]["kind"] for part in objective.get("components", ())]
    return "seq2seq" in (objective["kind"], *kinds)
