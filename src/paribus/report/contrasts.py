"""Contrasts in words: what a factorial asks, before the pairs of arms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from paribus.analyse import Comparison
from paribus.analyse.contrasts import NOT_DECLARED, ContrastFinding
from paribus.analyse.verdict import WORDS_BEFORE_T
from paribus.record import JudgedDifference
from paribus.record.plan import PlanRecord
from paribus.report.intervals import (
    DASH,
    describe_gain,
    digits_of,
    format_interval,
    percent_level,
    verdict_interval_cell,
)
from paribus.report.numbers import (
    capitalise,
    describe_weights,
    format_signed,
    quote_arm,
    significant,
)
from paribus.report.report_data import ReportData
from paribus.report.verdicts import (
    advice_on_comparison,
    describe_reason,
    items_note,
    with_factors,
)
from paribus.spec.contrasts import DEFAULT, two_by_two_levels

NO_VERDICT = "no verdict"  # in a cell
HEADING = ("contrast", "of", "gain", "interval", "adjusted p", "verdict")
DETAILED_WORDS = ("better", "worse", "not worse", "inconclusive")  # verdicts with a detail
ZERO_PHRASES = {
    "better": "is above zero",
    "worse": "is below zero",
    "equivalent": "is zero, within the margin",
    "not worse": "is no loss as large as the margin",
    "inconclusive": "cannot be told from zero by these runs",
    "identical": "is exactly zero: the same runs",
    "at floor": "cannot be read: every arm of it is at the floor of the task",
    "at ceiling": "cannot be read: every arm of it is at the ceiling of the task",
}


@dataclass(frozen=True)
class ContrastText:
    """What is said of one contrast."""

    name: str
    word: str  # empty where it is outside the family, or cannot be given
    headline: str
    compound: str  # why it is judged though several factors differ
    numbers: str
    meaning: str
    advice: str


def describe_effect_scale(report: ReportData) -> str:
    """On which scale effects add up."""
    return f"Effects add in {report.measure.unit}; what holds there need not hold in ratios."


def contrast_texts(report: ReportData) -> list[ContrastText]:
    """What stands on the first screen: every contrast, those outside the family first."""
    items = items_note(report)
    return [_contrast_text(one, items, report.plan) for one in report.findings.contrasts]


def _contrast_text(contrast: ContrastFinding, items: str, plan: PlanRecord) -> ContrastText:
    difference = plan.difference_of(None, contrast=contrast.name)
    meanings = (
        _describe_interaction(difference),
        _describe_sign(contrast),
        _describe_simple_effects(contrast),
        _undeclared_note(contrast),
    )
    return ContrastText(
        name=contrast.name,
        word=contrast.word or "",
        headline=with_factors(_headline(contrast, items), difference),
        compound=describe_reason(difference),
        numbers=_describe_numbers(contrast),
        meaning=" ".join(filter(None, meanings)),
        advice=_describe_advice(contrast),
    )


def _describe_interaction(difference: JudgedDifference | None) -> str:
    """That a contrast asks how one factor's effect depends on another."""
    if difference is None or difference.kind != "interaction":
        return ""
    return f"It {difference.description}."


def _describe_numbers(contrast: ContrastFinding) -> str:
    if contrast.comparison is None:
        return ""
    return describe_gain(contrast.comparison, contrast.is_judged)


def _describe_advice(contrast: ContrastFinding) -> str:
    advice = advice_on_comparison(contrast.comparison, contrast.word or "")
    if advice is None:
        return ""
    return f"{advice.description}."


def _headline(contrast: ContrastFinding, items: str) -> str:
    name, comparison = capitalise(contrast.name), contrast.comparison
    if comparison is None:
        return f"{name} cannot be given: {contrast.reason}"
    if contrast.word is None:
        return f"{name}, shown without a verdict"
    headline = f"{name} {ZERO_PHRASES[contrast.word]}"
    if items and contrast.word not in WORDS_BEFORE_T:
        headline += f", {items}"
    if contrast.word in DETAILED_WORDS and comparison.verdict.detail:
        headline += f", {comparison.verdict.detail}"
    if comparison.verdict.doubt:
        headline += f"; {comparison.verdict.doubt}"
    return headline


def _describe_sign(contrast: ContrastFinding) -> str:
    if contrast.comparison is None:
        return ""
    if contrast.meaning:
        return f"Above zero: {contrast.meaning}."
    weights = {quote_arm(arm): weight for arm, weight in contrast.weights.items()}
    return f"It is {describe_weights(weights)}, in gains: above zero is better."


def _describe_simple_effects(contrast: ContrastFinding) -> str:
    """Simple effects in the place of a main effect."""
    if not contrast.simple_effects:
        return ""
    sentences = []
    for place, effect in contrast.simple_effects:
        sentences.append(f"{capitalise(place)}: {describe_gain(effect, False)}.")
    return " ".join([*sentences, "Simple effects get no verdict."])


def _undeclared_note(contrast: ContrastFinding) -> str:
    if contrast.is_judged or contrast.comparison is None:
        return ""
    return f'{capitalise(NOT_DECLARED)}; contrasts = "{DEFAULT}" would, before the first run.'


def contrast_lines(report: ReportData) -> list[tuple[str, ...]]:
    """Every contrast with its numbers, a line each; also those that get no word."""
    lines = [_contrast_lines(one, report.plan) for one in report.findings.contrasts]
    return list(chain.from_iterable(lines))


def _contrast_lines(contrast: ContrastFinding, plan: PlanRecord) -> Iterator[tuple[str, ...]]:
    weights = describe_weights(contrast.weights)
    if contrast.comparison is not None:
        cells = _cells(contrast.comparison, contrast.is_judged)
        yield contrast.name, weights, *cells, _marked_verdict(contrast, plan)
        return
    yield contrast.name, weights, DASH, DASH, DASH, f"cannot be given: {contrast.reason}"
    for place, effect in contrast.simple_effects:
        yield f"{contrast.name}, {place}", "", *_cells(effect, False), NO_VERDICT


def _verdict(contrast: ContrastFinding) -> str:
    if contrast.word is None or contrast.comparison is None:
        return NO_VERDICT
    return str(contrast.comparison.verdict)


def _marked_verdict(contrast: ContrastFinding, plan: PlanRecord) -> str:
    """The verdict for a cell, with the factors where there are several."""
    difference = plan.difference_of(None, contrast=contrast.name)
    mark = "" if difference is None else difference.mark
    return "; ".join(filter(None, (_verdict(contrast), mark)))


def _cells(comparison: Comparison, is_judged: bool) -> tuple[str, str, str]:
    digits = digits_of(comparison)
    ends = (
        f"{format_interval(comparison.low, comparison.high, digits)}, at"
        f" {percent_level(comparison.level)}"
    )
    if is_judged and comparison.deciding_interval is not None:
        ends = f"{verdict_interval_cell(comparison)}; {ends}"
    return format_signed(comparison.effect, digits), ends, significant(comparison.p_adjusted)


def contrast_latex_rows(report: ReportData) -> list[tuple[str, str, str, str]]:
    """Name, gain, interval and word for a typeset table."""
    return [_latex_row(one, report.plan) for one in report.findings.contrasts]


def _latex_row(contrast: ContrastFinding, plan: PlanRecord) -> tuple[str, str, str, str]:
    if contrast.comparison is None:
        return contrast.name, DASH, DASH, f"cannot be given: {contrast.reason}"
    comparison = contrast.comparison
    digits = digits_of(comparison)
    if contrast.is_judged:
        word, ends = _marked_verdict(contrast, plan), verdict_interval_cell(comparison)
    else:
        word = f"{NO_VERDICT} (interval at {percent_level(comparison.level)})"
        ends = format_interval(comparison.low, comparison.high, digits)
    return contrast.name, format_signed(comparison.effect, digits), ends, word


def undeclared_interaction(report: ReportData) -> str:
    """That a factorial of more than two levels was asked for no interaction, where that is so."""
    levels = {arm: report.plan.arms[arm].levels for arm in report.order}
    factors = list(levels[report.findings.baseline])
    if (
        len(factors) < 2
        or report.findings.contrasts
        or two_by_two_levels(levels, report.findings.baseline) is not None
    ):
        return ""
    return (
        f"Whether {' and '.join(factors)} act on each other: the design declares no contrast that"
        " asks."
    )
