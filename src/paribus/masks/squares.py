"""A rule drawn small: as many squares as there is room for, each standing for one position or
for several.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from paribus.masks.rules import Rule, Strided, Window, leaves

BoolArray = NDArray[np.bool_]


def coarse_mask(rule: Rule, side: int, prefix_share: float) -> BoolArray:
    """The dense mask at every `step`-th of side × step positions, the first of them the prefix."""
    index = np.arange(side) * coarse_stride(rule, side)
    in_prefix = np.arange(side) < round(prefix_share * side)
    documents, real = np.arange(side) >= side * 5 // 8, np.ones(side, bool)
    query = _CoarsePositions(index[:, None], documents[:, None], in_prefix[:, None], real[:, None])
    return np.asarray(rule.sees(query, _CoarsePositions(index, documents, in_prefix, real)))


def coarse_stride(rule: Rule, side: int) -> int:
    """Positions a square stands for: one, or enough that the widest window takes a quarter of
    the side.
    """
    widest = 1
    for part in leaves(rule):
        if isinstance(part, Strided):
            return 1
        if isinstance(part, Window):
            widest = max(widest, part.n)
    if widest <= side // 2:
        return 1
    return ceil(widest / (side // 4))


@dataclass(frozen=True, eq=False)
class _CoarsePositions:
    index: NDArray[np.integer]
    document: NDArray[np.bool_]
    in_prefix: BoolArray
    real: BoolArray
