"""Noise between seeds that differs from rung to rung: runs of few steps may differ by far more
than long ones.

If all runs counted alike, the noise of the shortest would make every interval too wide, or too
narrow where a number of the law rests on them. So a cell counts by one over the variance of its
rung.

Shapes: P problems, A arms, R rungs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from paribus.analyse.laws.noise import LEAST_VARIANCE

Array = NDArray[np.float64]

EQUAL_NOISE_LEVEL = 0.05
TREND_DF = 10.0  # degrees of freedom that the trend over tokens counts as, beside a rung's own
MIN_RUNGS, MIN_RUNGS_CURVED = 3, 8  # for a trend at all, and for one that may bend
N_ROUNDS, MAX_STEP = 50, 1.0


@dataclass(frozen=True)
class RungNoise:
    """The variance of ln loss between seeds of each rung, as a multiple of that of a typical
    one.
    """

    relative_PR: Array  # 1 where rungs do not differ; their geometric mean is 1
    p_P: Array  # of the test that all rungs have equal noise; 1 where there is nothing to test

    @property
    def differs_P(self) -> NDArray[np.bool_]:
        """Is the noise of the rungs taken as different?"""
        return self.p_P < EQUAL_NOISE_LEVEL


def rung_noise(squares_PAR: Array, df_AR: Array, log_tokens_R: Array) -> RungNoise:
    """The noise of rungs from sums of squares between seeds and their degrees of freedom, 0 where
    an arm has no such cell or one seed of it.

    The variance of a cell is taken as a number of its arm times a number of its rung (maximum
    likelihood). Bartlett's test says whether rungs differ. Where they do, the variance of a rung
    is drawn towards a trend over tokens, which counts as ten degrees of freedom.
    """
    df_R, alike_PR = df_AR.sum(axis=0), np.ones(squares_PAR[:, 0].shape)
    if (df_R > 0).sum() < MIN_RUNGS:
        return RungNoise(alike_PR, np.ones(len(squares_PAR)))
    arm_PA, rung_PR = _arms_times_rungs(squares_PAR, df_AR)
    p_P = _equal_noise_p(squares_PAR, df_AR, arm_PA, rung_PR)
    trend_PR = _trend(rung_PR, df_R, log_tokens_R)
    drawn_PR = (TREND_DF * trend_PR + df_R * rung_PR) / (TREND_DF + df_R)
    drawn_PR /= np.exp(np.log(drawn_PR).mean(axis=1, keepdims=True))
    differs_P = p_P < EQUAL_NOISE_LEVEL
    return RungNoise(np.where(differs_P[:, None], drawn_PR, alike_PR), p_P)


def _arms_times_rungs(squares_PAR: Array, df_AR: Array) -> tuple[Array, Array]:
    """The variances of arms and the multiples of rungs; a rung without repeated seeds has 1."""
    df_A, df_R = np.maximum(df_AR.sum(axis=1), 1), np.maximum(df_AR.sum(axis=0), 1)
    is_known_R = df_AR.sum(axis=0) > 0
    arm_PA, rung_PR = np.ones(squares_PAR.shape[:2]), np.ones(squares_PAR[:, 0].shape)
    for _ in range(N_ROUNDS):
        arm_PA = _at_least((squares_PAR / rung_PR[:, None, :]).sum(axis=2) / df_A)
        rung_PR = _at_least((squares_PAR / arm_PA[:, :, None]).sum(axis=1) / df_R)
        rung_PR = np.where(is_known_R, rung_PR, 1.0)
    return arm_PA, rung_PR


def _equal_noise_p(squares_PAR: Array, df_AR: Array, arm_PA: Array, rung_PR: Array) -> Array:
    """The p of Bartlett's test, with his correction, that rungs differ by nothing but chance."""
    df_A, df_R = df_AR.sum(axis=1), df_AR.sum(axis=0)
    alike_PA = _at_least(squares_PAR.sum(axis=2) / np.maximum(df_A, 1))
    fewer = np.log(alike_PA / arm_PA) @ df_A - np.log(rung_PR) @ df_R
    own_R = df_R[df_R > 0]
    n_more = len(own_R) - 1
    correction = 1 + ((1 / own_R).sum() - 1 / own_R.sum()) / (3 * n_more)
    return chdtrc(n_more, np.maximum(fewer, 0) / correction)


def _trend(rung_PR: Array, df_R: Array, log_tokens_R: Array) -> Array:
    """ln of the variance as a line over ln tokens, or a parabola where there are rungs enough:
    the likeliest for variances, which follow χ².
    """
    degree = 2 if (df_R > 0).sum() >= MIN_RUNGS_CURVED else 1
    centred_R = log_tokens_R - log_tokens_R.mean()
    powers_RK = np.stack([centred_R**power for power in range(degree + 1)], axis=1)
    weights_R = np.sqrt(df_R)
    solve_KR = np.linalg.pinv(powers_RK * weights_R[:, None]) * weights_R
    found_PK = np.log(rung_PR) @ solve_KR.T
    for _ in range(N_ROUNDS):
        excess_PR = rung_PR / np.exp(found_PK @ powers_RK.T) - 1
        found_PK = found_PK + np.clip(excess_PR @ solve_KR.T, -MAX_STEP, MAX_STEP)
    return np.exp(found_PK @ powers_RK.T)


def _at_least(variance: Array) -> Array:
    return np.maximum(variance, LEAST_VARIANCE)
