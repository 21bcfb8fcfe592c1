"""What is kept of a source: keys and values for cross-attention, and the encoder's own where they
stay valid while the source grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.model.cache import Keys, StackCache, gather_slots, pad_slots
from paribus.model.slots import NO_PLACE, CachedTexts, IntArray, SlotTable, without_places


@dataclass(frozen=True, eq=False)
class SourceKeys:
    """Keys and values of sources for the cross-attention of each layer, and how they lie."""

    layers: dict[int, Keys]
    layout: BatchLayout

    def share_rows(self, rows_B: Tensor) -> SourceKeys:
        """The keys for texts of which each reads one of the sources, by its row."""
        layers = {}
        for number, keys in self.layers.items():
            layers[number] = tuple(tensor[rows_B] for tensor in keys)
        return SourceKeys(layers, self.layout.select_rows(rows_B))


@dataclass(frozen=True, eq=False)
class CachedSource(SourceKeys):
    """What a cache holds of sources, so that they can grow."""

    table: SlotTable
    encoder: StackCache  # the encoder's own; empty where growth makes them stale

    @property
    def texts(self) -> CachedTexts:
        """How the sources lie."""
        return self.encoder.texts

    @property
    def n_bytes(self) -> int:
        """Bytes of the slots in use."""
        total = self.encoder.n_bytes
        for keys in self.layers.values():
            total += sum(tensor.nbytes for tensor in keys)
        return total

    def select_rows(self, rows: Sequence[int]) -> CachedSource:
        """Some of the sources, in any order and any number of times each."""
        layers, index = {}, torch.tensor(rows)
        for number, keys in self.layers.items():
            index = index.to(keys[0].device)
            layers[number] = tuple(tensor[index] for tensor in keys)
        places = self.table.places_BS
        table = SlotTable(self.table.n_used, None if places is None else places[list(rows)])
        layout = self.layout.select_rows(index)
        return CachedSource(
            layers=layers, layout=layout, table=table, encoder=self.encoder.select_rows(rows)
        )


def source_seen_by(source: CachedSource, texts: CachedTexts, places_BT: IntArray) -> CachedSource:
    """Keys of sources as some tokens see them under `documents_so_far`: without documents, where
    all of them come so late that they see every one. Kernels are faster then.
    """
    if texts.documents_BT is None or source.texts.documents_BT is None:
        return source
    documents_BT = np.take_along_axis(texts.documents_BT, np.maximum(places_BT, 0), 1)
    for row, first in enumerate(documents_BT.min(1)):
        if source.texts.documents_BT[row, : source.texts.lengths[row]].max(initial=0) > first:
            return source
    return replace(source, layout=replace(source.layout, documents_BT=None))


def grow_source(
    old: CachedSource | None, encoder: StackCache, places_BS: IntArray, new_layers: dict[int, Keys]
) -> CachedSource:
    """Keys of sources with those of some places, which are new or were read again; `encoder` is
    what it keeps then.
    """
    table, layers = SlotTable(), new_layers
    if old is not None:
        table, kept_layers = _without_slots_of(old, places_BS)
        if table.n_used:
            layers = {}
            for number, new_keys in new_layers.items():
                pairs = zip(kept_layers[number], new_keys, strict=True)
                layers[number] = tuple(torch.cat(pair, 2) for pair in pairs)
    table = table.append(places_BS)
    device = next(iter(layers.values()))[0].device
    return CachedSource(
        layers=layers, layout=table.layout(encoder.texts, device), table=table, encoder=encoder
    )


def _without_slots_of(old: CachedSource, places_BS: IntArray) -> tuple[SlotTable, dict[int, Keys]]:
    """The table and keys without some places, packed."""
    table = without_places(old.table, places_BS)
    if table is old.table or table.n_used == 0:
        return table, old.layers
    places = table.places(len(places_BS))
    slots_BS = pad_slots([np.flatnonzero(row != NO_PLACE) for row in places])
    kept = np.take_along_axis(places, np.maximum(slots_BS, 0), 1)
    kept = np.where(slots_BS == NO_PLACE, NO_PLACE, kept)
    layers = {number: gather_slots(keys, slots_BS) for number, keys in old.layers.items()}
    return SlotTable().append(kept), layers
