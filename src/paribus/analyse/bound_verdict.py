"""The words of scores that end: two arms at the floor, or at the ceiling, are not equivalent. The
task cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

from paribus.analyse.compare import Comparison, compare
from paribus.analyse.criterion import Criterion
from paribus.analyse.interval import critical_t, moments
from paribus.analyse.power import always_valid_t
from paribus.analyse.score_bounds import ScoreBounds
from paribus.analyse.verdict import Verdict
from paribus.spec.measure import Measure, with_unit

SAME_SCORES = Verdict("identical", "the same score in every seed: nothing can be compared")
_DIGITS = 4


def compare_scores(
    arms: Sequence[Sequence[float]],
    gains: Sequence[float],
    measure: Measure,
    criterion: Criterion,
) -> Comparison:
    """The comparison of gains by seed; `at floor` or `at ceiling` where the scores of the arms that
    they come from say so.
    """
    comparison = compare(gains, criterion, unit=measure.unit)
    return comparison_at_bounds(comparison, arms, measure, criterion.bounds)


def comparison_at_bounds(
    comparison: Comparison,
    arms: Sequence[Sequence[float]],
    measure: Measure,
    bounds: ScoreBounds | None,
) -> Comparison:
    """The comparison with the word that the bounds ask for; as it is where they do not."""
    if bounds is None:
        return comparison
    verdict = _bound_verdict(comparison, arms, measure, bounds)
    if verdict is None and comparison.verdict.word == "identical" and bounds.resolution:
        verdict = SAME_SCORES
    if verdict is None:
        return comparison
    return replace(comparison, verdict=verdict, advice=None)


def _bound_verdict(
    comparison: Comparison,
    arms: Sequence[Sequence[float]],
    measure: Measure,
    bounds: ScoreBounds,
) -> Verdict | None:
    if bounds.floor is not None and not any(
        _is_above(scores, comparison, measure, bounds) for scores in arms
    ):
        if measure.is_difference:
            return Verdict("at floor", "no arm differs from its parent")
        value = with_unit(f"{bounds.floor.value:.{_DIGITS}g}", measure.unit)
        return Verdict(
            "at floor", f"no arm is above {value}, which {bounds.floor.description} scores"
        )
    ceiling = bounds.ceiling
    if ceiling is not None and all(
        _reaches(scores, comparison, measure, ceiling) for scores in arms
    ):
        return Verdict(
            "at ceiling", f"every arm is at {ceiling:g} {measure.unit}, the best score there is"
        )
    return None


def _is_above(
    scores: Sequence[float], comparison: Comparison, measure: Measure, bounds: ScoreBounds
) -> bool:
    """Does the whole interval of an arm's mean lie above the floor? Where all seeds score the same,
    their spread is taken to be what one item is worth. A difference may lie on either side of 0: a
    stage that harms has changed something, too.
    """
    assert bounds.floor is not None
    over = moments([measure.gain(bounds.floor.value, score) for score in scores])
    sd, mean = float(over.sd) or bounds.resolution, float(over.mean)
    if measure.is_difference:
        mean = abs(mean)
    return mean - _half_width(over.n, sd, comparison) > 0


def _reaches(
    scores: Sequence[float], comparison: Comparison, measure: Measure, ceiling: float
) -> bool:
    """Is an arm at the ceiling: is the worse end of its interval within the margin of it? Without a
    margin, every seed must score it.
    """
    left = moments([measure.gain(score, ceiling) for score in scores])
    if not float(left.mean) and not float(left.sd):
        return True
    if comparison.margin is None:
        return False
    return float(left.mean) + _half_width(left.n, float(left.sd), comparison) <= comparison.margin


def _half_width(n: int, sd: float, comparison: Comparison) -> float:
    """Of an arm's own interval, at the level of the comparison."""
    if comparison.open_ended:
        t = always_valid_t(n, 1 - comparison.level)
    else:
        t = float(critical_t(comparison.level, n - 1))
    return t * sd / sqrt(n)
