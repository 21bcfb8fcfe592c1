"""What the arms at one rung miss their laws by together.

Arms of a rung have their number of steps, their batches and the place of their rates in common. If
a law is too simple there, it is so for all of them. What they share says nothing about the
difference between two arms, so it should not count as noise of that difference.

Shapes: P problems, C cells of all arms, R rungs, Q parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize
from scipy.special import chdtrc

from paribus.analyse.laws.exponents import ExponentVerdict, exponent_verdicts
from paribus.analyse.laws.fit import LawEstimate, LawFit, fit_arms, law_intervals
from paribus.analyse.laws.points import N_LAW_PARAMETERS, LawCells
from paribus.analyse.laws.solver import Array, LawData, RungVariance, law_jacobian, solve
from paribus.analyse.laws.starts import better_solution, fit_laws

SHARED_LEVEL = 0.05
LEAST_SD, MOST_SD = 1e-6, 1.0  # of ln loss: where the search for a spread ends
N_ROUNDS, TOLERANCE = 8, 1e-3  # of the spreads, from one round to the next


@dataclass(frozen=True)
class SharedMisfit:
    """How far cells are off their laws, beyond seeds, as standard deviations of ln loss: all arms
    of a rung together, and each arm by itself.
    """

    shared: float
    own: float
    p: float  # that they share nothing, by the restricted likelihood
    verdicts: tuple[ExponentVerdict, ...]  # what exponents would be said to be
    estimates: Mapping[str, Mapping[str, LawEstimate]]  # E, lnA, lnB, alpha and beta of each arm


def shared_misfit(
    arms: Mapping[str, LawCells],
    pairs: Sequence[tuple[str, str]],
    margin: float,
    pools_misfit: bool = True,
) -> SharedMisfit | None:
    """How far arms miss their laws together, and their laws and exponents if that is no noise of a
    difference; None where seeds explain all there is, or what is common cannot be seen.
    """
    cells = list(arms.values())
    if len(cells) < 2 or not pairs:
        return None
    fits = [fit_arms(cells, shared_floor, pools_misfit) for shared_floor in (True, False)]
    if not all(can_share(fit) for fit in fits):
        return None
    found = [fit_sharing(fit) for fit in fits]
    shared, own, p = found[0].spreads_P3[0]
    if p >= SHARED_LEVEL:
        return None
    verdicts = exponent_verdicts(list(arms), pairs, margin, found[0].fit, found[1].fit)
    own_laws = fit_of_one_law(found[0].fit)
    laws = {arm: law_intervals(own_laws, place) for place, arm in enumerate(arms)}
    return SharedMisfit(float(shared), float(own), float(p), tuple(verdicts), laws)


@dataclass(frozen=True)
class SharingFit:
    """Laws fitted with a variance that arms of a rung share; for each problem the standard
    deviations of what is shared and of what is not, and the p that nothing is shared.
    """

    fit: LawFit
    spreads_P3: Array


def can_share(fit: LawFit) -> bool:
    """Does any law fail to fit, beyond what seeds explain, with cells enough to say how?"""
    has_seeds = all(cells.pure_df for cells in fit.arms)
    return has_seeds and _n_free(fit) > 0 and any(noise.uses_cells.any() for noise in fit.noises)


def fit_sharing(fit: LawFit) -> SharingFit:
    """Laws with a variance of its own for what the arms of a rung share.

    Two variances, of a rung and of a cell, are found by restricted likelihood about the fit, and
    the laws are fitted anew with them, in turn until neither moves.
    """
    rungs = sorted({rung for cells in fit.arms for rung in cells.rungs})
    names = [rung for cells in fit.arms for rung in cells.rungs]
    is_of_CR = (np.array(names)[:, None] == np.array(rungs)).astype(np.float64)
    seeds_PC = np.maximum(1 / fit.data.weights_PC - _off_law(fit), 0)  # of a cell mean
    best, spreads_P3 = fit.best, np.zeros((len(seeds_PC), 3))
    data = fit.data
    for _ in range(N_ROUNDS):
        before = spreads_P3
        one_by_one = [
            _spreads(fit.data.rows(np.array([number])), theta_Q, seeds_PC[number], is_of_CR)
            for number, theta_Q in enumerate(best.theta_PQ)
        ]
        spreads_P3 = np.array(one_by_one)
        data = LawData(
            fit.model,
            fit.data.log_loss_PC,
            1 / (seeds_PC + spreads_P3[:, 1:2] ** 2),
            RungVariance(spreads_P3[:, 0] ** 2, is_of_CR),
        )
        best = solve(data, best.theta_PQ)
        best = better_solution(best, fit_laws(data, n_followed=1))
        if np.abs(spreads_P3 - before)[:, :2].max() < TOLERANCE * spreads_P3[:, :2].max():
            break
    df_P = np.full(len(seeds_PC), float(_n_free(fit)))
    return SharingFit(replace(fit, data=data, best=best, df_P=df_P), spreads_P3)


def fit_of_one_law(fit: LawFit) -> LawFit:
    """A fit of laws, for intervals of one of them by itself. What a rung shares moves a law, and
    does not move a difference: how large it is, only rungs less the numbers of a law can say.
    """
    n_rungs = len({rung for cells in fit.arms for rung in cells.rungs})
    df = float(max(n_rungs - N_LAW_PARAMETERS, 1))
    return replace(fit, df_P=np.full(len(fit.df_P), df))


def _n_free(fit: LawFit) -> int:
    """Cells less rungs less parameters; a law that all arms have in common is counted with the
    rungs, for it moves them as a whole.
    """
    n_rungs = len({rung for cells in fit.arms for rung in cells.rungs})
    n_cells = sum(len(cells.rungs) for cells in fit.arms)
    return n_cells - n_rungs - (fit.model.n_parameters - N_LAW_PARAMETERS)


def _off_law(fit: LawFit) -> Array:
    """What each arm's own fit has added to the variance of its cells."""
    parts = [
        np.repeat(noise.off_law[:, None], len(cells.rungs), axis=1)
        for cells, noise in zip(fit.arms, fit.noises, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def _spreads(
    data: LawData, theta_Q: Array, seeds_C: Array, is_of_CR: Array
) -> tuple[float, float, float]:
    """The standard deviations of what rungs share and of what cells have for themselves that make
    these residuals likeliest, and the p that rungs share nothing.
    """
    fitted, jacobian = law_jacobian(data.model, theta_Q[None])
    residual_C, jacobian_CQ = data.log_loss_PC[0] - fitted[0], jacobian[0]
    moves_Q = (jacobian_CQ != 0).any(axis=0) & ~(data.model.is_floor_Q & (theta_Q <= 0))
    jacobian_CQ = jacobian_CQ[:, moves_Q]

    def cost(log_sds: Array) -> float:
        shared, own = np.exp(2 * np.clip(log_sds, np.log(LEAST_SD), np.log(MOST_SD)))
        return _restricted_cost(residual_C, jacobian_CQ, seeds_C + own, shared, is_of_CR)

    scale = np.log(max(float(np.median(np.abs(residual_C))), 10 * LEAST_SD))
    starts = [np.array([scale, scale - 1]), np.array([scale - 2, scale])]
    ends = [scipy.optimize.minimize(cost, start, method="Nelder-Mead").x for start in starts]
    best = min(ends, key=cost)
    nothing = np.log(LEAST_SD)
    alone = scipy.optimize.minimize(
        lambda log_sd: cost(np.array([nothing, log_sd[0]])), [scale], method="Nelder-Mead"
    )
    excess = max(float(alone.fun) - cost(best), 0.0)
    shared, own = np.exp(np.clip(best, nothing, np.log(MOST_SD)))
    # half, for a variance that is 0 cannot be found to be less
    return float(shared), float(own), 0.5 * float(chdtrc(1, excess))


def _restricted_cost(
    residual_C: Array, jacobian_CQ: Array, variance_C: Array, shared: float, is_of_CR: Array
) -> float:
    """Minus twice the restricted log likelihood, for laws that are linear about their fit."""
    # The inverse root of diag(v) + shared Z Zᵀ, rung by rung: cells of a rung share one direction.
    direction_CR = is_of_CR / np.sqrt(variance_C)[:, None]
    square_R = (direction_CR**2).sum(axis=0)
    excess_R = 1 + shared * square_R
    columns = np.column_stack([jacobian_CQ, residual_C]) / np.sqrt(variance_C)[:, None]
    shrink_R = (1 - 1 / np.sqrt(excess_R)) / square_R
    columns -= direction_CR @ (shrink_R[:, None] * (direction_CR.T @ columns))
    diagonal = np.diag(np.linalg.qr(columns, mode="r"))  # its last value: the rest of the residual
    log_determinants = np.log(variance_C).sum() + np.log(excess_R).sum()
    log_determinants += 2 * np.log(np.abs(diagonal[:-1])).sum()
    return float(log_determinants + diagonal[-1] ** 2)
