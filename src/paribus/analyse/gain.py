"""How much better, in one seed? Positive is better, whatever the yardstick."""

from math import exp, log
from typing import Literal

from paribus.errors import SpecError
from paribus.spec.measure import Measure

Scale = Literal["difference", "log_ratio"]


def gain(baseline: float, arm: float, measure: Measure, scale: Scale = "difference") -> float:
    """The oriented difference of two scores of one seed.

    Nats, bits per byte and points are subtracted as they are; times and prices as logarithms,
    `log_ratio`.
    """
    if scale == "log_ratio":
        return measure.gain(_log(baseline), _log(arm))
    return measure.gain(baseline, arm)


def as_ratio(effect: float) -> float:
    """A difference of logarithms as a ratio: of nats per token, the ratio of perplexities."""
    return exp(effect)


def _log(score: float) -> float:
    if score <= 0:
        raise SpecError(
            f"gain: a score of {score:g} has no logarithm; use scale 'difference', or scores"
            " above 0"
        )
    return log(score)
