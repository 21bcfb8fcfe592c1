"""What a verdict must add about how its runs were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paribus.analyse.compare import NOT_TUNED
from paribus.analyse.plan_rules import is_open
from paribus.analyse.rates import tuned_at
from paribus.analyse.rows import Row
from paribus.record import Study, differences, environments_of
from paribus.record.plan import PlanRecord


def plan_remarks(plan: PlanRecord, seeds: Sequence[int]) -> tuple[str, ...]:
    n_seeds = len(seeds) if is_open(plan) else len(plan.design.declared_seeds)
    looked = (f"a look at {len(seeds)} of {n_seeds} seeds",) if len(seeds) < n_seeds else ()
    said = rate_remark(plan)
    return (*looked, said) if said else looked


def rate_remark(plan: PlanRecord) -> str | None:
    """What a verdict must add of rates that were not tuned, or on shorter runs."""
    tune, trainings = plan.design.tune, [plan.arms[arm].stage.training for arm in plan.order]
    if tune is None:
        one = len({training.optimizer.rate for training in trainings}) == 1
        return f"{'at one rate for all arms' if one else 'each arm at the rate written for it'}, {NOT_TUNED}"
    n_steps = trainings[0].n_steps
    return tuned_at(max(2, round(n_steps * tune.share)), n_steps)


def environment_remarks(study: Study, reported: Sequence[Row]) -> tuple[str, ...]:
    """What the runs were not all made under alike; nothing where they were."""
    first: dict[str, Any] | None = None
    apart: dict[str, None] = {}
    for run in dict.fromkeys(row["run"] for row in reported):
        for here in environments_of(study.root / run) if (study.root / run).is_dir() else ():
            first = first or here
            apart |= dict.fromkeys(differences(first, here))
    return (f"runs were made under different {', '.join(apart)}",) if apart else ()


def padding_remarks(plan: PlanRecord, reported: Sequence[Row]) -> tuple[str, ...]:
    """What must be known of runs on pairs whose rows are older than the count of tokens without padding."""
    pairs = {arm for arm in plan.order if _asks_pairs(plan.arms[arm].stage.objective)}
    old = [row for row in reported if row["arm"] in pairs and row["tokens_read"] and not row["positions_computed"]]
    return (f"tokens_read counts padding in {len(old)} of {len(reported)} runs, as it once did",) if old else ()


def _asks_pairs(objective: Mapping[str, Any]) -> bool:
    parts = [part["objective"] for part in objective.get("parts", ())]
    return any(one["kind"] == "seq2seq" for one in (objective, *parts))
