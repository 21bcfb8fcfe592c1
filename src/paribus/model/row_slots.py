"""Slots of rows that grow apart: which place of its text each slot of a row holds, for one rule."""

from __future__ import annotations

import numpy as np

from paribus.masks import Rule, needed_later
from paribus.model.slots import NO_PLACE, IntArray


class RowSlots:
    """Slots of one rule's keys, row by row. A slot whose place nobody sees any more is used again,
    once its row has no other.

    A row is plain while slot s holds place s.
    """

    def __init__(self, rule: Rule):
        self.rule = rule
        self.places_RS: IntArray = np.full((0, 0), NO_PLACE)
        self.n_used_R: IntArray = np.zeros(0, np.int64)  # slots that hold something, or did
        self.is_plain_R = np.ones(0, np.bool_)
        self._free: list[list[int]] = []  # slots below n_used that hold nothing
        self._n_free = 0

    @property
    def capacity(self) -> int:
        """How many slots each row has."""
        return self.places_RS.shape[1]

    def grow(self, n_rows: int, n_slots: int) -> None:
        """Have so many rows and slots; those there are stay."""
        old = self.places_RS
        self.places_RS = np.full((n_rows, n_slots), NO_PLACE)
        self.places_RS[: len(old), : old.shape[1]] = old
        n_more = n_rows - len(old)
        self.n_used_R = np.concatenate([self.n_used_R, np.zeros(n_more, np.int64)])
        self.is_plain_R = np.concatenate([self.is_plain_R, np.ones(n_more, np.bool_)])
        self._free += [[] for _ in range(n_more)]

    def clear(self, row: int) -> None:
        """Let a row hold nothing."""
        self.places_RS[row] = NO_PLACE
        self.n_used_R[row], self.is_plain_R[row] = 0, True
        self._n_free -= len(self._free[row])
        self._free[row] = []

    def move(self, source: int, target: int) -> None:
        """Let one row hold what another does, which then holds nothing."""
        self.clear(target)
        self.places_RS[target] = self.places_RS[source]
        self.n_used_R[target] = self.n_used_R[source]
        self.is_plain_R[target] = self.is_plain_R[source]
        self._free[target] = self._free[source]
        self._free[source] = []
        self.clear(source)

    def n_lacking(self, row: int, n_places: int) -> int:
        """How many slots a row lacks for so many more places; 0 where there is room."""
        n_room = len(self._free[row]) + self.capacity - int(self.n_used_R[row])
        return max(n_places - n_room, 0)

    def release(self, row: int, length: int, prefix: int, n_saved: int) -> None:
        """Free the slots of places that no later token sees; those from `n_saved` on stay."""
        if length < prefix:  # the rest of a two-way prefix may see all of it
            return
        places = self.places_RS[row, : self.n_used_R[row]]
        is_needed = needed_later(self.rule, places, length, prefix).any(0) | (places >= n_saved)
        slots = np.flatnonzero((places != NO_PLACE) & ~is_needed)
        if not len(slots):
            return
        places[slots] = NO_PLACE
        self._free[row] += slots.tolist()
        self._n_free += len(slots)
        self.is_plain_R[row] = False

    def take(self, row: int, places: IntArray) -> IntArray:
        """Slots for more places of a row, which has room for them."""
        free, n_used = self._free[row], int(self.n_used_R[row])
        n_again = min(len(free), len(places))
        n_more = len(places) - n_again
        slots = np.array([*free[:n_again], *range(n_used, n_used + n_more)], np.int64)
        self._free[row] = free[n_again:]
        self._n_free -= n_again
        self.n_used_R[row] += n_more
        self.places_RS[row, slots] = places
        self.is_plain_R[row] &= bool((slots == places).all())
        return slots

    def take_one_each(self, n_rows: int, places_B: IntArray) -> IntArray:
        """A slot for one more place of each of the first rows, which have room for it."""
        if self._n_free:
            return np.concatenate(
                [self.take(row, places_B[row : row + 1]) for row in range(n_rows)]
            )
        slots_B = self.n_used_R[:n_rows].copy()
        self.n_used_R[:n_rows] += 1
        self.places_RS[np.arange(n_rows), slots_B] = places_B
        self.is_plain_R[:n_rows] &= slots_B == places_B
        return slots_B
