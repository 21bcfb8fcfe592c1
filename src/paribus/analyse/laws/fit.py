"""The law of one arm, or of several arms with one E."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy.special import fdtrc

from paribus.analyse.laws.misfit import FirstFit, first_fit, misfit_of_all, own_misfit
from paribus.analyse.laws.noise import LawNoise
from paribus.analyse.laws.points import LawCells
from paribus.analyse.laws.profile import QUANTITIES, covariance, profile_interval, quantity
from paribus.analyse.laws.solver import (
    Array,
    LawData,
    LawModel,
    Solution,
    law_jacobian,
    law_model,
    solve,
)
from paribus.analyse.laws.starts import better_solution, fit_laws


@dataclass(frozen=True)
class ScalingLaw:
    """L = E + A/N^α + B/D^β."""

    floor: float  # E
    log_a: float
    log_b: float
    alpha: float
    beta: float

    def loss(self, parameters: float, tokens: float) -> float:
        """The loss of a model of so many parameters after so many tokens."""
        size = exp(self.log_a - self.alpha * log(parameters))
        return self.floor + size + exp(self.log_b - self.beta * log(tokens))


@dataclass(frozen=True)
class LawEstimate:
    """A number with its interval; an E whose interval begins at 0 is not bounded below."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class LawFit:
    """Fitted laws of several arms: one problem, or many with the same cells (axis P)."""

    arms: tuple[LawCells, ...]
    data: LawData  # weights are one over the variance of a cell mean about its law
    best: Solution
    noises: tuple[LawNoise, ...]  # one for each arm
    df_P: Array  # the fewest degrees of freedom of any arm's noise, or those of what arms share
    # the p that no arm misses its law; None where this is asked of each arm by itself
    misfit_p_P: Array | None = None

    @property
    def model(self) -> LawModel:
        return self.data.model

    @property
    def pools_misfit(self) -> bool:
        """Is what arms show together of cells off their laws counted for each of them?"""
        return self.misfit_p_P is not None

    def law(self, arm: int = 0, problem: int = 0) -> ScalingLaw:
        """The law of an arm, by its number."""
        theta = self.best.theta_PQ[problem]
        values = [float(quantity(self.model, name, arm).weights_Q @ theta) for name in QUANTITIES]
        return ScalingLaw(
            floor=values[0], log_a=values[1], log_b=values[2], alpha=values[3], beta=values[4]
        )


def effective_df(fit: LawFit, weights_PQ: Array) -> Array:
    """Degrees of freedom of the noise of a linear function of the parameters (Satterthwaite).

    Arms have their own noise. What each of them adds to the variance says how much its degrees of
    freedom count. Where arms share a part of their noise, the degrees of freedom are those of the
    fit.
    """
    if fit.data.rung_variance is not None:
        return fit.df_P
    variance = covariance(fit.data, fit.best)
    towards_PQ = (variance @ weights_PQ[..., None])[..., 0]
    _, jacobian = law_jacobian(fit.model, fit.best.theta_PQ)
    moved_PC = (jacobian @ towards_PQ[..., None])[..., 0]
    parts_PC = fit.data.weights_PC * moved_PC**2
    total, sum_of_squares, first = 0.0, 0.0, 0
    for cells, noise in zip(fit.arms, fit.noises, strict=True):
        part = parts_PC[:, first : (first := first + len(cells.log_loss_C))].sum(axis=1)
        total = total + part
        sum_of_squares = sum_of_squares + part**2 / noise.df
    with np.errstate(invalid="ignore", divide="ignore"):
        df_P = np.divide(np.square(total), sum_of_squares)
    # an E that rests at 0 has no linear variance
    return np.where(np.isfinite(df_P), df_P, fit.df_P)


def fit_arm(cells: LawCells) -> LawFit:
    """The law of one arm by least squares on ln loss."""
    return fit_arms([cells])


def fit_arms(
    arms: Sequence[LawCells], shared_floor: bool = True, pools_misfit: bool = True
) -> LawFit:
    """The laws of several arms, each with its own noise, with one E for all or one each.

    `pools_misfit` says how cells that lie off their laws are judged: what arms show of it
    together counts for each of them, or each arm has only what it shows by itself.
    """
    return fit_many(
        arms,
        np.concatenate([arm.log_loss_C for arm in arms])[None],
        np.concatenate([arm.squares_C for arm in arms])[None],
        np.concatenate([arm.relative_variance_C for arm in arms])[None],
        shared_floor,
        pools_misfit,
    )


def fit_many(
    arms: Sequence[LawCells],
    log_loss_PC: Array,
    squares_PC: Array,
    relative_PC: Array,
    shared_floor: bool = True,
    pools_misfit: bool = True,
) -> LawFit:
    """Laws of many problems with the cells of these arms: means of ln loss, sums of squares
    between seeds, and the relative variances of a run.
    """
    firsts: list[FirstFit] = []
    first = 0
    for cells in arms:
        here = slice(first, first := first + len(cells.log_loss_C))
        mean_variance_PC = relative_PC[:, here] / cells.n_runs_C  # of a cell, over that of a run
        data = LawData(law_model([cells]), log_loss_PC[:, here], 1 / mean_variance_PC)
        pure_error_P = (squares_PC[:, here] / relative_PC[:, here]).sum(axis=1)
        firsts.append(first_fit(data, pure_error_P, cells.pure_df))
    if pools_misfit:
        noises, misfit_p_P = misfit_of_all(firsts)
    else:
        noises, misfit_p_P = [own_misfit(one) for one in firsts], None
    own = [_fit_alone(one, noise) for one, noise in zip(firsts, noises, strict=True)]
    weights_PC = np.concatenate([weights for _, weights in own], axis=1)
    data = LawData(law_model(arms, shared_floor), log_loss_PC, weights_PC)
    alone = [solution for solution, _ in own]
    best = alone[0] if len(arms) == 1 else _fit_together(data, arms, alone)
    df_P = np.min([noise.df for noise in noises], axis=0)
    return LawFit(
        arms=tuple(arms),
        data=data,
        best=best,
        noises=tuple(noises),
        df_P=df_P,
        misfit_p_P=misfit_p_P,
    )


def _fit_alone(first: FirstFit, noise: LawNoise) -> tuple[Solution, Array]:
    """The law of one arm, and the weights of its cells: one over their variance."""
    if not noise.off_law.any():
        weights_PC = first.data.weights_PC / noise.variance[:, None]
        return Solution(first.best.theta_PQ, first.best.misfit_P / noise.variance), weights_PC
    seeds = first.by_seeds
    weights_PC = 1 / (1 / seeds.weights_PC + noise.off_law[:, None])
    found = solve(LawData(seeds.model, seeds.log_loss_PC, weights_PC), first.best.theta_PQ)
    return found, weights_PC


def _fit_together(data: LawData, arms: Sequence[LawCells], own: Sequence[Solution]) -> Solution:
    """The joint fit from the arms' own fits at several values of E, and from the grid."""
    model, n_problems = data.model, len(data.log_loss_PC)
    centres = [law_model([cells]).centre for cells in arms]
    start_PQ = np.zeros((n_problems, model.n_parameters))
    for number, ((x0, z0), alone) in enumerate(zip(centres, own, strict=True)):
        theta, places = alone.theta_PQ.copy(), model.arm_places(number)
        theta[:, 1] += theta[:, 3] * (x0 - model.centre[0])
        theta[:, 2] += theta[:, 4] * (z0 - model.centre[1])
        start_PQ[:, places] = theta
    best = solve(data, start_PQ)
    if model.is_floor_Q.sum() > 1:
        return best
    floors_KP = np.array([alone.theta_PQ[:, 0] for alone in own])
    start_PQ = start_PQ.copy()
    start_PQ[:, 0] = np.median(floors_KP, axis=0)
    best = better_solution(best, solve(data, start_PQ))
    return better_solution(best, fit_laws(data, n_followed=1))


def law_intervals(fit: LawFit, arm: int = 0, level: float = 0.95) -> dict[str, LawEstimate]:
    """E, lnA, lnB, alpha and beta of an arm, each with its profile-F interval."""
    estimates: dict[str, LawEstimate] = {}
    for name in QUANTITIES:
        chosen = quantity(fit.model, name, arm)
        df_P = effective_df(fit, chosen.weights_Q[None])
        low, high = profile_interval(fit.data, fit.best, chosen, df_P, level)
        estimate = float(fit.best.theta_PQ[0] @ chosen.weights_Q)
        estimates[name] = LawEstimate(estimate, float(low[0]), float(high[0]))
    return estimates


def one_floor_p(shared: LawFit, separate: LawFit) -> Array:
    """The p of the F test that all arms have one E."""
    n_extra = separate.model.n_parameters - shared.model.n_parameters
    excess = np.maximum(shared.best.misfit_P - separate.best.misfit_P, 0)
    return fdtrc(n_extra, shared.df_P, excess / n_extra)
