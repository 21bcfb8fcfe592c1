"""Many starts of a fit: a grid of E and of exponents, and for each the A and B that fit best."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.laws.solver import (
    Array,
    LawData,
    Restriction,
    Solution,
    fitted_log_loss,
    solve,
)

FLOORS = (0.0, 0.25, 0.5, 0.7, 0.85)  # E as a share of the smallest loss
EXPONENTS = (0.15, 0.3, 0.5, 0.9)
N_BEST = 4  # starts of each problem that are followed


def fit_laws(data: LawData, delta: float | None = None, n_followed: int = N_BEST) -> Solution:
    """The best fit of each problem over the best of many starts."""
    starts_GPQ = grid_starts(data)
    costs = [_quick_cost(data, start) for start in starts_GPQ]
    order = np.argsort(np.array(costs), axis=0)[:n_followed]
    return solve_from_each(data, starts_GPQ[order, np.arange(order.shape[1])], delta=delta)


def solve_from_each(
    data: LawData,
    starts_SPQ: Array,
    restriction: Restriction | None = None,
    offset_PQ: Array | None = None,
    delta: float | None = None,
) -> Solution:
    """Of each problem the best solution from several starts, all followed at once."""
    n_starts, n_problems, n_parameters = starts_SPQ.shape
    rows = np.tile(np.arange(n_problems), n_starts)
    if offset_PQ is not None:
        offset_PQ = offset_PQ[rows]
    flat = starts_SPQ.reshape(-1, n_parameters)
    found = solve(data.rows(rows), flat, restriction, offset_PQ, delta=delta)
    misfit_SP = found.misfit_P.reshape(n_starts, n_problems)
    best = misfit_SP.argmin(axis=0), np.arange(n_problems)
    return Solution(found.theta_PQ.reshape(starts_SPQ.shape)[best], misfit_SP[best])


def better_solution(one: Solution, other: Solution) -> Solution:
    """Of each problem the solution that fits better."""
    is_better = other.misfit_P < one.misfit_P
    return Solution(
        np.where(is_better[:, None], other.theta_PQ, one.theta_PQ),
        np.where(is_better, other.misfit_P, one.misfit_P),
    )


def grid_starts(data: LawData) -> Array:
    """For each E of the grid and each pair of exponents, parameters of each problem.

    With one E for several arms, each arm takes its own best pair of exponents.
    """
    model, smallest_P = data.model, np.exp(data.log_loss_PC.min(axis=1))
    arms = np.unique(model.places_C5, axis=0)
    if len(arms) == 1:
        pairs = list(product(FLOORS, product(EXPONENTS, EXPONENTS)))
        return np.stack([_arm_start(data, arms[0], e * smallest_P, ab)[0] for e, ab in pairs])
    starts: list[Array] = []
    for share in FLOORS:
        theta = np.zeros((len(smallest_P), model.n_parameters))
        for places in arms:
            tried = [
                _arm_start(data, places, share * smallest_P, pair)
                for pair in product(EXPONENTS, EXPONENTS)
            ]
            best = np.argmin([cost for _, cost in tried], axis=0)
            own = np.stack([one for one, _ in tried])[best, np.arange(len(best))]
            theta[:, places] = own[:, places]
        starts.append(theta)
    return np.stack(starts)


def _arm_start(
    data: LawData, places: NDArray[np.intp], floor_P: Array, exponents: tuple[float, float]
) -> tuple[Array, Array]:
    """Parameters with an arm's A and B by linear least squares of L, and their misfit there."""
    model = data.model
    own = (model.places_C5 == places).all(axis=1)
    alpha, beta = exponents
    loss = np.exp(data.log_loss_PC[:, own])
    weights = data.weights_PC[:, own] / loss**2
    size_C, data_C = np.exp(-alpha * model.x_C[own]), np.exp(-beta * model.z_C[own])
    rest = loss - floor_P[:, None]
    ss, dd, sd = (weights @ one for one in (size_C**2, data_C**2, size_C * data_C))
    sr, dr = (weights * rest) @ size_C, (weights * rest) @ data_C
    determinant = ss * dd - sd**2
    least = 0.02 * rest.mean(axis=1)
    size = np.maximum((dd * sr - sd * dr) / determinant, least)
    data_term = np.maximum((ss * dr - sd * sr) / determinant, least)
    theta = np.zeros((len(floor_P), model.n_parameters))
    filled = np.full_like(floor_P, alpha), np.full_like(floor_P, beta)
    theta[:, places] = np.stack([floor_P, np.log(size), np.log(data_term), *filled], axis=1)
    fitted = floor_P[:, None] + size[:, None] * size_C + data_term[:, None] * data_C
    cost = (data.weights_PC[:, own] * (data.log_loss_PC[:, own] - np.log(fitted)) ** 2).sum(axis=1)
    return theta, cost


def _quick_cost(data: LawData, theta_PQ: Array) -> Array:
    residual = data.log_loss_PC - fitted_log_loss(data.model, theta_PQ)
    return (data.weights_PC * residual**2).sum(axis=1)
