"""What residuals of a law are judged against: noise between seeds, or the scatter of cell means
where the law does not fit them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtrc

LACK_OF_FIT_LEVEL = 0.05
LEAST_VARIANCE = 1e-18  # of ln loss: rounding, where runs do not differ at all


@dataclass(frozen=True)
class LawNoise:
    """The variance of ln loss of one run about its law, at a typical rung; arrays where there are
    many problems.
    """

    variance: NDArray[np.float64]
    df: NDArray[np.float64]
    lack_of_fit: NDArray[np.float64]  # p of the F test; nan where no cell has two seeds
    seed_variance: NDArray[np.float64]  # between seeds of the same cell
    uses_cells: NDArray[np.bool_]  # is it the scatter of cell means?
    off_law: NDArray[np.float64]  # the variance of cell means about the law beyond that of seeds


def law_noise(misfit: ArrayLike, fit_df: int, pure_error: ArrayLike, pure_df: int) -> LawNoise:
    """The noise of a fit with the sum n·(mean − law)² over cells, on `fit_df` degrees of freedom,
    and the sum of squares between seeds of the same cell.

    An F test compares the two. Below p = .05 the law misses cell means by more than seeds explain:
    the residual over cell means then takes the place of seed noise, with its fewer degrees of
    freedom. `off_law` is 0 here: who fits the law anew finds it.
    """
    assert fit_df > 0
    misfit, pure_error = np.broadcast_arrays(
        np.asarray(misfit, dtype=np.float64), np.asarray(pure_error, dtype=np.float64)
    )
    between_cells = np.maximum(misfit / fit_df, LEAST_VARIANCE)
    if not pure_df:
        return LawNoise(
            variance=between_cells,
            df=np.full_like(misfit, fit_df),
            lack_of_fit=np.full_like(misfit, np.nan),
            seed_variance=between_cells,
            uses_cells=np.ones(misfit.shape, dtype=np.bool_),
            off_law=np.zeros_like(misfit),
        )
    between_seeds = np.maximum(pure_error / pure_df, LEAST_VARIANCE)
    p = fdtrc(fit_df, pure_df, between_cells / between_seeds)
    uses_cells = p < LACK_OF_FIT_LEVEL
    return LawNoise(
        variance=np.where(uses_cells, between_cells, between_seeds),
        df=np.where(uses_cells, fit_df, pure_df).astype(np.float64),
        lack_of_fit=p,
        seed_variance=between_seeds,
        uses_cells=uses_cells,
        off_law=np.zeros_like(misfit),
    )
