"""Do cells lie off their laws by more than seeds explain, and by how much?

One arm of a ladder has few cells more than its law has numbers, so the variance that it shows by
itself is uncertain. Arms of a ladder have the same sizes and durations, and laws of the same form:
what they show together says much of each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from paribus.analyse.laws.noise import LACK_OF_FIT_LEVEL, LEAST_VARIANCE, LawNoise, law_noise
from paribus.analyse.laws.off_law import off_law_variance
from paribus.analyse.laws.points import N_LAW_PARAMETERS
from paribus.analyse.laws.solver import Array, LawData, Solution
from paribus.analyse.laws.starts import fit_laws

LEAST_P = 1e-300  # so that its logarithm is finite
COMMON_DF = 5.0  # degrees of freedom that the variance of all arms counts as, beside an arm's own


@dataclass(frozen=True)
class FirstFit:
    """The law of one arm as if it fitted its cells."""

    data: LawData  # weights are relative
    best: Solution
    noise: LawNoise
    pure_df: int

    @property
    def fit_df(self) -> int:
        """Cells less the numbers of the law."""
        return self.data.log_loss_PC.shape[1] - N_LAW_PARAMETERS

    @property
    def by_seeds(self) -> LawData:
        """Weights are one over the variance that seeds give a cell mean."""
        return replace(
            self.data, weights_PC=self.data.weights_PC / self.noise.seed_variance[:, None]
        )


def first_fit(data: LawData, pure_error_P: Array, pure_df: int) -> FirstFit:
    """The law of one arm, and the test whether it fits its cells."""
    best = fit_laws(data)
    fit_df = data.log_loss_PC.shape[1] - N_LAW_PARAMETERS
    return FirstFit(data, best, law_noise(best.misfit_P, fit_df, pure_error_P, pure_df), pure_df)


def own_misfit(first: FirstFit) -> LawNoise:
    """The noise of an arm, with the variance of its cells about the law where that does not fit:
    what this arm shows by itself.
    """
    if not first.pure_df:
        return first.noise
    return replace(first.noise, off_law=_off_law([first], first.noise.uses_cells))


def misfit_of_all(firsts: Sequence[FirstFit]) -> tuple[list[LawNoise], Array | None]:
    """The noise of each arm, and the p that no arm misses its law; None where fewer than two arms
    have the seeds to say so. An arm without them has its own scatter alone.
    """
    seeded = [one for one in firsts if one.pure_df]
    if len(seeded) < 2:
        return [own_misfit(one) for one in firsts], None
    pooled, p_P = pooled_misfit(seeded)
    in_turn = iter(pooled)
    return [next(in_turn) if one.pure_df else own_misfit(one) for one in firsts], p_P


def pooled_misfit(firsts: Sequence[FirstFit]) -> tuple[list[LawNoise], Array]:
    """The noise of each arm, and the p that no arm misses its law.

    Fisher's method asks it of all arms: it combines the p of their F tests. Below .05, all of them
    get a variance about their laws: the mean of their own and that of all arms together, which
    counts as at most five degrees of freedom. An arm that shows more by itself keeps its own.
    """
    p_AP = np.array([one.noise.lack_of_fit for one in firsts])
    p_P = chdtrc(2 * len(firsts), -2 * np.log(np.maximum(p_AP, LEAST_P)).sum(axis=0))
    misses_P = p_P < LACK_OF_FIT_LEVEL
    common_P = _off_law(firsts, misses_P)
    common_df = min(COMMON_DF, sum(one.fit_df for one in firsts))
    noises: list[LawNoise] = []
    for one in firsts:
        own_P = _off_law([one], misses_P)
        mean_P = (common_df * common_P + one.fit_df * own_P) / (common_df + one.fit_df)
        cell_df_P = np.where(own_P > mean_P, one.fit_df, common_df + one.fit_df)
        between_cells_P = np.maximum(one.best.misfit_P / one.fit_df, LEAST_VARIANCE)
        noise = replace(
            one.noise,
            variance=np.where(misses_P, between_cells_P, one.noise.seed_variance),
            df=np.where(misses_P, cell_df_P, one.pure_df).astype(np.float64),
            uses_cells=misses_P,
            off_law=np.maximum(own_P, mean_P),
        )
        noises.append(noise)
    return noises, p_P


def _off_law(firsts: Sequence[FirstFit], misses_P: NDArray[np.bool_]) -> Array:
    """The variance of all cells of some arms about their laws; 0 in problems without a misfit."""
    found_P = np.zeros(len(misses_P))
    missed = np.flatnonzero(misses_P)
    if not len(missed):
        return found_P
    arms = [one.by_seeds.rows(missed) for one in firsts]
    thetas = [one.best.theta_PQ[missed] for one in firsts]
    found_P[missed] = off_law_variance(arms, thetas, sum(one.fit_df for one in firsts))
    return found_P
