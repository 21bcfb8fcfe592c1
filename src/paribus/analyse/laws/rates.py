"""The best learning rate over sizes: a power of the parameters, fitted to sweeps at a few sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtrit

from paribus.errors import SpecError

MIN_RATE_SIZES = 3
Array = NDArray[np.float64]


@dataclass(frozen=True)
class RatePoint:
    """The rate that the sweep of an arm found at one size."""

    arm: str
    parameters: float
    rate: float


@dataclass(frozen=True)
class RateLaw:
    """rate = level · N^power: a level for each arm, and one power for all of them."""

    power: float
    low: float  # of the 95 % interval of the power
    high: float
    sd: float  # of ln rate about the law
    df: int
    equal_powers_p: float | None  # of the F test that arms have one power; None where untestable
    log_levels: Mapping[str, float]

    def rate(self, arm: str, parameters: float) -> float:
        """The rate of an arm at a size."""
        return exp(self.log_levels[arm] + self.power * log(parameters))


def fit_rate_law(points: Sequence[RatePoint], level: float = 0.95) -> RateLaw:
    """ln rate on ln N by least squares, with a level for each arm and one power.

    Three sizes of one arm leave a single degree of freedom. All arms together say what the power
    is, and each of them says where its rates lie.
    """
    arms = list(dict.fromkeys(point.arm for point in points))
    _require_sizes(points, arms)
    number_P = np.array([arms.index(point.arm) for point in points])
    x_P = np.log([point.parameters for point in points])
    y_P = np.log([point.rate for point in points])
    own_PA = (number_P[:, None] == np.arange(len(arms))).astype(np.float64)
    together = np.column_stack([own_PA, x_P])
    coefficients, misfit = _least_squares(together, y_P)
    df = len(points) - together.shape[1]
    variance = misfit / df
    spread = float(((x_P - _means(own_PA, x_P)) ** 2).sum())
    reach = float(stdtrit(df, (1 + level) / 2)) * sqrt(variance / spread)
    power = float(coefficients[-1])
    return RateLaw(
        power=power,
        low=power - reach,
        high=power + reach,
        sd=sqrt(variance),
        df=df,
        equal_powers_p=_equal_powers_p(own_PA, x_P, y_P, misfit),
        log_levels=dict(zip(arms, map(float, coefficients[:-1]), strict=True)),
    )


def _require_sizes(points: Sequence[RatePoint], arms: Sequence[str]) -> None:
    for arm in arms:
        sizes = {point.parameters for point in points if point.arm == arm}
        if len(sizes) < MIN_RATE_SIZES:
            raise SpecError(
                f"rates of {arm}: a power law of the rate needs sweeps at {MIN_RATE_SIZES} sizes or"
                f" more, and has {len(sizes)}; sweep more"
            )


def _least_squares(inputs: Array, y_P: Array) -> tuple[Array, float]:
    """Coefficients, and the sum of squares that is left."""
    coefficients: Array = np.linalg.lstsq(inputs, y_P, rcond=None)[0].astype(np.float64)
    return coefficients, float(((y_P - inputs @ coefficients) ** 2).sum())


def _means(own_PA: Array, x_P: Array) -> Array:
    """For each point, the mean over the points of its arm."""
    return own_PA @ ((own_PA.T @ x_P) / own_PA.sum(axis=0))


def _equal_powers_p(own_PA: Array, x_P: Array, y_P: Array, misfit: float) -> float | None:
    """The p of the F test that all arms have one power; None for one arm alone, and where points
    lie on lines.
    """
    n_points, n_arms = own_PA.shape
    if n_arms == 1:
        return None
    _, own_misfit = _least_squares(np.column_stack([own_PA, own_PA * x_P[:, None]]), y_P)
    df = n_points - 2 * n_arms
    if own_misfit <= 0:
        return None
    excess = max(misfit - own_misfit, 0.0) / (n_arms - 1)
    return float(fdtrc(n_arms - 1, df, excess / (own_misfit / df)))
