"""Least squares of ln L for a power law with one smooth break, many problems at once:
Levenberg–Marquardt within a box, with the analytic Jacobian.

L = E + b·N^(−c)·(1 + (N/d)^(1/f))^(−k·f) (Caballero et al. 2022, one break). Below the size d the
exponent is c, above it c + k; f is the width of the change in ln N. Parameters are E, ln b − c·x₀,
c, k, ln d − x₀ and ln f, where x₀ is the centre of ln N. A parameter whose box has no width is
held: with k held at 0 the law is not broken.

Shapes: P problems, C cells, Q parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.laws.solver import MAX_DAMPING, MAX_STEPS, TOLERANCE, Array, Solution

E_AT, SCALE_AT, EXPONENT_AT, CHANGE_AT, BREAK_AT, WIDTH_AT = range(6)
N_BROKEN_PARAMETERS = 6


@dataclass(frozen=True)
class BrokenData:
    """Losses of many problems at the same sizes, weights, and the box of each parameter."""

    x_C: Array  # ln N − x₀
    log_loss_PC: Array
    weights_PC: Array
    low_PQ: Array
    high_PQ: Array

    def rows(self, rows: NDArray[np.intp]) -> BrokenData:
        """Some of the problems, in this order, also repeated."""
        return BrokenData(
            x_C=self.x_C,
            log_loss_PC=self.log_loss_PC[rows],
            weights_PC=self.weights_PC[rows],
            low_PQ=self.low_PQ[rows],
            high_PQ=self.high_PQ[rows],
        )


def bend(x_C: Array, break_P1: Array, width_P1: Array) -> Array:
    """f·ln(1 + (N/d)^(1/f)): 0 far below the break, ln N − ln d far above it."""
    return width_P1 * np.logaddexp(0, (x_C - break_P1) / width_P1)


def broken_log_loss(x_C: Array, theta_PQ: Array) -> Array:
    """ln L at every size."""
    return np.log(theta_PQ[:, E_AT, None] + np.exp(_log_power(x_C, theta_PQ)))


def broken_jacobian(x_C: Array, theta_PQ: Array) -> tuple[Array, Array]:
    """ln L at every size, and its derivatives by every parameter."""
    power = np.exp(_log_power(x_C, theta_PQ))
    total = theta_PQ[:, E_AT, None] + power
    share = power / total
    width, change = np.exp(theta_PQ[:, WIDTH_AT, None]), theta_PQ[:, CHANGE_AT, None]
    place = (x_C - theta_PQ[:, BREAK_AT, None]) / width
    above = np.exp(-np.logaddexp(0, -place))  # the logistic function
    softplus = np.logaddexp(0, place)
    columns = [
        1 / total,
        share,
        -x_C * share,
        -width * softplus * share,
        change * above * share,
        -change * width * (softplus - above * place) * share,
    ]
    return np.log(total), np.stack(columns, axis=-1)


def _log_power(x_C: Array, theta_PQ: Array) -> Array:
    """ln of the part of the loss that falls."""
    _, scale, exponent, change, place, log_width = (theta_PQ[:, q, None] for q in range(6))
    return scale - exponent * x_C - change * bend(x_C, place, np.exp(log_width))


def solve_broken(data: BrokenData, start_PQ: Array) -> Solution:
    """The nearest least-squares solution of each problem from its start, within its box."""
    theta_PQ = np.clip(start_PQ, data.low_PQ, data.high_PQ)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        misfit_P = broken_misfit(data, theta_PQ)
        damping_P = np.full(len(theta_PQ), 1e-3)
        left = np.arange(len(theta_PQ))  # problems that have not converged
        for _ in range(MAX_STEPS):
            if not len(left):
                break
            part, theta = data.rows(left), theta_PQ[left]
            moved = theta + _step(part, theta, damping_P[left])
            moved = np.clip(moved, part.low_PQ, part.high_PQ)
            cost, before = broken_misfit(part, moved), misfit_P[left]
            better = cost < before
            theta_PQ[left[better]], misfit_P[left[better]] = moved[better], cost[better]
            damping_P[left] *= np.where(better, 1 / 6, 5)
            small = before - cost <= TOLERANCE * before
            ended = (better & small) | (damping_P[left] > MAX_DAMPING) | (before < 1e-24)
            left = left[~ended]
    return Solution(theta_PQ, misfit_P)


def broken_misfit(data: BrokenData, theta_PQ: Array) -> Array:
    """The weighted sum of squares of ln L."""
    residual = data.log_loss_PC - broken_log_loss(data.x_C, theta_PQ)
    return (data.weights_PC * residual**2).sum(axis=1)


def _step(data: BrokenData, theta_PQ: Array, damping_P: Array) -> Array:
    """A damped Gauss–Newton step; a parameter at an end of its box does not move beyond it."""
    fitted, jacobian = broken_jacobian(data.x_C, theta_PQ)
    weighted = jacobian * data.weights_PC[..., None]
    gradient_PQ = (weighted * (data.log_loss_PC - fitted)[..., None]).sum(axis=1)
    hessian = np.swapaxes(weighted, 1, 2) @ jacobian
    resting = (theta_PQ <= data.low_PQ) & (gradient_PQ < 0)
    resting |= (theta_PQ >= data.high_PQ) & (gradient_PQ > 0)
    resting |= data.low_PQ == data.high_PQ
    gradient_PQ = np.where(resting, 0, gradient_PQ)
    hessian = np.where(resting[:, :, None] | resting[:, None, :], 0, hessian)
    scale = np.einsum("pqq->pq", hessian)
    least = 1e-12 * scale.max(axis=-1, keepdims=True) + 1e-300
    added = damping_P[:, None] * scale + np.where(resting, 1.0, least)
    hessian = hessian + added[:, :, None] * np.eye(N_BROKEN_PARAMETERS)
    good = np.isfinite(hessian).all(axis=(1, 2)) & np.isfinite(gradient_PQ).all(axis=1)
    hessian[~good], gradient_PQ[~good] = np.eye(N_BROKEN_PARAMETERS), 0
    return np.linalg.solve(hessian, gradient_PQ[..., None])[..., 0]
