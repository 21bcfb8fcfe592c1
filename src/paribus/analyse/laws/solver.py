"""Least squares of ln L = ln(E + A/N^α + B/D^β), many problems at once: Levenberg–Marquardt with
the analytic Jacobian.

Problems share the cells and differ in losses and weights; cells of a rung may share a part of their
variance. Parameters are E itself, which is kept at 0 or above, a = ln A − α·x₀ and b = ln B − β·z₀
at the centre (x₀, z₀) of ln N and ln D, and the exponents. So A and B are positive, and a is nearly
independent of α. Several arms may share an E.

Shapes: P problems, C cells, R rungs, Q parameters, F free parameters under a restriction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.laws.points import LawCells

MAX_STEPS = 200
TOLERANCE = 1e-9
MAX_DAMPING = 1e10
HUBER_DELTA = 1e-3  # of ln L, as in Hoffmann et al. and Besiroglu et al.
E_PLACE, A_PLACE, B_PLACE, ALPHA_PLACE, BETA_PLACE = range(5)
Array = NDArray[np.float64]


@dataclass(frozen=True)
class LawModel:
    """Which parameter acts in which cell: the places of E, a, b, α and β of each cell's arm."""

    x_C: Array  # ln N − x₀
    z_C: Array  # ln D − z₀
    places_C5: NDArray[np.intp]
    is_floor_Q: NDArray[np.bool_]  # the parameters that are an E
    centre: tuple[float, float]  # x₀ and z₀

    @property
    def n_parameters(self) -> int:
        return len(self.is_floor_Q)

    def arm_places(self, arm: int) -> NDArray[np.intp]:
        """The places of E, a, b, α and β of an arm, by its number."""
        return np.unique(self.places_C5, axis=0)[arm]


def law_model(arms: Sequence[LawCells], shared_floor: bool = True) -> LawModel:
    """One law for each arm, with one E for all of them or one each."""
    log_parameters_C = np.concatenate([arm.log_parameters_C for arm in arms])
    log_tokens_C = np.concatenate([arm.log_tokens_C for arm in arms])
    x0, z0 = float(log_parameters_C.mean()), float(log_tokens_C.mean())
    places: list[list[int]] = []
    for number, arm in enumerate(arms):
        if shared_floor:
            own = [0, *range(4 * number + 1, 4 * number + 5)]
        else:
            own = [*range(5 * number, 5 * number + 5)]
        places += [own] * len(arm.log_loss_C)
    places_C5 = np.array(places, dtype=np.intp)
    is_floor_Q = np.zeros(int(places_C5.max()) + 1, dtype=np.bool_)
    is_floor_Q[places_C5[:, E_PLACE]] = True
    return LawModel(
        x_C=log_parameters_C - x0,
        z_C=log_tokens_C - z0,
        places_C5=places_C5,
        is_floor_Q=is_floor_Q,
        centre=(x0, z0),
    )


@dataclass(frozen=True)
class Restriction:
    """θ = offset + matrix · φ: which φ are free when a linear function of θ is held."""

    matrix_QF: Array
    is_floor_F: NDArray[np.bool_]

    @staticmethod
    def none(model: LawModel) -> Restriction:
        """Every parameter is free."""
        return Restriction(np.eye(model.n_parameters), model.is_floor_Q)


@dataclass(frozen=True)
class RungVariance:
    """What all cells of a rung are off by together: its variance, beside that of each cell."""

    shared_P: Array
    is_of_CR: Array  # 1 where a cell is of a rung

    def rows(self, rows: NDArray[np.intp]) -> RungVariance:
        """Some of the problems, in this order, also repeated."""
        return RungVariance(self.shared_P[rows], self.is_of_CR)


@dataclass(frozen=True)
class LawData:
    """Losses of many problems at the cells of a model; weights are runs over their variance."""

    model: LawModel
    log_loss_PC: Array
    weights_PC: Array
    rung_variance: RungVariance | None = None

    def rows(self, rows: NDArray[np.intp]) -> LawData:
        """Some of the problems, in this order, also repeated."""
        shared = None if self.rung_variance is None else self.rung_variance.rows(rows)
        return LawData(self.model, self.log_loss_PC[rows], self.weights_PC[rows], shared)

    def weighted(self, values_PCX: Array, weights_PC: Array | None = None) -> Array:
        """The inverse of the covariance of cells, times columns of values."""
        weights_PC = self.weights_PC if weights_PC is None else weights_PC
        weighted_PCX = values_PCX * weights_PC[..., None]
        if self.rung_variance is None:
            return weighted_PCX
        shared_P, is_of_CR = self.rung_variance.shared_P, self.rung_variance.is_of_CR
        # by the formula of Sherman and Morrison, rung by rung
        known_PR = shared_P[:, None] / (1 + shared_P[:, None] * (weights_PC @ is_of_CR))
        common_PRX = known_PR[..., None] * (is_of_CR.T @ weighted_PCX)
        return weighted_PCX - weights_PC[..., None] * (is_of_CR @ common_PRX)


@dataclass(frozen=True)
class Solution:
    """The best parameters of each problem, and the weighted sum of squares there."""

    theta_PQ: Array
    misfit_P: Array


def fitted_log_loss(model: LawModel, theta_PQ: Array) -> Array:
    """ln L of every cell."""
    floor, size, data = _terms(model, theta_PQ)
    return np.log(floor + size + data)


def law_jacobian(model: LawModel, theta_PQ: Array) -> tuple[Array, Array]:
    """ln L of every cell, and its derivatives by every parameter."""
    floor, size, data = _terms(model, theta_PQ)
    total = floor + size + data
    size_share, data_share = size / total, data / total
    own = np.stack(
        [1 / total, size_share, data_share, -model.x_C * size_share, -model.z_C * data_share], -1
    )
    n_cells = len(model.x_C)
    jacobian = np.zeros((len(theta_PQ), n_cells, model.n_parameters))
    jacobian[:, np.arange(n_cells)[:, None], model.places_C5] = own
    return np.log(total), jacobian


def _terms(model: LawModel, theta_PQ: Array) -> tuple[Array, Array, Array]:
    """E, A/N^α and B/D^β of every cell."""
    places = model.places_C5
    size = theta_PQ[:, places[:, A_PLACE]] - theta_PQ[:, places[:, ALPHA_PLACE]] * model.x_C
    data = theta_PQ[:, places[:, B_PLACE]] - theta_PQ[:, places[:, BETA_PLACE]] * model.z_C
    return theta_PQ[:, places[:, E_PLACE]], np.exp(size), np.exp(data)


def solve(
    data: LawData,
    start_PQ: Array,
    restriction: Restriction | None = None,
    offset_PQ: Array | None = None,
    delta: float | None = None,
    tolerance: float = TOLERANCE,
) -> Solution:
    """The nearest least-squares solution of each problem from its start.

    Under a restriction, `offset_PQ` is its constant part and the start is projected onto it. With
    `delta`, Huber's loss of that width takes the place of squares. A step that lowers the misfit by
    a smaller share than `tolerance` is the last.
    """
    if restriction is None:
        restriction = Restriction.none(data.model)
    if offset_PQ is None:
        offset_PQ = np.zeros_like(start_PQ)
    # the columns of a restriction are unit vectors but for the row that is held
    free_F = restriction.matrix_QF.argmax(axis=0)
    for column, row in enumerate(free_F):
        if restriction.matrix_QF[row, column] != 1:
            free_F[column] = int(np.flatnonzero(restriction.matrix_QF[:, column] == 1)[0])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        phi_PF, misfit_P = _descend(
            data, start_PQ[:, free_F], restriction, offset_PQ, delta, tolerance
        )
    return Solution(offset_PQ + phi_PF @ restriction.matrix_QF.T, misfit_P)


def _descend(
    data: LawData,
    phi_PF: Array,
    restriction: Restriction,
    offset_PQ: Array,
    delta: float | None,
    tolerance: float,
) -> tuple[Array, Array]:
    phi_PF = np.where(restriction.is_floor_F, np.maximum(phi_PF, 0), phi_PF)
    matrix = restriction.matrix_QF
    residual = data.log_loss_PC - fitted_log_loss(data.model, offset_PQ + phi_PF @ matrix.T)
    misfit_P = _cost(data, residual, delta)
    damping_P = np.full(len(phi_PF), 1e-3)
    left = np.arange(len(phi_PF))  # problems that have not converged
    for _ in range(MAX_STEPS):
        if not len(left):
            break
        part, offset, phi = data.rows(left), offset_PQ[left], phi_PF[left]
        step = _step(part, phi, restriction, offset, damping_P[left], delta)
        moved = phi + step
        moved = np.where(restriction.is_floor_F, np.maximum(moved, 0), moved)
        residual = part.log_loss_PC - fitted_log_loss(data.model, offset + moved @ matrix.T)
        cost, before = _cost(part, residual, delta), misfit_P[left]
        better = cost < before
        phi_PF[left[better]] = moved[better]
        misfit_P[left[better]] = cost[better]
        damping_P[left] = np.where(better, damping_P[left] / 6, damping_P[left] * 5)
        small = before - cost <= tolerance * before
        ended = (better & small) | (damping_P[left] > MAX_DAMPING) | (before < 1e-24)
        left = left[~ended]
    return phi_PF, misfit_P


def _cost(data: LawData, residual_PC: Array, delta: float | None) -> Array:
    """The weighted sum of squares, or of Huber's loss twice, which is the square near 0."""
    if data.rung_variance is not None:
        assert delta is None, "Huber's loss is of cells that share no variance"
        return (residual_PC * data.weighted(residual_PC[..., None])[..., 0]).sum(axis=-1)
    if delta is None:
        cost_PC = residual_PC**2
    else:
        size = np.abs(residual_PC)
        cost_PC = np.where(size <= delta, size**2, delta * (2 * size - delta))
    return (data.weights_PC * cost_PC).sum(axis=-1)


def _step(
    data: LawData,
    phi_PF: Array,
    restriction: Restriction,
    offset_PQ: Array,
    damping_P: Array,
    delta: float | None,
) -> Array:
    """A damped Gauss–Newton step; an E of 0 that would fall stays where it is."""
    fitted, jacobian = law_jacobian(data.model, offset_PQ + phi_PF @ restriction.matrix_QF.T)
    residual = data.log_loss_PC - fitted
    weights = data.weights_PC
    if delta is not None:
        weights = weights * delta / np.maximum(np.abs(residual), delta)
    if restriction.matrix_QF.shape[0] != restriction.matrix_QF.shape[1]:
        jacobian = jacobian @ restriction.matrix_QF
    weighted = data.weighted(jacobian, weights)
    gradient_PF = (weighted * residual[..., None]).sum(axis=1)
    hessian = np.swapaxes(weighted, 1, 2) @ jacobian
    resting = restriction.is_floor_F & (phi_PF <= 0) & (gradient_PF < 0)
    gradient_PF = np.where(resting, 0, gradient_PF)
    hessian = np.where(resting[:, :, None] | resting[:, None, :], 0, hessian)
    scale = np.einsum("pff->pf", hessian)
    least = 1e-12 * scale.max(axis=-1, keepdims=True) + 1e-300
    added = damping_P[:, None] * scale + np.where(resting, 1.0, least)
    hessian = hessian + added[:, :, None] * np.eye(hessian.shape[-1])
    good = np.isfinite(hessian).all(axis=(1, 2)) & np.isfinite(gradient_PF).all(axis=1)
    hessian[~good], gradient_PF[~good] = np.eye(hessian.shape[-1]), 0
    return np.linalg.solve(hessian, gradient_PF[..., None])[..., 0]
