"""How other yardsticks change as the arms of a ladder grow: smoothly, or with a break.

A yardstick that counts what is right, such as accuracy, is tested as its share of wrong answers, so
that it is a loss as the others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from paribus.analyse.laws.broken import BrokenLaw, broken_law
from paribus.analyse.laws.points import MIN_SIZES_BROKEN, LawPoint
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.run_answers import column_of
from paribus.analyse.run_table import Row, ladder_yardsticks, select_rows
from paribus.analyse.study_laws import longest_duration, run_duration
from paribus.canonical import canonical_hash
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord
from paribus.spec.measure import Measure
from paribus.spec.yardstick import TASK, table_measure

MIN_DRAWS, DRAWS_PER_TEST = 199, 40  # of the test of a break: p can be half of its level
NO_LOSS_LEFT = "a run has no loss left, and a law needs losses above 0"


@dataclass(frozen=True)
class SizeMean:
    """The mean score over the seeds of one size."""

    parameters: int  # all of them
    compute: float
    score: float


@dataclass(frozen=True)
class SizeTrend:
    """One arm by one yardstick over the sizes of a ladder, at the longest duration that all sizes
    have. `refusal` says why no break can be tested; it is empty where one is.
    """

    arm: str
    column: str
    measure: Measure
    items: str  # equal where two yardsticks are about the same answers; empty without a task
    means: tuple[SizeMean, ...]  # ascending sizes
    points: tuple[LawPoint, ...]  # N is without embeddings: tokens are in proportion to it
    refusal: str = ""
    law: BrokenLaw | None = None


@dataclass(frozen=True)
class StudyTrends:
    """What every arm of a ladder scores by other yardsticks; all tests of a break share the 5 %."""

    trends: tuple[SizeTrend, ...] = ()

    @property
    def n_tests(self) -> int:
        return sum(trend.law is not None for trend in self.trends)

    @property
    def level(self) -> float:
        """The level of each test."""
        return FAMILY_ALPHA / max(self.n_tests, 1)

    def is_broken(self, trend: SizeTrend) -> bool:
        """Is a law without a break rejected?"""
        return trend.law is not None and trend.law.p < self.level


def study_trends(plan: PlanRecord, rows: Sequence[Row]) -> StudyTrends:
    """The trend of each arm by each further yardstick of a ladder; none where there is no other,
    or where a size has no duration.
    """
    trends: list[SizeTrend] = []
    for table in ladder_yardsticks(plan):
        try:
            place = longest_duration(plan)
        except SpecError:
            continue
        for arm in plan.order:
            own = _path_rows(plan, rows, arm, column_of(table), place)
            if own:
                trends.append(_untested(plan, table, arm, own))
    n_tests = sum(not trend.refusal for trend in trends)
    n_draws = max(MIN_DRAWS, DRAWS_PER_TEST * n_tests - 1)
    return StudyTrends(tuple(_with_law(trend, n_draws) for trend in trends))


def _path_rows(
    plan: PlanRecord, rows: Sequence[Row], arm: str, column: str, place: int
) -> list[Row]:
    """The runs of an arm that came to their end with a score, one duration for each size."""
    own: list[Row] = []
    for row in select_rows(rows, purposes=["ladder"], arm=arm):
        is_there = row["outcome"] == "finished" and row.get(column) is not None
        if is_there and run_duration(plan, row) == place:
            own.append(row)
    return own


def _untested(plan: PlanRecord, table: dict[str, Any], arm: str, rows: Sequence[Row]) -> SizeTrend:
    column, measure = column_of(table), table_measure(table)
    points = tuple(_points(rows, column, measure))
    sizes = sorted({row["size"] for row in rows})
    refusal = ""
    if len(sizes) < MIN_SIZES_BROKEN:
        refusal = f"{len(sizes)} sizes are too few: {MIN_SIZES_BROKEN} or more are needed"
    elif any(point.loss <= 0 for point in points):
        refusal = NO_LOSS_LEFT
    items = ""
    if table["kind"] == TASK:
        items = canonical_hash([plan.items.get(column), table["protocol"]])
    return SizeTrend(
        arm=arm,
        column=column,
        measure=measure,
        items=items,
        means=tuple(_size_mean(rows, size, column) for size in sizes),
        points=points,
        refusal=refusal,
    )


def _points(rows: Sequence[Row], column: str, measure: Measure) -> list[LawPoint]:
    points: list[LawPoint] = []
    for row in rows:
        loss = row[column]
        if not measure.lower_is_better:
            assert measure.ceiling is not None
            loss = measure.ceiling - loss
        points.append(
            LawPoint(
                parameters=row["non_embedding_parameters"],
                tokens=row["planned_tokens"],
                loss=loss,
                arm=row["arm"],
                seed=row["seed"],
            )
        )
    return points


def _size_mean(rows: Sequence[Row], size: int, column: str) -> SizeMean:
    own = [row for row in rows if row["size"] == size]
    return SizeMean(
        parameters=own[0]["parameters"],
        compute=own[0]["planned_flops"],
        score=fmean(row[column] for row in own),
    )


def _with_law(trend: SizeTrend, n_draws: int) -> SizeTrend:
    if trend.refusal:
        return trend
    try:
        return replace(trend, law=broken_law(trend.points, n_draws))
    except SpecError as fault:
        return replace(trend, refusal=str(fault))
