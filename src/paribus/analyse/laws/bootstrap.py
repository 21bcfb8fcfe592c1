"""A wild bootstrap of whole cells: the second interval of a law."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paribus.analyse.laws.fit import LawEstimate, LawFit
from paribus.analyse.laws.profile import QUANTITIES, covariance, quantity
from paribus.analyse.laws.solver import Array, LawData, fitted_log_loss, law_jacobian, solve

N_DRAWS = 999


def bootstrap_parameters(fit: LawFit, seed: int, n_draws: int = N_DRAWS) -> Array:
    """Parameters fitted to redrawn cells, one row per draw.

    The residual of each cell mean, over 1 − its leverage, is kept or turned, with equal chance.
    All seeds of a cell turn together, and so do all arms at the same rung: what seeds of a cell
    and arms of a rung share stays shared.
    """
    theta_PQ = fit.best.theta_PQ[:1]
    fitted_C = fitted_log_loss(fit.model, theta_PQ)[0]
    residual_C = (fit.data.log_loss_PC[0] - fitted_C) / (1 - _leverage(fit))
    rungs = [rung for arm in fit.arms for rung in arm.rungs]
    _, number_C = np.unique(rungs, return_inverse=True)
    signs_DR = np.random.default_rng(seed).choice([-1.0, 1.0], size=(n_draws, number_C.max() + 1))
    drawn_DC = fitted_C + signs_DR[:, number_C] * residual_C
    weights_DC = np.repeat(fit.data.weights_PC[:1], n_draws, axis=0)
    data = LawData(fit.model, drawn_DC, weights_DC)
    return solve(data, np.repeat(theta_PQ, n_draws, axis=0)).theta_PQ


def bootstrap_intervals(
    fit: LawFit, draws_DQ: Array, arm: int = 0, level: float = 0.95
) -> dict[str, LawEstimate]:
    """E, lnA, lnB, alpha and beta of an arm with the quantiles of their draws."""
    tails: Sequence[float] = ((1 - level) / 2, (1 + level) / 2)
    estimates: dict[str, LawEstimate] = {}
    for name in QUANTITIES:
        weights_Q = quantity(fit.model, name, arm).weights_Q
        low, high = np.quantile(draws_DQ @ weights_Q, tails)
        estimate = float(fit.best.theta_PQ[0] @ weights_Q)
        estimates[name] = LawEstimate(estimate, float(low), float(high))
    return estimates


def _leverage(fit: LawFit) -> Array:
    """How much each cell mean moves its own fitted value: at most 0.99."""
    _, jacobian = law_jacobian(fit.model, fit.best.theta_PQ[:1])
    variance = covariance(fit.data, fit.best)[0]
    own = np.einsum("cq,qr,cr->c", jacobian[0], variance, jacobian[0])
    return np.minimum(own * fit.data.weights_PC[0], 0.99)
