"""The law by Huber's loss on ln L, as Hoffmann et al. (2022) and Besiroglu et al. (2024) fit it,
with an interval from redrawn cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, nan

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.laws.bounds import FACTORS, bounded
from paribus.analyse.laws.fit import LawEstimate, ScalingLaw
from paribus.analyse.laws.points import (
    MIN_SIZES,
    LawCells,
    LawPoint,
    count_spread_sizes,
    log_loss_unit,
    require_identified,
    unlogged,
)
from paribus.analyse.laws.profile import QUANTITIES, quantity
from paribus.analyse.laws.solver import HUBER_DELTA, Array, LawData, law_model, solve
from paribus.analyse.laws.starts import fit_laws
from paribus.errors import SpecError

N_DRAWS = 1000
DRAW_TOLERANCE = 1e-6


@dataclass(frozen=True)
class HuberFit:
    """A law by Huber's loss, and the parameters of its redrawn fits: E, lnA, lnB, alpha, beta.

    Without draws there is no interval: its ends are nan.
    """

    values: Array
    draws_D5: Array
    n_points: int
    n_cells: int

    @property
    def law(self) -> ScalingLaw:
        floor, log_a, log_b, alpha, beta = map(float, self.values)
        return ScalingLaw(floor=floor, log_a=log_a, log_b=log_b, alpha=alpha, beta=beta)

    def log_estimates(self, level: float = 0.95) -> list[LawEstimate]:
        """E, lnA, lnB, alpha and beta with the quantiles of their draws."""
        if not len(self.draws_D5):
            return [LawEstimate(float(value), nan, nan) for value in self.values]
        tails = ((1 - level) / 2, (1 + level) / 2)
        lows, highs = np.quantile(self.draws_D5, tails, axis=0)
        return [LawEstimate(*map(float, own)) for own in zip(self.values, lows, highs, strict=True)]

    def estimates(self, level: float = 0.95) -> dict[str, LawEstimate]:
        """E, A, B, alpha and beta with the quantiles of their draws.

        An end that means nothing, because the points do not bound the number there, is infinite;
        below, that of E, A and B is 0.
        """
        found: dict[str, LawEstimate] = {}
        names = ("E", "A", "B", "alpha", "beta")
        for name, own in zip(names, self.log_estimates(level), strict=True):
            if name in FACTORS:
                own = LawEstimate(unlogged(own.estimate), unlogged(own.low), unlogged(own.high))
            found[name] = bounded(name, own)
        return found


def huber_law(
    points: Sequence[LawPoint], seed: int = 0, n_draws: int = N_DRAWS, delta: float = HUBER_DELTA
) -> HuberFit:
    """The law of one arm's runs; each run is a point.

    Draws take cells with replacement, all seeds of a cell together. A draw that holds too few
    sizes for a law is taken again. With no size to spare all draws would have the same sizes, and
    say nothing of an interval: none are taken.
    """
    require_identified(points, points[0].arm if points else "")
    if count_spread_sizes(points) == MIN_SIZES:
        n_draws = 0
    cells, number_C = _single_runs(points)
    model, unit = law_model([cells]), log_loss_unit(cells.log_loss_C)
    one = LawData(model, cells.log_loss_C[None] - unit, np.ones((1, len(points))))
    best = fit_laws(one, delta)
    counts_DC = _redrawn_counts(points, number_C, np.random.default_rng(seed), n_draws)
    data = LawData(model, np.repeat(one.log_loss_PC, n_draws, axis=0), counts_DC)
    start = np.repeat(best.theta_PQ, n_draws, axis=0)
    drawn = solve(data, start, delta=delta, tolerance=DRAW_TOLERANCE)
    weights_5Q = np.array([quantity(model, name).weights_Q for name in QUANTITIES])
    return HuberFit(
        values=_rescaled(weights_5Q @ best.theta_PQ[0], unit),
        draws_D5=_rescaled(drawn.theta_PQ @ weights_5Q.T, unit),
        n_points=len(points),
        n_cells=int(number_C.max()) + 1,
    )


def _rescaled(values_X5: Array, unit: float) -> Array:
    """E, lnA, lnB, alpha and beta of losses that were divided by a unit, given as its logarithm."""
    floors, rest = values_X5[..., :1] * exp(unit), values_X5[..., 1:]
    return np.concatenate([floors, rest + unit * np.array([1, 1, 0, 0])], axis=-1)


def without_highest(points: Sequence[LawPoint], n_dropped: int) -> list[LawPoint]:
    """All points but those with the highest losses, in their order."""
    if not 0 <= n_dropped < len(points):
        raise SpecError(
            f"--drop-highest is {n_dropped} for {len(points)} points; use 0 to {len(points) - 1}"
        )
    order = sorted(range(len(points)), key=lambda place: points[place].loss)
    return [points[place] for place in sorted(order[: len(points) - n_dropped])]


def _single_runs(points: Sequence[LawPoint]) -> tuple[LawCells, NDArray[np.intp]]:
    """Each run as a cell of its own, and the number of the (N, D) that it belongs to."""
    places = np.array([(point.parameters, point.tokens) for point in points])
    _, number_C = np.unique(places, axis=0, return_inverse=True)
    cells = LawCells(
        arm=points[0].arm,
        log_parameters_C=np.log(places[:, 0]),
        log_tokens_C=np.log(places[:, 1]),
        log_loss_C=np.log([point.loss for point in points]),
        n_runs_C=np.ones(len(points)),
        squares_C=np.zeros(len(points)),
        relative_variance_C=np.ones(len(points)),
        rungs=tuple(map(str, range(len(points)))),
    )
    return cells, number_C.reshape(-1)


def _redrawn_counts(
    points: Sequence[LawPoint], number_C: NDArray[np.intp], rng: np.random.Generator, n_draws: int
) -> Array:
    """How often each run is taken in each draw."""
    n_cells = int(number_C.max()) + 1
    counts: list[Array] = []
    while len(counts) < n_draws:
        count = np.bincount(rng.integers(n_cells, size=n_cells), minlength=n_cells)[number_C]
        kept = [point for point, n in zip(points, count, strict=True) if n]
        if _is_identified(kept):
            counts.append(count.astype(np.float64))
    return np.array(counts).reshape(n_draws, len(points))


def _is_identified(points: Sequence[LawPoint]) -> bool:
    try:
        require_identified(points)
    except SpecError:
        return False
    return True
