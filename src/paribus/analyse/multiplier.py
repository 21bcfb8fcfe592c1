"""What is an effect worth in compute? Read off the annealed lengths of the arm it is judged
against.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
import scipy
from numpy.typing import NDArray

from paribus.analyse.compare import Comparison
from paribus.analyse.interval import critical_t, moments
from paribus.analyse.length_curves import LengthCurves, is_improving
from paribus.analyse.power import always_valid_t

MAX_FACTOR = 2.0  # beyond it the slope at full length is not drawn out
MIN_POWER, MAX_POWER = 1e-3, 4.0  # of tokens, over which a curve may be straight
N_POINTS = 150  # at which a curve is read on either side of its full length


@dataclass(frozen=True)
class Multiplier:
    """How many times its tokens the arm that another is judged against would need for the
    other's score.

    `low` and `high` join the noise of the effect and of the curve. A value of 0 is less than
    `min_factor`, the shortest length, and an infinite one more than 2: nothing is read beyond them.
    A value above 1 is extrapolated. The ends are None where there is no interval yet, all are None
    where the curve gives none, with the reason.
    """

    factor: float | None
    low: float | None
    high: float | None
    reason: str = ""
    min_factor: float = 0.25

    @property
    def factor_in_range(self) -> float | None:
        """The factor, where it lies within the limits."""
        if self.factor and self.factor < inf:
            return self.factor
        return None

    @property
    def is_extrapolated(self) -> bool:
        """Does any of its numbers lie beyond the full length?"""
        return any(one is not None and one > 1 for one in (self.factor, self.high))


def compute_multiplier(
    comparison: Comparison, gains: Mapping[int, float], curves: LengthCurves
) -> Multiplier:
    """The x at which the curve of what an arm is judged against reaches the arm's score, as a
    share of its tokens.

    Seed by seed, z(x) = c(x) − (y − d) with the seed's own curve c of losses, its score y at full
    length and its gain d. Below the full length c is interpolated (monotone, over the power of
    tokens on which the mean curve is straight, else over ln tokens), above it drawn out in ln
    tokens by the slope there. The factor is where the mean of z is 0. The interval holds every x at
    which a paired t test of z = 0 does not reject at the comparison's level, so the noise of both
    and what they share are in it.
    """
    if curves.reason:
        return Multiplier(factor=None, low=None, high=None, reason=curves.reason)
    seeds = sorted(curves.by_seed.keys() & gains.keys())
    slopes = curves.slopes_S
    if not is_improving(slopes.tolist()):
        return Multiplier(
            factor=None, low=None, high=None, reason="does not clearly improve with more tokens"
        )
    own = np.isin(sorted(curves.by_seed), seeds)
    log_tokens_K = curves.log_tokens_SK[own].mean(axis=0)
    gains_S = np.array([gains[seed] for seed in seeds], dtype=np.float64)
    return _multiplier_from_curves(
        log_tokens_K, curves.losses_SK[own], slopes[own], gains_S, comparison
    )


def _multiplier_from_curves(
    log_tokens_K: NDArray[np.float64],
    losses_SK: NDArray[np.float64],
    slopes_S: NDArray[np.float64],
    gains_S: NDArray[np.float64],
    comparison: Comparison,
) -> Multiplier:
    places_P, z_PS = _gaps_to_score(log_tokens_K, losses_SK, slopes_S, gains_S)
    gap_moments = moments(z_PS)
    mean, error, t = (
        np.asarray(gap_moments.mean),
        np.asarray(gap_moments.standard_error),
        _critical_t(comparison, len(gains_S)),
    )
    start = N_POINTS - 1  # the full length
    factor = _factor_at_zero(places_P, mean, start)
    least = exp(float(log_tokens_K[0]))
    if t == inf:
        return Multiplier(factor=factor, low=None, high=None, reason="", min_factor=least)
    # The loss falls with x: below the interval the curve lies surely above the arm's score, beyond
    # it surely below.
    top = len(places_P) - 1
    # the first place that is not below the factor
    above = int(np.searchsorted(places_P, log(factor or least)))
    after, before = min(above, top), max(min(above, top + 1) - 1, 0)
    below, beyond = mean - t * error, mean + t * error
    if below[after] > 0:
        low = inf
    else:
        low = _first_crossing(places_P, -below, range(after, -1, -1), 0.0)
    if beyond[before] < 0:
        high = 0.0
    else:
        high = _first_crossing(places_P, beyond, range(before, top + 1), inf)
    return Multiplier(factor=factor, low=low, high=high, reason="", min_factor=least)


def _critical_t(comparison: Comparison, n: int) -> float:
    """How many errors wide the comparison's interval is, for n seeds."""
    if comparison.open_ended:
        return always_valid_t(n, 1 - comparison.level)
    return float(critical_t(comparison.level, n - 1))


def _gaps_to_score(
    log_tokens_K: NDArray[np.float64],
    losses_SK: NDArray[np.float64],
    slopes_S: NDArray[np.float64],
    gains_S: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places in ln tokens, and at each how far the curve of a seed lies above the arm's score
    in that seed.
    """
    inside_P = np.linspace(log_tokens_K[0], 0.0, N_POINTS)
    beyond_P = np.linspace(0.0, log(MAX_FACTOR), N_POINTS)[1:]
    power = linearising_power(log_tokens_K, losses_SK.mean(axis=0))
    read_PS = scipy.interpolate.PchipInterpolator(_power_scale(log_tokens_K, power), losses_SK.T)(
        _power_scale(inside_P, power)
    )
    drawn_PS = losses_SK[:, -1] - beyond_P[:, None] * slopes_S
    scores_S = losses_SK[:, -1] - gains_S
    return np.concatenate([inside_P, beyond_P]), np.concatenate([read_PS, drawn_PS]) - scores_S


def linearising_power(log_tokens_K: NDArray[np.float64], losses_K: NDArray[np.float64]) -> float:
    """The b for which a curve is straight over tokens⁻ᵇ at its first, middle and last length; 0
    if it is not convex.

    A curve of three lengths bends more over ln tokens than a monotone interpolation follows; over
    this scale it does not bend, and a power law is read off without error.
    """
    at = [0, len(log_tokens_K) // 2, -1]
    (first, middle, last), losses = log_tokens_K[at], losses_K[at]
    before, after = losses[0] - losses[1], losses[1] - losses[2]

    def bend(b: float) -> float:
        return before * (exp(-b * middle) - exp(-b * last)) - after * (
            exp(-b * first) - exp(-b * middle)
        )

    falls = min(before, after) > 0 and before * (last - middle) > after * (middle - first)
    if not falls or bend(MAX_POWER) > 0:
        return 0.0
    if bend(MIN_POWER) <= 0:
        return 0.0
    return scipy.optimize.root_scalar(bend, bracket=(MIN_POWER, MAX_POWER), method="brentq").root


def _power_scale(log_tokens: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """−tokens⁻ᵇ, which rises with tokens; ln tokens for b = 0."""
    if power:
        return -np.exp(-power * log_tokens)
    return log_tokens


def _factor_at_zero(
    places_P: NDArray[np.float64], mean_P: NDArray[np.float64], start: int
) -> float:
    """The factor at which the mean first is 0, outward from the full length; 0 or infinite
    where it is nowhere.
    """
    if mean_P[start] >= 0:
        return _first_crossing(places_P, mean_P, range(start, len(places_P)), inf)
    return _first_crossing(places_P, -mean_P, range(start, -1, -1), 0.0)


def _first_crossing(
    places_P: NDArray[np.float64], values_P: NDArray[np.float64], order: range, beyond: float
) -> float:
    """exp of the first place, in this order, at which values that begin above 0 no longer are;
    straight between two.
    """
    places, values = places_P[order], values_P[order]
    hits = np.flatnonzero(values <= 0)
    if not len(hits):
        return beyond
    hit = int(hits[0])
    if hit == 0:
        return exp(places[0])
    share = values[hit - 1] / (values[hit - 1] - values[hit])
    return exp(places[hit - 1] + share * (places[hit] - places[hit - 1]))
