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
from paribus.analyse.verdict import ALSO_BETTER, LESS, MORE, YET_WORSE, BesideMargin, beside_number

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
    beside = _beside_margin(made)
    plus, less = beside.inner_plus[0], -beside.inner_less[1]
    match made.verdict.word:
        case "inconclusive":
            return min(-made.low, made.high)
        case "equivalent":
            return min(plus, less)
        case "not worse":
            return min(plus, {ALSO_BETTER: made.low, YET_WORSE: -made.high}.get(made.verdict.detail, inf))
        case "better":
            return _of_difference(made, made.low, less, beside.outer_less[0])
        case "worse":
            return _of_difference(made, -made.high, plus, -beside.outer_plus[1])
        case _:
            return inf


def _of_difference(made: Comparison, least: float, within: float, beyond: float) -> float:
    """Of a difference of at least `least`, which is `within` the margin or `beyond` it for sure."""
    return {LESS: min(least, within), MORE: beyond}.get(made.verdict.detail, least)


def _beside_margin(made: Comparison) -> BesideMargin:
    """The gain less and plus the margin, as it was decided on; an infinite margin where there is none."""
    margin = inf if made.margin is None else made.margin
    return made.beside or beside_number((made.low, made.high), (made.inner_low, made.inner_high), margin)


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
