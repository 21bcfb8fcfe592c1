"""Two looks at the same gains from the side; neither changes a verdict."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# below, no p of 0.05 is possible; above, the halves no longer fit in memory
SIGN_FLIP_SEEDS = range(6, 41)
_TIE = 1e-12  # sums this near each other, in parts of Σ|d|, count as equal


def sign_flip(gains: Sequence[float]) -> float | None:
    """The share of all 2ⁿ ways to turn signs that bring a sum as far from zero; None below 6
    seeds.

    Exact: the sums of either half are listed and sorted, and pairs that reach the observed sum are
    counted.
    """
    if len(gains) not in SIGN_FLIP_SEEDS:
        return None
    sorted_gains = np.sort(np.asarray(gains, dtype=np.float64))
    reach = abs(sorted_gains.sum()) - _TIE * np.abs(sorted_gains).sum()
    if reach <= 0:
        return 1.0
    left, right = _signed_sums(sorted_gains[::2]), _signed_sums(sorted_gains[1::2])
    above = len(right) - np.searchsorted(right, reach - left)
    return float(2 * above.sum() / 2 ** len(gains))  # turning every sign mirrors the sums


def _signed_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every signed sum of the values, ascending."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums - value, sums + value])
    return np.sort(sums)


def leave_one_out(gains: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest mean of all seeds but one."""
    sorted_gains = np.sort(np.asarray(gains, dtype=np.float64))
    means = (sorted_gains.sum() - sorted_gains) / (len(sorted_gains) - 1)
    return float(means.min()), float(means.max())
