"""A rule drawn small: as many squares as there is room for, each standing for one position or for several."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from paribus.masks.rules import Rule, Strided, Window, leaves

Bools = NDArray[np.bool_]


def squares(rule: Rule, side: int, prefix_share: float) -> Bools:
    """The dense mask at every `step`-th of side × step positions, the first of them the prefix."""
    index = np.arange(side) * step(rule, side)
    in_prefix = np.arange(side) < round(prefix_share * side)
    documents, real = np.arange(side) >= side * 5 // 8, np.ones(side, bool)
    query = _Places(index[:, None], documents[:, None], in_prefix[:, None], real[:, None])
    return np.asarray(rule.sees(query, _Places(index, documents, in_prefix, real)))


def step(rule: Rule, side: int) -> int:
    """Positions a square stands for: one, or enough that the widest window takes a quarter of the side."""
    parts = leaves(rule)
    widest = max((part.n for part in parts if isinstance(part, Window)), default=1)
    small = widest <= side // 2 or any(isinstance(part, Strided) for part in parts)
    return 1 if small else ceil(widest / (side // 4))


@dataclass(frozen=True, eq=False)
class _Places:
    index: NDArray[np.integer]
    document: NDArray[np.bool_]
    in_prefix: Bools
    real: Bools
