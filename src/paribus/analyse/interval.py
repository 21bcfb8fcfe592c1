"""The paired t interval over seeds, and its p; and a bound that is only read after a test."""

from math import isfinite, sqrt
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from paribus.errors import SpecError
from paribus.spec.design_values import MIN_SEEDS as MIN_SEEDS

ROUNDING = 1e-12  # an effect below this part of its interval is rounding, not a difference
N_GRID = 400  # steps in which the lowest mean that is not rejected is looked for
Number: TypeAlias = "float | NDArray[np.float64]"


class Moments(NamedTuple):
    """How many seeds, their mean, and their standard deviation with n − 1 below; arrays where
    many sets were given.
    """

    n: int
    mean: Number
    sd: Number

    @property
    def standard_error(self) -> Number:
        """The standard error of the mean, s/√n."""
        return self.sd / np.sqrt(self.n)


def format_effect(effect: float, low: float, high: float) -> str:
    """An effect in four digits; 0 where it is what rounding leaves beside its interval."""
    width = high - low
    if isfinite(width) and abs(effect) <= ROUNDING * width:
        return "0"
    return f"{effect:.4g}"


def moments(gains: ArrayLike) -> Moments:
    """Moments along the last axis; sorted first, so that the order of the seeds changes no bit."""
    sorted_gains = np.sort(np.asarray(gains, dtype=np.float64), axis=-1)
    return Moments(
        sorted_gains.shape[-1], sorted_gains.mean(axis=-1), sorted_gains.std(axis=-1, ddof=1)
    )


def critical_t(level: Number, df: Number) -> Number:
    """The t that a share `level` of all draws stays within, on both sides together."""
    return stdtrit(df, (1 + level) / 2)


def t_interval(
    mean: Number, standard_error: Number, df: Number, level: float
) -> tuple[Number, Number]:
    """mean ± t·error."""
    half = critical_t(level, df) * standard_error
    return mean - half, mean + half


def interval(gains: ArrayLike, level: float = 0.95) -> tuple[Number, Number]:
    """mean ± t₍₁₊level₎/₂,ₙ₋₁ · s/√n, seeds along the last axis."""
    gain_moments = moments(gains)
    require_min_seeds(gain_moments.n)
    return t_interval(gain_moments.mean, gain_moments.standard_error, gain_moments.n - 1, level)


def p_value(gains: ArrayLike) -> Number:
    """The two-sided p of a mean of zero: 2·P(T > |mean|·√n/s)."""
    gain_moments = moments(gains)
    require_min_seeds(gain_moments.n)
    return t_test_p(gain_moments.mean, gain_moments.standard_error, gain_moments.n - 1)


def t_test_p(mean: Number, standard_error: Number, df: Number) -> Number:
    """The two-sided p of a mean and its error; 1 where nothing varies about zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.divide(np.abs(mean), standard_error)
    return np.where(np.isnan(t), 1.0, 2 * stdtr(df, -t))[()]


def lower_end_after_test(own: Moments, error: float, least_t: float) -> float:
    """The one-sided lower end of a mean that is asked for only where its t exceeds `least_t`; 0
    where that end is not above 0.

    The level is that of the test. The plain end, mean − least_t·error, is too high in a share α of
    all sets, and sets that fail the test are never among them: of those that pass, it is too high
    in α / power. So a mean is rejected here where its p is at most α among the sets that pass:
    P(t ≥ observed) / P(pass) ≤ α, given the sum of squares about that mean (Fithian, Sun and
    Taylor 2014). This holds for every mean and every spread. Of a mean of 0 all pass in α, so
    there is an end above 0 only where p ≤ α².
    """
    df, t = own.n - 1, float(own.mean) / error
    alpha = float(stdtr(df, -least_t))

    def excess_p(mean: Number) -> Number:
        return stdtr(df, mean - t) / _share_that_passes(mean, t, df, least_t) - alpha

    grid = np.linspace(0.0, t, N_GRID + 1)
    first = int(np.argmax(np.asarray(excess_p(grid)) > 0))
    if first == 0:
        return 0.0
    bracket = float(grid[first - 1]), float(grid[first])
    return scipy.optimize.root_scalar(excess_p, bracket=bracket, method="brentq").root * error


def _share_that_passes(mean: Number, t: float, df: int, least_t: float) -> Number:
    """The share of all sets with the observed sum of squares about a true mean whose t exceeds
    `least_t`; means in units of the standard error.

    Such sets lie on a sphere, and their t depends on the angle to the direction in which all seeds
    are equal. They pass within one angle of it, and beyond another.
    """
    radius = np.sqrt(df + (t - mean) ** 2)
    slope = least_t / sqrt(df)
    middle = np.arccos(np.maximum(-mean / (radius * sqrt(1 + slope**2)), -1.0))
    near, far = middle - np.arctan(slope), 2 * np.pi - middle - np.arctan(slope)
    return _share_within(near, df) + 1 - _share_within(np.minimum(far, np.pi), df)


def _share_within(angle: Number, df: int) -> Number:
    """The share of a sphere in df + 1 dimensions within an angle of one direction."""
    with np.errstate(divide="ignore"):
        return stdtr(df, -sqrt(df) / np.tan(angle))


def require_min_seeds(n: int) -> None:
    """Refuse fewer seeds than an interval can be made of."""
    if n < MIN_SEEDS:
        raise SpecError(
            f"seeds: {n} given, too few for an interval; use {MIN_SEEDS} or more, 5 by default"
        )
