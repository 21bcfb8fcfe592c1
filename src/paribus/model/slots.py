"""Slots of a cache: which place of its text each of them holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import Rule, SequenceLayout, needed_later

IntArray = NDArray[np.int64]
NO_PLACE = -1  # of a slot that is free, and of padding


@dataclass(frozen=True, eq=False)
class SlotTable:
    """Which place of its text each slot holds, row by row."""

    n_used: int = 0
    places_BS: IntArray | None = None  # None: slot s holds place s, in every row

    def places(self, n_sequences: int) -> IntArray:
        if self.places_BS is not None:
            return self.places_BS
        return np.broadcast_to(np.arange(self.n_used), (n_sequences, self.n_used))

    def append(self, places_BT: IntArray) -> SlotTable:
        """The table with more slots behind those there are."""
        n_sequences, n_new = places_BT.shape
        n_used = self.n_used + n_new
        if self.places_BS is None and (places_BT == np.arange(self.n_used, n_used)).all():
            return SlotTable(n_used)
        places_BS = np.concatenate([self.places(n_sequences), places_BT], 1)
        return SlotTable(n_used, places_BS)

    def layout(self, texts: CachedTexts, device: torch.device) -> BatchLayout:
        """How the slots lie, for a mask."""
        plain = BatchLayout(
            n_sequences=texts.n_sequences, length=self.n_used, prefix=texts.prefix(device)
        )
        plain = texts.with_documents(plain, self.places(texts.n_sequences), device)
        if self.places_BS is None:
            return plain
        places_BS = torch.from_numpy(self.places_BS).to(device)
        return replace(plain, places_BT=places_BS, real_BT=places_BS != NO_PLACE)


@dataclass(frozen=True, eq=False)
class CachedTexts:
    """How long the texts of a cache are, where the prefix of each ends, and the document and
    position of each token.
    """

    lengths: tuple[int, ...]
    prefixes: tuple[int, ...]
    documents_BT: IntArray | None = None  # None: one document
    positions_BT: IntArray | None = None  # what position encodings read; None: the place
    _prefixes_by_device: dict[torch.device, int | Tensor] = field(default_factory=dict, repr=False)

    @property
    def n_sequences(self) -> int:
        return len(self.lengths)

    def select_rows(self, rows: Sequence[int]) -> CachedTexts:
        lengths, prefixes, numbers = self.lengths, self.prefixes, list(rows)
        return CachedTexts(
            tuple(lengths[row] for row in rows),
            tuple(prefixes[row] for row in rows),
            None if self.documents_BT is None else self.documents_BT[numbers],
            None if self.positions_BT is None else self.positions_BT[numbers],
        )

    def layout(self, row: int) -> SequenceLayout:
        return SequenceLayout(self.lengths[row], self.prefixes[row], self.documents(row))

    def documents(self, row: int) -> IntArray | None:
        """The document of each token of a text."""
        if self.documents_BT is None:
            return None
        return self.documents_BT[row, : self.lengths[row]]

    def positions(self, row: int) -> IntArray:
        """What position encodings read of each token of a text."""
        if self.positions_BT is None:
            return np.arange(self.lengths[row])
        return self.positions_BT[row, : self.lengths[row]]

    def with_documents(
        self, layout: BatchLayout, places_BT: IntArray, device: torch.device
    ) -> BatchLayout:
        """A layout of some places, with their documents and positions."""
        if self.documents_BT is None and self.positions_BT is None:
            return layout
        index = np.maximum(places_BT, 0)
        if self.documents_BT is not None:
            documents = np.take_along_axis(self.documents_BT, index, 1)
            layout = replace(layout, documents_BT=torch.from_numpy(documents).to(device))
        if self.positions_BT is not None:
            positions = np.take_along_axis(self.positions_BT, index, 1)
            layout = replace(layout, positions_BT=torch.from_numpy(positions).to(device))
        return layout

    def append(self, n_tokens: int) -> CachedTexts:
        """The texts with more tokens of their last documents behind them."""
        lengths = tuple(length + n_tokens for length in self.lengths)
        longest = max(lengths)
        documents = positions = None
        if self.documents_BT is not None:
            documents = np.zeros((self.n_sequences, longest), np.int64)
            for row, length in enumerate(self.lengths):
                documents[row, :length] = self.documents_BT[row, :length]
                documents[row, length:] = documents[row, max(length - 1, 0)]
        if self.positions_BT is not None:
            positions = np.zeros((self.n_sequences, longest), np.int64)
            for row, length in enumerate(self.lengths):
                positions[row, :length] = self.positions_BT[row, :length]
                last = positions[row, length - 1] if length else -1
                positions[row, length:] = last + 1 + np.arange(longest - length)
        return CachedTexts(lengths, self.prefixes, documents, positions)

    def prefix(self, device: torch.device) -> int | Tensor:
        """One for all rows, or [B]: always the same object, by which masks tell that two prefixes
        are one.
        """
        if device not in self._prefixes_by_device:
            prefix: int | Tensor = self.prefixes[0]
            if len(set(self.prefixes)) > 1:
                prefix = torch.tensor(self.prefixes, device=device)
            self._prefixes_by_device[device] = prefix
        return self._prefixes_by_device[device]


def query_layout(places_BT: IntArray, texts: CachedTexts, device: torch.device) -> BatchLayout:
    """How tokens lie that are read: one after the other, or wherever they stand."""
    n_sequences, n_read = places_BT.shape
    layout = BatchLayout(n_sequences=n_sequences, length=n_read, prefix=texts.prefix(device))
    layout = texts.with_documents(layout, places_BT, device)
    start = int(places_BT[0, 0])
    if (places_BT == np.arange(start, start + n_read)).all():
        return replace(layout, start=start)
    places = torch.from_numpy(np.maximum(places_BT, 0)).to(device)
    is_real = None
    if (places_BT == NO_PLACE).any():
        is_real = torch.from_numpy(places_BT != NO_PLACE).to(device)
    return replace(layout, places_BT=places, real_BT=is_real)


def key_layout(
    table: SlotTable, queries: BatchLayout, texts: CachedTexts, device: torch.device
) -> BatchLayout:
    """How keys lie; as the queries do, where they are the same positions."""
    if table.places_BS is None and queries.places_BT is None and table.n_used == queries.length:
        return queries
    return table.layout(texts, device)


def is_needed(rule: Rule, places: IntArray, texts: CachedTexts, row: int) -> NDArray[np.bool_]:
    """Which slots hold what a later token can see."""
    length, prefix = texts.lengths[row], texts.prefixes[row]
    needed = needed_later(rule, places, length, prefix, texts.documents(row)).any(0)
    return needed & (places != NO_PLACE)


def without_places(table: SlotTable, places_BT: IntArray) -> SlotTable:
    """A table in which slots of places that are read anew hold nothing."""
    if places_BT.min(initial=table.n_used) >= table.n_used and table.places_BS is None:
        return table
    places_BS = table.places(len(places_BT))
    is_again = np.stack([np.isin(*row) for row in zip(places_BS, places_BT, strict=True)])
    is_again &= places_BS != NO_PLACE
    if not is_again.any():
        return table
    if (is_again | (places_BS == NO_PLACE)).all():
        return SlotTable()
    return SlotTable(table.n_used, np.where(is_again, NO_PLACE, places_BS))
