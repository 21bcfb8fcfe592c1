"""Tables and sentences of the other yardsticks of a ladder: how each changes as an arm grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import isfinite
from typing import Any

from paribus.analyse.laws.broken import BrokenLaw
from paribus.analyse.laws.points import MIN_SIZES_BROKEN
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.size_trends import SizeTrend, StudyTrends
from paribus.report.numbers import (
    DASH,
    format_count,
    format_plural,
    quote_arm,
    score,
    significant,
    whole_percent,
)
from paribus.report.report_data import ReportData
from paribus.spec.measure import ACCURACY

TRENDS_TITLE = "Other yardsticks as arms grow"
TRENDS_NOTE = (
    "Means over seeds at the smallest and at the largest size, at the longest duration that all"
    " sizes have. p is that of a law of size without a break against one with a break, fitted to"
    " the loss, or to the share of wrong answers; N is without embeddings. No verdict rests on"
    " these yardsticks. Definitions: docs/scaling.md."
)
NO_JUMP = "accuracy often has one where the answers improve smoothly"
TREND_HEADING = (
    *("arm", "yardstick", "unit", "sizes", "smallest", "largest", "no break, p", "break at"),
)


def trend_section(report: ReportData) -> Mapping[str, Any]:
    """What a page shows of the other yardsticks of a ladder; empty lines where there are none."""
    trends = report.trends
    return {
        "trends": trend_lines(trends),
        "trend_sentences": list(trend_sentences(trends)),
    }


def trend_lines(trends: StudyTrends) -> list[tuple[str, ...]]:
    """A line for each arm and yardstick: where it begins and ends, and whether a break is seen."""
    return [_trend_line(trends, trend) for trend in trends.trends]


def _trend_line(trends: StudyTrends, trend: SizeTrend) -> tuple[str, ...]:
    unit, first, last = trend.measure.unit, trend.means[0], trend.means[-1]
    p = DASH if trend.law is None else significant(trend.law.p)
    return (
        trend.arm,
        trend.column,
        unit,
        str(len(trend.means)),
        f"{score(first.score, unit)} at {format_count(first.parameters)}",
        f"{score(last.score, unit)} at {format_count(last.parameters)}",
        p,
        _break_place(trends, trend),
    )


def _break_place(trends: StudyTrends, trend: SizeTrend) -> str:
    """Where a break lies, with its interval, and the exponents; a dash where none is seen."""
    if trend.law is None or not trends.is_broken(trend):
        return DASH
    at = trend.law.break_at
    low = format_count(at.low) if at.low > 0 else "no bound"
    high = format_count(at.high) if isfinite(at.high) else "no bound"
    before, after = significant(trend.law.before), significant(trend.law.after)
    return f"{format_count(at.estimate)} ({low} to {high}), exponent {before} below, {after} above"


def trend_sentences(trends: StudyTrends) -> Iterator[str]:
    """What may be said of breaks: nothing from too few sizes, and what pairs of measures of the
    same answers show.
    """
    if not trends.trends:
        return
    n_sizes = max(len(trend.means) for trend in trends.trends)
    if n_sizes < MIN_SIZES_BROKEN:
        yield (
            f"{format_plural(n_sizes, 'size')} are too few to say whether a yardstick changes"
            f" smoothly or with a break: that takes {MIN_SIZES_BROKEN}."
        )
        return
    if trends.n_tests:
        yield (
            f"{whole_percent(FAMILY_ALPHA)} are shared by {format_plural(trends.n_tests, 'test')}:"
            f" a law with a break fits better where p is below {significant(trends.level)};"
            " elsewhere one without a break is enough for these runs, which does not show that"
            " there is no break."
        )
    for trend in trends.trends:
        if trend.refusal:
            yield f"{quote_arm(trend.arm)}, {trend.column}: no test of a break: {trend.refusal}."
    for one, other in combinations(trends.trends, 2):
        if one.arm == other.arm and one.items and one.items == other.items:
            yield from _pair_sentence(trends, one, other)


def _pair_sentence(trends: StudyTrends, one: SizeTrend, other: SizeTrend) -> Iterator[str]:
    """Accuracy beside a continuous measure of the same answers; nothing of any other pair."""
    accuracy, smooth = one, other
    if smooth.measure == ACCURACY:
        accuracy, smooth = other, one
    is_pair = accuracy.measure == ACCURACY and smooth.measure.lower_is_better
    if not is_pair or accuracy.law is None or smooth.law is None:
        return
    seen = [trends.is_broken(trend) for trend in (accuracy, smooth)]
    by_accuracy = f"accuracy ({_change_of_pace(accuracy.law)})"
    by_smooth = f"{smooth.measure.kind} ({_change_of_pace(smooth.law)})"
    match seen:
        case [True, True]:
            where = f"by {by_accuracy} and by {by_smooth}"
        case [True, False]:
            where = f"by {by_accuracy} and not by {smooth.measure.kind}; {NO_JUMP}"
        case [False, True]:
            where = f"by {by_smooth} and not by accuracy"
        case _:
            where = "by neither"
    yield (
        f"{quote_arm(accuracy.arm)}, the same answers by accuracy ({accuracy.column}) and by"
        f" {smooth.measure.kind} ({smooth.column}): a break is seen {where}."
    )


def _change_of_pace(law: BrokenLaw) -> str:
    pace = "faster" if law.after > law.before else "more slowly"
    return f"the loss falls {pace} above it"
