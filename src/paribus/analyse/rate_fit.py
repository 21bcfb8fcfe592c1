"""A parabola through the losses of a sweep, in log₂ rate: its vertex, how sure that is, and how
well it fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, log2, sqrt
from operator import mul

import numpy as np
from scipy.special import fdtrc, stdtrit

LEVEL = 0.95  # of the vertex's interval
MAX_OCTAVES = 1.0  # octaves from the rate that was taken, at which that interval ends
N_COEFFICIENTS = 3


@dataclass(frozen=True)
class RateFit:
    """The least-squares a·x² + b·x + c of losses at x = log₂ rate, one point a run."""

    a: float
    b: float
    c: float
    n_points: int
    rss: float  # the sum of squared residuals
    pure_error: float  # of these, what seeds differ by at the same rate
    n_rates: int
    curvature_variance: float  # of a, over the variance of a residual
    slope_variance: float  # of the slope at the vertex, the same; inf without a vertex

    @property
    def vertex(self) -> float | None:
        """log₂ of the best rate; None where the parabola has no lowest point."""
        if self.a > 0:
            return -self.b / (2 * self.a)
        return None

    @property
    def df(self) -> int:
        return self.n_points - N_COEFFICIENTS

    @property
    def half_width(self) -> float:
        """Of the vertex's 95 % interval in octaves, by the delta method.

        It is inf where the bend itself is not above 0 at that level: then the points do not say
        where the vertex is.
        """
        if self.a <= 0 or self.df < 1:
            return inf
        times, variance = _t_quantile(self.df), self.rss / self.df
        if self.a <= times * sqrt(variance * self.curvature_variance):
            return inf
        return times * sqrt(variance * self.slope_variance) / (2 * self.a)

    @property
    def lack_of_fit(self) -> float | None:
        """The p of the F test against what seeds differ by at the same rate; None where there
        is nothing to test.
        """
        own, pure = self.n_rates - N_COEFFICIENTS, self.n_points - self.n_rates
        if own < 1 or pure < 1 or not self.pure_error:
            return None
        ratio = max(0.0, self.rss - self.pure_error) / own / (self.pure_error / pure)
        return float(fdtrc(own, pure, ratio))

    def vertex_interval(self, log2_rate: float) -> tuple[float, float] | None:
        """The interval of the vertex, clipped to an octave either side of the rate that was
        taken, in log₂.
        """
        if self.vertex is None:
            return None
        low, high = self.vertex - self.half_width, self.vertex + self.half_width
        return max(low, log2_rate - MAX_OCTAVES), min(high, log2_rate + MAX_OCTAVES)

    def excess_loss(self, log2_rate: float) -> float | None:
        """The loss that the rate taken would cost if the best one were at an end of the
        vertex's interval.
        """
        ends = self.vertex_interval(log2_rate)
        if ends is None:
            return None
        low, high = ends
        return self.a * max(abs(low - log2_rate), abs(high - log2_rate)) ** 2


def fit_rates(losses: Mapping[float, Sequence[float]]) -> RateFit:
    """The fit of losses by rate, of three rates or more; about the middle, where the powers are
    told apart best.
    """
    x, y = [], []
    for rate, own in losses.items():
        x += [log2(rate)] * len(own)
        y += own
    n, centre, level = len(x), sum(x) / len(x), sum(y) / len(y)
    u, v = [one - centre for one in x], [one - level for one in y]
    s2, s3, s4 = _power_sum(u, 2), _power_sum(u, 3), _power_sum(u, 4)
    t1 = sum(map(mul, u, v))
    t2 = sum(map(mul, map(mul, u, u), v))
    bend = s4 - s2 * s2 / n - s3 * s3 / s2  # of u², what 1 and u leave of it
    a = (t2 - s3 * t1 / s2) / bend
    b = (t1 - s3 * a) / s2
    c = -s2 * a / n
    rss = sum((loss - (a * one + b) * one - c) ** 2 for one, loss in zip(u, v, strict=True))
    pure = sum(map(_sum_of_squares, losses.values()))
    variance = 1 / s2 + (-b / a - s3 / s2) ** 2 / bend if a > 0 else inf
    return RateFit(
        a=a,
        b=b - 2 * a * centre,
        c=c + level - b * centre + a * centre**2,
        n_points=n,
        rss=rss,
        pure_error=pure,
        n_rates=len(losses),
        curvature_variance=1 / bend,
        slope_variance=variance,
    )


def _power_sum(values: Sequence[float], power: int) -> float:
    return sum(one**power for one in values)


def _sum_of_squares(own: Sequence[float]) -> float:
    """The sum of squares about the mean."""
    middle = sum(own) / len(own)
    return sum((one - middle) ** 2 for one in own)


@lru_cache(maxsize=256)
def _t_quantile(df: int) -> float:
    return float(stdtrit(df, (1 + LEVEL) / 2))


def parabola_points(
    coefficients: Sequence[float], rates: Sequence[float], n_points: int = 33
) -> list[tuple[float, float]]:
    """Points (rate, loss) of a parabola in log₂ rate, evenly spaced from the lowest of some
    rates to the highest.
    """
    places = np.linspace(log2(min(rates)), log2(max(rates)), n_points)
    return [(float(2**place), float(np.polyval(coefficients, place))) for place in places]
