"""How far cell means lie off a law that does not fit them."""

from __future__ import annotations

import numpy as np

from paribus.analyse.laws.solver import Array, LawData, fitted_log_loss, solve

N_HALVINGS = 30


def off_law_variance(data: LawData, theta_PQ: Array, fit_df: int) -> Array:
    """The variance τ² that all cells must have about the law, beside the noise of their seeds, for
    the weighted sum of squares to be its degrees of freedom (Paule and Mandel).

    `weights_PC` are one over the variance that seeds give a cell mean; `theta_PQ` is the fit with
    these weights. Cells whose seeds hardly differ then no longer decide the law by themselves.
    """
    residual_PC = data.log_loss_PC - fitted_log_loss(data.model, theta_PQ)
    most_P = residual_PC.shape[1] * (residual_PC**2).max(axis=1) / fit_df
    low_P, high_P = np.log(1e-8 * most_P), np.log(most_P)
    for _ in range(N_HALVINGS):
        middle_P = (low_P + high_P) / 2
        weights_PC = 1 / (1 / data.weights_PC + np.exp(middle_P)[:, None])
        found = solve(LawData(data.model, data.log_loss_PC, weights_PC), theta_PQ)
        theta_PQ = found.theta_PQ
        is_more_P = found.misfit_P > fit_df
        low_P = np.where(is_more_P, middle_P, low_P)
        high_P = np.where(is_more_P, high_P, middle_P)
    return np.exp(high_P)
