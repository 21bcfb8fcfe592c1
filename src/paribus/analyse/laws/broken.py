"""A law of size alone, with one smooth break or without: fits, the F test between them, and the
interval of the break.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, inf, log

import numpy as np
from scipy.special import fdtri

from paribus.analyse.laws.broken_solver import (
    BREAK_AT,
    CHANGE_AT,
    E_AT,
    EXPONENT_AT,
    N_BROKEN_PARAMETERS,
    SCALE_AT,
    WIDTH_AT,
    BrokenData,
    bend,
    broken_log_loss,
    broken_misfit,
    solve_broken,
)
from paribus.analyse.laws.fit import LawEstimate
from paribus.analyse.laws.noise import law_noise
from paribus.analyse.laws.points import LawCells, LawPoint, log_loss_unit, path_cells
from paribus.analyse.laws.solver import Array, Solution
from paribus.analyse.laws.starts import better_solution

LEVEL = 0.05
N_EXTRA = 3  # numbers that a break adds: the change of the exponent, where, and how wide
MAX_EXPONENT = 5.0
FLOORS = (0.0, 0.3, 0.6, 0.85)  # E as a share of the smallest loss
N_BREAKS, WIDTH_SHARES = 7, (0.0, 0.5, 1.0)  # starts: where in their boxes
N_BEST = 8  # starts of each problem that are followed
N_PROFILE = 61  # places of the break that are tried for its interval
N_DRAWS, DRAW_SEED = 499, 0


@dataclass(frozen=True)
class BrokenLaw:
    """L = E + b·N^(−c)·(1 + (N/d)^(1/f))^(−k·f), beside the law without a break."""

    floor: float  # E
    log_scale: float  # ln b
    before: float  # c, the exponent far below the break
    after: float  # c + k, the exponent far above it
    break_at: LawEstimate  # d with its interval; an end beyond the sizes is 0 or infinite
    width: float  # f, in ln N
    plain_floor: float  # of the law without a break: E, ln b and the exponent
    plain_log_scale: float
    plain_exponent: float
    f_value: float
    df: float
    p: float
    n_sizes: int

    @property
    def is_broken(self) -> bool:
        """Is the law without a break rejected?"""
        return self.p < LEVEL

    def loss(self, parameters: float) -> float:
        """The loss of a model of so many parameters, by the broken law."""
        x = np.array([log(parameters)])
        place, width = np.array([[log(self.break_at.estimate)]]), np.array([[self.width]])
        bent = float(bend(x, place, width)[0, 0])
        return self.floor + exp(
            self.log_scale - self.before * x[0] - (self.after - self.before) * bent
        )


@dataclass(frozen=True)
class BrokenFits:
    """Both fits of many problems, with the noise that they are judged by."""

    plain: Solution
    broken: Solution
    variance_P: Array
    df_P: Array

    @property
    def f_P(self) -> Array:
        """How much better the broken law fits, over the noise."""
        gained = np.maximum(self.plain.misfit_P - self.broken.misfit_P, 0)
        return gained / N_EXTRA / self.variance_P


def broken_law(points: Sequence[LawPoint], n_draws: int = N_DRAWS) -> BrokenLaw:
    """The broken law of one arm's runs, one duration for each size, beside the unbroken one.

    p is the share of laws without a break, drawn with the noise of these runs, whose F is as
    large: where there is no break its place and width mean nothing, and F has no exact table.
    """
    given = path_cells(points, points[0].arm if points else "")
    unit = log_loss_unit(given.log_loss_C)
    cells = replace(given, log_loss_C=given.log_loss_C - unit)
    x0 = float(cells.log_parameters_C.mean())
    x_C = cells.log_parameters_C - x0
    fits = fit_both(x_C, cells, cells.log_loss_C[None], np.array([cells.pure_error]))
    theta, plain = fits.broken.theta_PQ[0], fits.plain.theta_PQ[0]
    low, high = _break_interval(x_C, cells, fits)
    return BrokenLaw(
        floor=float(theta[E_AT]) * exp(unit),
        log_scale=float(theta[SCALE_AT] + theta[EXPONENT_AT] * x0) + unit,
        before=float(theta[EXPONENT_AT]),
        after=float(theta[EXPONENT_AT] + theta[CHANGE_AT]),
        break_at=LawEstimate(exp(float(theta[BREAK_AT]) + x0), exp(low + x0), exp(high + x0)),
        width=exp(float(theta[WIDTH_AT])),
        plain_floor=float(plain[E_AT]) * exp(unit),
        plain_log_scale=float(plain[SCALE_AT] + plain[EXPONENT_AT] * x0) + unit,
        plain_exponent=float(plain[EXPONENT_AT]),
        f_value=float(fits.f_P[0]),
        df=float(fits.df_P[0]),
        p=drawn_p(x_C, cells, fits, n_draws),
        n_sizes=len(x_C),
    )


def drawn_p(x_C: Array, cells: LawCells, fits: BrokenFits, n_draws: int) -> float:
    """The share of F as large as this one among laws without a break."""
    rng = np.random.default_rng(DRAW_SEED)
    deviation_C = np.sqrt(fits.variance_P[0] / cells.n_runs_C)
    fitted_C = broken_log_loss(x_C, fits.plain.theta_PQ[:1])[0]
    drawn_DC = fitted_C + deviation_C * rng.standard_normal((n_draws, len(x_C)))
    pure_D = fits.variance_P[0] * rng.chisquare(max(cells.pure_df, 1), n_draws)
    drawn = fit_both(x_C, cells, drawn_DC, pure_D)
    return float((1 + (drawn.f_P >= fits.f_P[0]).sum()) / (1 + n_draws))


def fit_both(x_C: Array, cells: LawCells, log_loss_PC: Array, pure_error_P: Array) -> BrokenFits:
    """The law without a break and with one, of many problems at the same sizes."""
    n_problems = len(log_loss_PC)
    low_Q, high_Q = _box(x_C)
    weights_PC = np.broadcast_to(cells.n_runs_C, log_loss_PC.shape)
    data = BrokenData(
        x_C=x_C,
        log_loss_PC=log_loss_PC,
        weights_PC=weights_PC,
        low_PQ=np.tile(low_Q, (n_problems, 1)),
        high_PQ=np.tile(high_Q, (n_problems, 1)),
    )
    plain = _best_of_starts(_with_held(data, CHANGE_AT, 0.0), is_broken=False)
    broken = _best_of_starts(data, is_broken=True)
    from_plain = solve_broken(data, plain.theta_PQ)
    broken = better_solution(broken, from_plain)
    noise = law_noise(broken.misfit_P, len(x_C) - N_BROKEN_PARAMETERS, pure_error_P, cells.pure_df)
    return BrokenFits(plain=plain, broken=broken, variance_P=noise.variance, df_P=noise.df)


def _box(x_C: Array) -> tuple[Array, Array]:
    """The ends of every parameter: the break lies between the second and the last but one size,
    and is at most as wide as a quarter of all sizes.
    """
    x_C = np.sort(x_C)
    spacing = (x_C[-1] - x_C[0]) / (len(x_C) - 1)
    low = [0.0, -inf, -MAX_EXPONENT, -MAX_EXPONENT, x_C[1], log(spacing / 10)]
    high = [inf, inf, MAX_EXPONENT, MAX_EXPONENT, x_C[-2], log((x_C[-1] - x_C[0]) / 4)]
    return np.array(low), np.array(high)


def _with_held(data: BrokenData, place: int, value: float | Array) -> BrokenData:
    """Problems of which a parameter is held at a value."""
    low_PQ, high_PQ = data.low_PQ.copy(), data.high_PQ.copy()
    low_PQ[:, place] = high_PQ[:, place] = value
    return replace(data, low_PQ=low_PQ, high_PQ=high_PQ)


def _best_of_starts(data: BrokenData, is_broken: bool) -> Solution:
    """The best solution of each problem over the best of many starts."""
    shares = list(product(FLOORS, np.linspace(0, 1, N_BREAKS), WIDTH_SHARES))
    if not is_broken:
        shares = [(floor, 0.5, 0.5) for floor in FLOORS]
    starts_GPQ = np.stack([_start(data, share, is_broken) for share in shares])
    costs_GP = np.stack([broken_misfit(data, start) for start in starts_GPQ])
    order = np.argsort(costs_GP, axis=0)[:N_BEST]
    n_problems = len(data.log_loss_PC)
    chosen_SPQ = starts_GPQ[order, np.arange(n_problems)]
    rows = np.tile(np.arange(n_problems), len(order))
    found = solve_broken(data.rows(rows), chosen_SPQ.reshape(len(rows), -1))
    misfit_SP = found.misfit_P.reshape(len(order), n_problems)
    best = misfit_SP.argmin(axis=0), np.arange(n_problems)
    return Solution(found.theta_PQ.reshape(chosen_SPQ.shape)[best], misfit_SP[best])


def _start(data: BrokenData, shares: tuple[float, float, float], is_broken: bool) -> Array:
    """Parameters with a given E, place and width of the break, and the rest by linear least
    squares of ln(L − E).
    """
    floor_share, break_share, width_share = shares
    low_PQ, high_PQ = data.low_PQ, data.high_PQ
    theta_PQ = np.zeros_like(low_PQ)
    theta_PQ[:, E_AT] = floor_share * np.exp(data.log_loss_PC.min(axis=1))
    for place, share in ((BREAK_AT, break_share), (WIDTH_AT, width_share)):
        theta_PQ[:, place] = low_PQ[:, place] + share * (high_PQ[:, place] - low_PQ[:, place])
    loss_PC = np.exp(data.log_loss_PC)
    rest_PC = loss_PC - theta_PQ[:, E_AT, None]
    weights_PC = data.weights_PC * (rest_PC / loss_PC) ** 2
    bend_PC = bend(data.x_C, theta_PQ[:, BREAK_AT, None], np.exp(theta_PQ[:, WIDTH_AT, None]))
    ones_PC = np.ones_like(rest_PC)
    columns = [ones_PC, -data.x_C * ones_PC, -bend_PC][: 3 if is_broken else 2]
    matrix = np.stack(columns, axis=-1)
    weighted = matrix * weights_PC[..., None]
    hessian = np.swapaxes(weighted, 1, 2) @ matrix
    ridge_P = 1e-9 * np.einsum("pqq->pq", hessian).max(axis=1)
    hessian += ridge_P[:, None, None] * np.eye(len(columns))
    gradient = (weighted * np.log(rest_PC)[..., None]).sum(axis=1)
    solved = np.linalg.solve(hessian, gradient[..., None])[..., 0]
    theta_PQ[:, SCALE_AT : SCALE_AT + len(columns)] = solved
    return np.clip(theta_PQ, low_PQ, high_PQ)


def _break_interval(x_C: Array, cells: LawCells, fits: BrokenFits) -> tuple[float, float]:
    """The places of the break, less the centre, that an F test does not reject when everything
    else is fitted anew; infinite where that reaches the end of what is searched.
    """
    low_Q, high_Q = _box(x_C)
    places = np.linspace(low_Q[BREAK_AT], high_Q[BREAK_AT], N_PROFILE)
    shape = (N_PROFILE, 1)
    data = BrokenData(
        x_C=x_C,
        log_loss_PC=np.tile(cells.log_loss_C, shape),
        weights_PC=np.tile(cells.n_runs_C, shape),
        low_PQ=np.tile(low_Q, shape),
        high_PQ=np.tile(high_Q, shape),
    )
    profile = _best_of_starts(_with_held(data, BREAK_AT, places), is_broken=True)
    least = min(fits.broken.misfit_P[0], profile.misfit_P.min())
    excess = (profile.misfit_P - least) / fits.variance_P[0]
    allowed = excess - float(fdtri(1, fits.df_P[0], 1 - LEVEL))
    estimate = float(fits.broken.theta_PQ[0, BREAK_AT])
    inside = np.flatnonzero(allowed <= 0)
    if not len(inside):
        step = float(places[1] - places[0])
        return estimate - step, estimate + step
    first, last = int(inside[0]), int(inside[-1])
    low = -inf if first == 0 else _zero(places, allowed, first - 1)
    high = inf if last == N_PROFILE - 1 else _zero(places, allowed, last)
    return min(low, estimate), max(high, estimate)


def _zero(places: Array, values: Array, left: int) -> float:
    """Where the line between two neighbours is 0."""
    share = values[left] / (values[left] - values[left + 1])
    return float(places[left] + share * (places[left + 1] - places[left]))
