"""What tuning could move, and whether that could overturn a verdict.

The rate of an arm is estimated, and its error is common to all reported seeds: more of them do not
heal it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from paribus.analyse.compare import Comparison
from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.judgement import Judgement
from paribus.analyse.verdict import (
    ALSO_BETTER,
    LESS_THAN_MARGIN,
    MORE_THAN_MARGIN,
    YET_WORSE,
    MarginIntervals,
    constant_margin_intervals,
)

OVERTURN = "tuning could overturn it"


def tuning_uncertainty(
    weights: Mapping[str, float], rates: Mapping[str, Any] | None
) -> float | None:
    """The most that errors of the arms' rates could move a weighted difference of them.

    Of a pair it is the larger of the two arms' excess. It is inf where an arm's rate was taken
    without a parabola, and None where rates were not swept, or on the loss of a stage's own
    objective, which says nothing of the yardstick, or by a version that did not work it out.
    """
    if rates is None or any("excess" not in rates[arm]["optimum"] for arm in weights):
        return None
    if any(rates[arm].get("own_loss") for arm in weights):
        return None
    up = down = 0.0
    for arm, weight in weights.items():
        excess = rates[arm]["optimum"]["excess"]
        if excess is None:
            excess = inf
        if weight > 0:
            up += weight * excess
        elif weight < 0:
            down -= weight * excess
    return max(up, down)


def pair_tuning_uncertainty(
    arm: str, against: str, rates: Mapping[str, Any] | None
) -> float | None:
    """The larger of the two arms' excess."""
    return tuning_uncertainty({arm: 1.0, against: -1.0}, rates)


def distance_to_other_verdict(comparison: Comparison) -> float:
    """How far the deciding ends of an interval are from 0 or the margin: what would have to
    move for another word.
    """
    beside = _margin_intervals(comparison)
    plus, less = beside.inner_plus[0], -beside.inner_minus[1]
    match comparison.verdict.word:
        case "inconclusive":
            return min(-comparison.low, comparison.high)
        case "equivalent":
            return min(plus, less)
        case "not worse":
            return min(
                plus,
                {ALSO_BETTER: comparison.low, YET_WORSE: -comparison.high}.get(
                    comparison.verdict.detail, inf
                ),
            )
        case "better":
            return _distance_of_difference(comparison, comparison.low, less, beside.outer_minus[0])
        case "worse":
            return _distance_of_difference(
                comparison, -comparison.high, plus, -beside.outer_plus[1]
            )
        case _:
            return inf


def _distance_of_difference(
    comparison: Comparison, min_gain: float, within: float, beyond: float
) -> float:
    """Of a difference of at least `min_gain`, which is `within` the margin or `beyond` it."""
    return {LESS_THAN_MARGIN: min(min_gain, within), MORE_THAN_MARGIN: beyond}.get(
        comparison.verdict.detail, min_gain
    )


def _margin_intervals(comparison: Comparison) -> MarginIntervals:
    """The gain less and plus the margin, as it was decided on; an infinite margin where there
    is none.
    """
    margin = inf if comparison.margin is None else comparison.margin
    return comparison.margin_intervals or constant_margin_intervals(
        (comparison.low, comparison.high), (comparison.inner_low, comparison.inner_high), margin
    )


def tuning_could_overturn(comparison: Comparison, uncertainty: float | None) -> bool:
    """Could an error of the rates as large as this give another word?"""
    return uncertainty is not None and uncertainty > distance_to_other_verdict(comparison)


def comparison_with_doubt(comparison: Comparison, uncertainty: float | None) -> Comparison:
    """The comparison; its word says so where tuning could overturn it."""
    if not tuning_could_overturn(comparison, uncertainty):
        return comparison
    return replace(comparison, verdict=replace(comparison.verdict, doubt=OVERTURN))


def judgement_with_doubt(judgement: Judgement, uncertainty: float | None) -> Judgement:
    """The judgement of a pair; only the comparison's own word can be overturned by tuning."""
    if judgement.comparison is None or judgement.verdict != judgement.comparison.verdict:
        return judgement
    comparison = comparison_with_doubt(judgement.comparison, uncertainty)
    return replace(judgement, comparison=comparison, verdict=comparison.verdict)


def contrast_with_doubt(
    contrast: ContrastFinding, rates: Mapping[str, Any] | None
) -> ContrastFinding:
    """The contrast; one without a word stays as it is."""
    if contrast.comparison is None or not contrast.is_judged:
        return contrast
    return replace(
        contrast,
        comparison=comparison_with_doubt(
            contrast.comparison, tuning_uncertainty(contrast.weights, rates)
        ),
    )
