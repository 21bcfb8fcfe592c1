"""In which order: shuffles and mixtures that can be entered anywhere, as pure functions of a
key.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isqrt

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

N_ROUNDS = 6
MAX_SORTED = 1024
MAX_CACHED_ORDER = 2**20  # documents; the order of more is not kept
CIRCLE = 2**32
# 2³² over the golden ratio, odd: the numbers 0, STEP, 2 STEP … mod 2³² spread as evenly as any can
GOLDEN_STEP = 2654435769


def shuffled_indices(indices: IntArray, n: int, key: int) -> IntArray:
    """Where each place of 0 … n-1 goes in a shuffle of them all; nothing is stored.

    A Feistel network over a rectangle of little more than n fields, walked again from any field
    that is not below n (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). Few
    places, which it would mix badly, are sorted by their hash.
    """
    if n <= MAX_SORTED:
        return np.argsort(_hash(np.arange(n, dtype=np.uint64), np.uint64(key)), kind="stable")[
            indices
        ]
    width = isqrt(n - 1) + 1
    height = -(-n // width)
    values = _feistel(np.asarray(indices, np.uint64), width, height, key)
    while (outside := values >= n).any():
        values[outside] = _feistel(values[outside], width, height, key)
    return values.astype(np.int64)


def _feistel(values: NDArray[np.uint64], width: int, height: int, key: int) -> NDArray[np.uint64]:
    row, column = np.divmod(values, np.uint64(width))
    for even, odd in _hash(np.arange(N_ROUNDS, dtype=np.uint64), np.uint64(key)).reshape(-1, 2):
        row = (row + (_hash(column, even) >> np.uint64(1))) % np.uint64(height)
        column = (column + (_hash(row, odd) >> np.uint64(1))) % np.uint64(width)
    return row * np.uint64(width) + column


def _hash(values: NDArray[np.uint64], salt: np.uint64) -> NDArray[np.uint64]:
    """splitmix64's finaliser."""
    state = values * np.uint64(0x9E3779B97F4A7C15) + salt
    state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return state ^ state >> np.uint64(31)


class SourceMixture:
    """Which source each row of all rows ever read is from, and how many rows each gave before.

    Row r stands at (offset + r · STEP) mod 2³² on a circle divided among the sources by weight.
    Every stretch of rows holds each source in its share to within a few rows; how many of the first
    r rows fell into an arc is two sums of floors, each found exactly in some thirty steps.
    """

    def __init__(self, weights: Sequence[float], key: int):
        ends = np.cumsum(weights) / sum(weights) * CIRCLE
        self.bounds = [0, *map(round, ends[:-1]), CIRCLE]
        self.offset = key % CIRCLE

    def row_sources(self, first: int, n_rows: int) -> IntArray:
        """The source of each of n rows."""
        start = (self.offset + first * GOLDEN_STEP) % CIRCLE
        places = (start + np.arange(n_rows, dtype=np.int64) * GOLDEN_STEP) % CIRCLE
        return np.searchsorted(self.bounds, places, "right") - 1

    def rows_before(self, row: int) -> list[int]:
        """How many of the rows before this one are from each source."""
        below = [self._rows_below(row, bound) for bound in self.bounds]
        return [upper - lower for lower, upper in pairwise(below)]

    def _rows_below(self, n_rows: int, bound: int) -> int:
        """How many of the first rows stand below a bound: ⌊x/m⌋ - ⌊(x - bound)/m⌋ is 1 where x
        mod m < bound.
        """
        offset = self.offset + CIRCLE - bound
        return _floor_sum(n_rows, CIRCLE, GOLDEN_STEP, self.offset + CIRCLE) - _floor_sum(
            n_rows, CIRCLE, GOLDEN_STEP, offset
        )


def _floor_sum(n: int, modulus: int, step: int, start: int) -> int:
    """Σ ⌊(start + i · step) / modulus⌋ for i below n, by Euclid's algorithm."""
    total = 0
    while True:
        total += n * (n - 1) // 2 * (step // modulus) + n * (start // modulus)
        step, start = step % modulus, start % modulus
        top = step * n + start
        if top < modulus:
            return total
        n, start = divmod(top, modulus)
        modulus, step = step, modulus
