"""Profile-F intervals: the values of a linear function of the parameters that an F test does not
reject, everything else fitted anew at each value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtrit

from paribus.analyse.laws.solver import (
    A_PLACE,
    ALPHA_PLACE,
    B_PLACE,
    BETA_PLACE,
    E_PLACE,
    Array,
    LawData,
    LawModel,
    Restriction,
    Solution,
    law_jacobian,
)
from paribus.analyse.laws.starts import grid_starts, solve_from_each

QUANTITIES = ("E", "lnA", "lnB", "alpha", "beta")
N_EXPANSIONS, N_REFINEMENTS = 12, 12
END_TOLERANCE = 1e-3  # of the signed root at an end


@dataclass(frozen=True)
class Functional:
    """A linear function of the parameters, and the one that follows from the others when it is
    held.
    """

    weights_Q: Array
    pivot: int
    least: float = -np.inf  # values below it cannot be


def quantity(model: LawModel, name: str, arm: int = 0) -> Functional:
    """E, lnA, lnB, alpha or beta of an arm."""
    places = model.arm_places(arm)
    x0, z0 = model.centre
    weights_by_name: Mapping[str, dict[int, float]] = {
        "E": {E_PLACE: 1.0},
        "lnA": {A_PLACE: 1.0, ALPHA_PLACE: x0},
        "lnB": {B_PLACE: 1.0, BETA_PLACE: z0},
        "alpha": {ALPHA_PLACE: 1.0},
        "beta": {BETA_PLACE: 1.0},
    }
    weights_Q = np.zeros(model.n_parameters)
    for place, weight in weights_by_name[name].items():
        weights_Q[places[place]] = weight
    pivot = int(places[next(iter(weights_by_name[name]))])
    return Functional(weights_Q, pivot, least=0.0 if name == "E" else -np.inf)


def difference(model: LawModel, name: str, arm: int, against: int) -> Functional:
    """The quantity of an arm less that of another."""
    own, other = quantity(model, name, arm), quantity(model, name, against)
    return Functional(own.weights_Q - other.weights_Q, own.pivot)


def signed_root(
    data: LawData, best: Solution, functional: Functional, values_P: Array, *starts_PQ: Array
) -> tuple[Array, Array]:
    """±√(S(value) − S_min) where the functional is held at a value, in units of the noise, and the
    parameters there, from several starts. Under the law it follows t, and its square F.
    """
    restriction, offset_PQ = _restriction(data.model, functional, values_P)
    shifted = _linear_shift(data, best, functional, values_P)
    found = solve_from_each(data, np.stack([shifted, *starts_PQ]), restriction, offset_PQ)
    excess = np.maximum(found.misfit_P - best.misfit_P, 0)
    sign = np.sign(values_P - best.theta_PQ @ functional.weights_Q)
    return sign * np.sqrt(excess), found.theta_PQ


def profile_p(
    data: LawData, best: Solution, functional: Functional, value: float, df: Array
) -> Array:
    """The p of the F test that a functional has a value."""
    values = np.full(len(best.misfit_P), value)
    starts = [best.theta_PQ, *_far_starts(data, best)]
    root, _ = signed_root(data, best, functional, values, *starts)
    return fdtrc(1, df, root**2)


def profile_interval(
    data: LawData, best: Solution, functional: Functional, df: Array, level: float = 0.95
) -> tuple[Array, Array]:
    """The ends of the interval; infinite where the profile never reaches the quantile.

    The lower end of an E that is not bounded below is 0.
    """
    critical_P = stdtrit(df, (1 + level) / 2)
    far_starts = _far_starts(data, best)
    low = _end(data, best, functional, critical_P, -1.0, far_starts)
    high = _end(data, best, functional, critical_P, 1.0, far_starts)
    return low, high


def _end(
    data: LawData,
    best: Solution,
    functional: Functional,
    critical_P: Array,
    side: float,
    far_starts: Sequence[Array],
) -> Array:
    """Where the signed root passes the quantile on one side: outward in doubling steps, then by
    false position.
    """
    estimate = best.theta_PQ @ functional.weights_Q
    width = side * critical_P * np.maximum(_standard_error(data, best, functional), 1e-9)
    inside, outside = estimate.copy(), np.full_like(estimate, side * np.inf)
    root_in, root_out = np.zeros_like(estimate), np.full_like(estimate, np.nan)
    warm = best.theta_PQ.copy()
    left = np.arange(len(estimate))
    for expansion in range(N_EXPANSIONS):
        trial = np.maximum(estimate[left] + width[left] * 2.0**expansion, functional.least)
        starts = [one[left] for one in (warm, *far_starts)]
        root, theta = signed_root(data.rows(left), _rows(best, left), functional, trial, *starts)
        past = np.abs(root) > critical_P[left]
        outside[left[past]], root_out[left[past]] = trial[past], np.abs(root[past])
        inside[left[~past]], root_in[left[~past]] = trial[~past], np.abs(root[~past])
        warm[left[~past]] = theta[~past]
        at_limit = ~past & (trial <= functional.least)
        outside[left[at_limit]] = functional.least
        left = left[~past & ~at_limit]
        if not len(left):
            break
    bracket = inside, outside, root_in, root_out, warm
    _refine(data, best, functional, critical_P, bracket, far_starts)
    return outside


def _refine(
    data: LawData,
    best: Solution,
    functional: Functional,
    critical_P: Array,
    bracket: tuple[Array, Array, Array, Array, Array],
    far_starts: Sequence[Array],
) -> None:
    """Narrow each bracket until the root at its outer end is the quantile (Illinois rule)."""
    inside, outside, root_in, root_out, warm = bracket
    left = np.flatnonzero(np.isfinite(root_out))
    last = np.zeros(len(inside))  # which end moved last
    gap_in, gap_out = root_in - critical_P, root_out - critical_P
    for _ in range(N_REFINEMENTS):
        left = left[np.abs(root_out[left] - critical_P[left]) > END_TOLERANCE]
        if not len(left):
            return
        share = gap_in[left] / (gap_in[left] - gap_out[left])
        trial = inside[left] + share * (outside[left] - inside[left])
        starts = [one[left] for one in (warm, *far_starts)]
        root, theta = signed_root(data.rows(left), _rows(best, left), functional, trial, *starts)
        root = np.abs(root)
        past = root > critical_P[left]
        far, near, gap = left[past], left[~past], root - critical_P[left]
        outside[far], root_out[far], gap_out[far] = trial[past], root[past], gap[past]
        inside[near], root_in[near], gap_in[near] = trial[~past], root[~past], gap[~past]
        warm[near] = theta[~past]
        gap_in[far] = np.where(last[far] == 1, gap_in[far] / 2, gap_in[far])
        gap_out[near] = np.where(last[near] == -1, gap_out[near] / 2, gap_out[near])
        last[far], last[near] = 1, -1
        close = near[np.abs(root[~past] - critical_P[near]) <= END_TOLERANCE]
        outside[close], root_out[close] = inside[close], critical_P[close]


def _rows(solution: Solution, rows: NDArray[np.intp]) -> Solution:
    return Solution(solution.theta_PQ[rows], solution.misfit_P[rows])


def _restriction(
    model: LawModel, functional: Functional, values_P: Array
) -> tuple[Restriction, Array]:
    """The pivot as it follows from the others and the value."""
    free = np.arange(model.n_parameters) != functional.pivot
    matrix_QF = np.eye(model.n_parameters)[:, free]
    matrix_QF[functional.pivot] = (
        -functional.weights_Q[free] / functional.weights_Q[functional.pivot]
    )
    offset_PQ = np.zeros((len(values_P), model.n_parameters))
    offset_PQ[:, functional.pivot] = values_P / functional.weights_Q[functional.pivot]
    return Restriction(matrix_QF, model.is_floor_Q[free]), offset_PQ


def covariance(data: LawData, best: Solution) -> Array:
    """The covariance of the parameters by linear approximation; an E of 0 is held there."""
    _, jacobian = law_jacobian(data.model, best.theta_PQ)
    hessian = np.swapaxes(data.weighted(jacobian), 1, 2) @ jacobian
    resting = data.model.is_floor_Q & (best.theta_PQ <= 0)
    hessian = np.where(resting[:, :, None] | resting[:, None, :], 0, hessian)
    # of a parameter that the cells say nothing of: its variance stays a number
    scale = np.sqrt(np.maximum(np.einsum("pqq->pq", hessian), 1e-100))
    scale = np.where(resting, 1.0, scale)
    identity = np.eye(hessian.shape[-1])
    scaled = hessian / scale[:, :, None] / scale[:, None, :] + 1e-10 * identity
    scaled = scaled + resting[:, :, None] * identity
    inverse = np.linalg.inv(scaled) / scale[:, :, None] / scale[:, None, :]
    return np.where(resting[:, :, None] | resting[:, None, :], 0, inverse)


def _standard_error(data: LawData, best: Solution, functional: Functional) -> Array:
    variance = covariance(data, best)
    error = np.sqrt(np.einsum("q,pqr,r->p", functional.weights_Q, variance, functional.weights_Q))
    # an E that rests at 0 has none; a tenth of the loss is a step of its order
    return np.where(error > 0, error, 0.1)


def _far_starts(data: LawData, best: Solution) -> list[Array]:
    """The best fit with each E at two thirds of the smallest loss, if the best fit of all has an E
    of 0: far from it there may be a second valley, which a profile has to know of.
    """
    is_floor_Q = data.model.is_floor_Q
    resting = np.flatnonzero((is_floor_Q & (best.theta_PQ <= 0)).any(axis=1))
    if not len(resting):
        return []
    part = data.rows(resting)
    held = Restriction(np.eye(len(is_floor_Q))[:, ~is_floor_Q], is_floor_Q[~is_floor_Q])
    floor_P = np.exp(part.log_loss_PC.min(axis=1)) * 2 / 3
    starts = np.concatenate([best.theta_PQ[None, resting], grid_starts(part)])
    offset_PQ = is_floor_Q * floor_P[:, None]
    theta_PQ = best.theta_PQ.copy()
    theta_PQ[resting] = solve_from_each(part, starts, held, offset_PQ).theta_PQ
    return [theta_PQ]


def _linear_shift(data: LawData, best: Solution, functional: Functional, values_P: Array) -> Array:
    """The parameters at a value of the functional, if the law were linear in them."""
    towards = covariance(data, best) @ functional.weights_Q
    along = np.maximum(towards @ functional.weights_Q, 1e-300)
    step = (values_P - best.theta_PQ @ functional.weights_Q) / along
    return best.theta_PQ + np.where(along > 1e-200, step, 0)[:, None] * towards
