"""What tuning could move, and whether that could overturn a verdict.

The rate of an arm is estimated, and its error is common to all reported seeds: more of them do not heal it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from paribus.analyse.compare import Comparison
from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.failures import Judgement
from paribus.analyse.verdict import LESS, MORE

OVERTURN = "tuning could overturn it"


def movable(weights: Mapping[str, float], rates: Mapping[str, Any] | None) -> float | None:
    """The most that errors of the arms' rates could move a weighted difference of them.

    Of a pair it is the larger of the two arms' excess. It is inf where an arm's rate was taken without a parabola, and
    None where rates were not swept, or by a version that did not work it out.
    """
    if rates is None or any("excess" not in rates[arm]["optimum"] for arm in weights):
        return None
    excess = {arm: rates[arm]["optimum"]["excess"] for arm in weights}
    moves = [(weight, inf if excess[arm] is None else excess[arm]) for arm, weight in weights.items() if weight]
    return max(
        sum(weight * own for weight, own in moves if weight > 0),
        sum(-weight * own for weight, own in moves if weight < 0),
    )


def movable_pair(arm: str, against: str, rates: Mapping[str, Any] | None) -> float | None:
    """The larger of the two arms' excess."""
    return movable({arm: 1.0, against: -1.0}, rates)


def distance(made: Comparison) -> float:
    """How far the deciding ends of an interval are from 0 or the margin: what would have to move for another word."""
    margin, word = made.margin or 0.0, made.verdict.word
    if word == "inconclusive":
        return min(-made.low, made.high)
    if word == "equivalent":
        return margin - max(made.inner_high, -made.inner_low)
    if word not in ("better", "worse"):
        return inf
    least, most = (made.low, made.inner_high) if word == "better" else (-made.high, -made.inner_low)
    return {LESS: min(least, margin - most), MORE: least - margin}.get(made.verdict.detail, least)


def could_overturn(made: Comparison, excess: float | None) -> bool:
    """Could an error of the rates as large as this give another word?"""
    return excess is not None and excess > distance(made)


def with_doubt(made: Comparison, excess: float | None) -> Comparison:
    """The comparison; its word says so where tuning could overturn it."""
    if not could_overturn(made, excess):
        return made
    return replace(made, verdict=replace(made.verdict, doubt=OVERTURN))


def judged_with_doubt(own: Judgement, excess: float | None) -> Judgement:
    """The judgement of a pair; only the comparison's own word can be overturned by tuning."""
    if own.comparison is None or own.verdict != own.comparison.verdict:
        return own
    made = with_doubt(own.comparison, excess)
    return replace(own, comparison=made, verdict=made.verdict)


def contrast_with_doubt(one: ContrastFinding, rates: Mapping[str, Any] | None) -> ContrastFinding:
    """The contrast; one without a word stays as it is."""
    if one.comparison is None or not one.is_judged:
        return one
    return replace(one, comparison=with_doubt(one.comparison, movable(one.weights, rates)))
