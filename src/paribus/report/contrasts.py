"""Contrasts in words: what a factorial asks, before the pairs of arms."""

from __future__ import annotations

from dataclasses import dataclass

from paribus.analyse import Comparison
from paribus.analyse.advice import Advice
from paribus.analyse.contrasts import OUTSIDE, ContrastFinding
from paribus.analyse.findings import UNIT
from paribus.report.intervals import NONE, between, decided_cell, digits_of, numbers, percent_level
from paribus.report.material import Material
from paribus.report.numbers import signed, significant, sum_of
from paribus.report.verdicts import advice_on_comparison
from paribus.spec.contrasts import DEFAULT, two_by_two

NO_WORD = "no verdict"  # in a cell
SCALE = f"Effects add in {UNIT}; what holds there need not hold in ratios."
HEADING = ("contrast", "of", "gain", "interval", "adjusted p", "verdict")
ZERO = {
    "better": "is above zero",
    "worse": "is below zero",
    "equivalent": "is zero, within the margin",
    "not worse": "is no loss as large as the margin",
    "inconclusive": "cannot be told from zero by these runs",
    "identical": "is exactly zero: the same runs",
}


@dataclass(frozen=True)
class SaidContrast:
    """What is said of one contrast."""

    name: str
    word: str  # empty where it is outside the family, or cannot be given
    headline: str
    numbers: str
    meaning: str
    advice: str


def contrasts(material: Material) -> list[SaidContrast]:
    """What stands on the first screen: every contrast, those outside the family first."""
    return [_said_contrast(one) for one in material.found.contrasts]


def _said_contrast(one: ContrastFinding) -> SaidContrast:
    made = one.comparison
    advice = _advice(one)
    return SaidContrast(
        one.name,
        one.word or "",
        _headline(one),
        "" if made is None else numbers(made, one.is_judged),
        " ".join(filter(None, (_above_zero(one), _instead(one), _outside(one)))),
        "" if advice is None else f"{advice.words}.",
    )


def _headline(one: ContrastFinding) -> str:
    name, made = f"{one.name[0].upper()}{one.name[1:]}", one.comparison
    if made is None:
        return f"{name} cannot be given: {one.reason}"
    if one.word is None:
        return f"{name}, shown without a verdict"
    sized = one.word in ("better", "worse", "not worse", "inconclusive") and made.verdict.detail
    detail = f", {made.verdict.detail}" if sized else ""
    doubt = f"; {made.verdict.doubt}" if made.verdict.doubt else ""
    return f"{name} {ZERO[one.word]}{detail}{doubt}"


def _above_zero(one: ContrastFinding) -> str:
    if one.comparison is None:
        return ""
    if one.meaning:
        return f"Above zero: {one.meaning}."
    return f"It is {sum_of(one.weights)}, in gains: above zero is better."


def _instead(one: ContrastFinding) -> str:
    """Simple effects in the place of a main effect."""
    said = [f"{place[0].upper()}{place[1:]}: {numbers(made, False)}." for place, made in one.simple]
    return " ".join([*said, "Simple effects get no verdict."]) if said else ""


def _outside(one: ContrastFinding) -> str:
    if one.is_judged or one.comparison is None:
        return ""
    return f'{OUTSIDE[0].upper()}{OUTSIDE[1:]}; contrasts = "{DEFAULT}" would, before the first run.'


def _advice(one: ContrastFinding) -> Advice | None:
    return advice_on_comparison(one.comparison, one.word or "")


def contrast_lines(material: Material) -> list[tuple[str, ...]]:
    """Every contrast with its numbers, a line each; also those that get no word."""
    return [line for one in material.found.contrasts for line in _lines(one)]


def _lines(one: ContrastFinding) -> list[tuple[str, ...]]:
    if one.comparison is None:
        first = (one.name, sum_of(one.weights), NONE, NONE, NONE, f"cannot be given: {one.reason}")
        return [first, *((f"{one.name}, {place}", "", *_cells(made, False), NO_WORD) for place, made in one.simple)]
    return [(one.name, sum_of(one.weights), *_cells(one.comparison, one.is_judged), _verdict(one))]


def _verdict(one: ContrastFinding) -> str:
    return NO_WORD if one.word is None or one.comparison is None else str(one.comparison.verdict)


def _cells(made: Comparison, is_judged: bool) -> tuple[str, str, str]:
    digits = digits_of(made)
    ends = f"{between(made.low, made.high, digits)}, at {percent_level(made.level)}"
    if is_judged and made.deciding is not None:
        ends = f"{decided_cell(made)}; {ends}"
    return signed(made.effect, digits), ends, significant(made.p_adjusted)


def typeset_contrasts(material: Material) -> list[tuple[str, str, str, str]]:
    """Name, gain, interval and word for a typeset table."""
    return [_brief(one) for one in material.found.contrasts]


def _brief(one: ContrastFinding) -> tuple[str, str, str, str]:
    if one.comparison is None:
        return one.name, NONE, NONE, f"cannot be given: {one.reason}"
    made = one.comparison
    word = _verdict(one) if one.is_judged else f"{NO_WORD} (interval at {percent_level(made.level)})"
    digits = digits_of(made)
    ends = decided_cell(made) if one.is_judged else between(made.low, made.high, digits)
    return one.name, signed(made.effect, digits), ends, word


def undeclared(material: Material) -> str:
    """That a factorial of more than two levels was asked for no interaction, where that is so."""
    levels = {arm: material.plan.arms[arm].levels for arm in material.order}
    factors = list(levels[material.found.baseline])
    if len(factors) < 2 or material.found.contrasts or two_by_two(levels, material.found.baseline) is not None:
        return ""
    return f"Whether {' and '.join(factors)} act on each other: the design declares no contrast that asks."
