"""How a verdict is read from a study, by its plan: at which seeds, with which share of the 5 %,
by which test.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.looks import FAMILY_ALPHA, Look, alpha_at_look, look_at
from paribus.analyse.run_answers import column_of
from paribus.analyse.run_table import ENDED_OUTCOMES, Row
from paribus.analyse.verdict import Test
from paribus.record.plan import PlanRecord
from paribus.spec.measure import Measure
from paribus.spec.yardstick import table_measure


def plan_measure(plan: PlanRecord) -> Measure:
    """What the scores of the primary yardstick are."""
    return table_measure(plan.design.primary.measure.table)


def column_measure(plan: PlanRecord, column: str) -> Measure:
    """What the scores of a yardstick's column are."""
    for yardstick in (plan.design.primary.measure, *plan.design.others):
        if column_of(yardstick.table) == column:
            return table_measure(yardstick.table)
    return plan_measure(plan)


def has_open_seeds(plan: PlanRecord) -> bool:
    return plan.design.is_open


def declares_pooled_noise(plan: PlanRecord) -> bool:
    return plan.design.equal_noise


def plan_test(plan: PlanRecord) -> Test:
    return plan.design.primary.test


def verdict_seeds(plan: PlanRecord, rows: Sequence[Row]) -> list[int]:
    """The seeds a verdict is read from: all, or as many of the first ones as have all their runs.

    So many as the last declared look has; of an open number, any.
    """
    seeds, stops = plan.design.declared_seeds, sorted(map(int, plan.design.looks or ()))
    if has_open_seeds(plan):
        seeds = sorted({row["seed"] for row in rows}) or list(range(1, MIN_SEEDS + 1))
        stops = list(range(MIN_SEEDS, len(seeds) + 1))
    ended_runs = {(row["arm"], row["seed"]) for row in rows if row["outcome"] in ENDED_OUTCOMES}
    for n in reversed(stops):
        if ended_runs.issuperset(product(plan.order, seeds[:n])):
            return seeds[:n]
    return seeds


def declared_looks(plan: PlanRecord) -> dict[int, float] | None:
    looks = plan.design.looks
    if looks is None:
        return None
    return dict(zip(map(int, looks), looks.values(), strict=True))


def look_of(plan: PlanRecord, seeds: Sequence[int]) -> Look | None:
    looks = declared_looks(plan)
    if looks is None:
        return None
    return look_at(looks, len(seeds))


def plan_alpha(plan: PlanRecord, n_seeds: int) -> float:
    looks = declared_looks(plan)
    if looks is None:
        return FAMILY_ALPHA
    return alpha_at_look(looks, n_seeds)
