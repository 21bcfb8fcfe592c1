"""How far cell means lie off laws that do not fit them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paribus.analyse.laws.solver import Array, LawData, fitted_log_loss, solve

N_HALVINGS = 30


def off_law_variance(arms: Sequence[LawData], theta_APQ: Sequence[Array], fit_df: int) -> Array:
    """The variance τ² that all cells of these arms must have about their laws, beside the noise of
    their seeds, for the weighted sum of squares to be its degrees of freedom (Paule and Mandel).

    `weights_PC` are one over the variance that seeds give a cell mean; `theta_APQ` are the fits
    with these weights. Cells whose seeds hardly differ then no longer decide a law by themselves.
    """
    most_P = np.zeros(len(theta_APQ[0]))
    for data, theta_PQ in zip(arms, theta_APQ, strict=True):
        residual_PC = data.log_loss_PC - fitted_log_loss(data.model, theta_PQ)
        most_P += residual_PC.shape[1] * (residual_PC**2).max(axis=1) / fit_df
    low_P, high_P = np.log(1e-8 * most_P), np.log(most_P)
    thetas = list(theta_APQ)
    for _ in range(N_HALVINGS):
        middle_P = (low_P + high_P) / 2
        misfit_P = np.zeros_like(middle_P)
        for number, data in enumerate(arms):
            weights_PC = 1 / (1 / data.weights_PC + np.exp(middle_P)[:, None])
            found = solve(LawData(data.model, data.log_loss_PC, weights_PC), thetas[number])
            thetas[number] = found.theta_PQ
            misfit_P += found.misfit_P
        is_more_P = misfit_P > fit_df
        low_P = np.where(is_more_P, middle_P, low_P)
        high_P = np.where(is_more_P, high_P, middle_P)
    return np.exp(high_P)
