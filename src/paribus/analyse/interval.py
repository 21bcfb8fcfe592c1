"""The paired t interval over seeds, and its p."""

from math import isfinite
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from paribus.errors import SpecError

MIN_SEEDS = 3
ROUNDING = 1e-12  # an effect below this part of its interval is rounding, not a difference
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


def require_min_seeds(n: int) -> None:
    """Refuse fewer seeds than an interval can be made of."""
    if n < MIN_SEEDS:
        raise SpecError(
            f"seeds: {n} given, too few for an interval; use {MIN_SEEDS} or more, 5 by default"
        )
