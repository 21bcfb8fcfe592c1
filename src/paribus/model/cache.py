"""A cache: keys and values of texts that were read, given to a forward pass and returned by it.

What is valid and what is needed follow from the masks (`masks.plan_growth`). The keys of a layer
lie in slots. A table says which place of its text each slot holds. Layers of one rule share a
table, for a key is needed by rule and place alone. New keys are written behind those there are.
Where no room is left, those that are still needed move into new slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import Rule
from paribus.model.slots import (
    NO_PLACE,
    CachedTexts,
    IntArray,
    SlotTable,
    is_needed,
    key_layout,
    query_layout,
    without_places,
)

Keys = tuple[Tensor, ...]  # of one layer: each [B, heads, slots, width]
MIN_SPARE = 64  # slots that are left free when room is made


@dataclass
class _Tail:
    """How many slots of shared buffers are written: who appends to a cache twice gets a copy."""

    n_written: int = 0


@dataclass(frozen=True, eq=False)
class StackCache:
    """What one stack keeps of some texts."""

    rules: tuple[Rule, ...]  # by layer
    texts: CachedTexts
    tables: dict[Rule, SlotTable]
    tails: dict[Rule, _Tail]
    layers: tuple[Keys, ...] = ()  # buffers, longer than the tables; none before a text was read

    @staticmethod
    def empty(rules: Sequence[Rule], n_sequences: int) -> StackCache:
        own = dict.fromkeys(rules)
        none = (0,) * n_sequences
        return StackCache(
            rules=tuple(rules),
            texts=CachedTexts(none, none),
            tables={rule: SlotTable() for rule in own},
            tails={rule: _Tail() for rule in own},
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of the slots in use."""
        total = 0
        for rule, keys in zip(self.rules, self.layers, strict=False):
            for tensor in keys:
                total += tensor[:, :, : self.tables[rule].n_used].nbytes
        return total

    def kept_places(self, layer: int, row: int) -> list[int]:
        """The places of a text whose keys are kept, in order: what a later token can see."""
        rule = self.rules[layer]
        places = self.tables[rule].places(self.texts.n_sequences)[row]
        return sorted(places[is_needed(rule, places, self.texts, row)].tolist())

    def select_rows(self, rows: Sequence[int]) -> StackCache:
        """Some of the texts, in any order and any number of times each, in buffers of their own."""
        tables = {}
        for rule, table in self.tables.items():
            places = None if table.places_BS is None else table.places_BS[list(rows)]
            tables[rule] = SlotTable(table.n_used, places)
        layers = []
        for keys in self.layers:
            index = torch.tensor(rows, device=keys[0].device)
            layers.append(tuple(tensor[index] for tensor in keys))
        return replace(
            self,
            texts=self.texts.select_rows(rows),
            tables=tables,
            tails={rule: _Tail(table.n_used) for rule, table in tables.items()},
            layers=tuple(layers),
        )

    def compact(self) -> StackCache:
        """The cache without keys that no later token can see; buffers that lose some are new."""
        tables, tails, layers = dict(self.tables), dict(self.tails), list(self.layers)
        for rule, table in self.tables.items():
            slots_BS = self._needed_slots(rule)
            if slots_BS.shape[1] == table.n_used:
                continue
            places_BS = table.places(self.texts.n_sequences)
            is_slot = slots_BS != NO_PLACE
            kept_BS = np.where(is_slot, np.take_along_axis(places_BS, slots_BS, 1), NO_PLACE)
            tables[rule] = SlotTable().append(kept_BS)
            tails[rule] = _Tail(slots_BS.shape[1])
            for layer, own in enumerate(self.rules):
                if own == rule:
                    layers[layer] = _with_room(gather_slots(self.layers[layer], slots_BS))
        return replace(self, tables=tables, tails=tails, layers=tuple(layers))

    def _needed_slots(self, rule: Rule) -> IntArray:
        """The slots of each row that are needed, padded to the same number: [B, slots]."""
        places_BS = self.tables[rule].places(self.texts.n_sequences)
        rows = []
        for row, places in enumerate(places_BS):
            rows.append(np.flatnonzero(is_needed(rule, places, self.texts, row)))
        return pad_slots(rows)


class StackPass:
    """One forward pass of a stack over its cache, which gets the keys that are new."""

    def __init__(
        self,
        cache: StackCache,
        places_BT: IntArray,
        texts: CachedTexts,
        device: torch.device,
        reserve: int = 0,
    ):
        """`places_BT` are the places that are read, in a text or anew; `texts` is how the texts
        lie then. Buffers have at least `reserve` slots.
        """
        if any(_lacks_room(cache, rule, places_BT.shape[1]) for rule in cache.tables):
            cache = cache.compact()
        self._cache, self._texts, self._reserve = cache, texts, reserve
        self._before = {
            rule: without_places(table, places_BT) for rule, table in cache.tables.items()
        }
        self._after = {rule: table.append(places_BT) for rule, table in self._before.items()}
        self._is_appended = {rule: self._may_append(rule) for rule in cache.tables}
        self._layers: list[Keys] = []
        self.queries = query_layout(places_BT, texts, device)
        self._key_layouts: dict[Rule, BatchLayout] = {}
        for rule, table in self._after.items():
            self._key_layouts[rule] = key_layout(table, self.queries, texts, device)

    def key_layout(self, rule: Rule) -> BatchLayout:
        """How the keys lie that a layer of this rule attends to."""
        return self._key_layouts[rule]

    def join(self, layer: int, new_keys: Keys) -> Keys:
        """The keys of a layer: those of this pass behind those of the cache, which gets them."""
        assert layer == len(self._layers)
        rule = self._cache.rules[layer]
        n_before, n_used = self._before[rule].n_used, self._after[rule].n_used
        if self._is_appended[rule]:
            buffers = self._cache.layers[layer]
        else:
            buffers = self._larger_buffers(layer, new_keys)
        for buffer, new in zip(buffers, new_keys, strict=True):
            buffer[:, :, n_before:n_used] = new
        self._layers.append(buffers)
        return tuple(buffer[:, :, :n_used] for buffer in buffers)

    def finish(self) -> StackCache:
        """The cache after this pass."""
        tails = {}
        for rule, table in self._after.items():
            tails[rule] = self._cache.tails[rule] if self._is_appended[rule] else _Tail()
            tails[rule].n_written = table.n_used
        return replace(
            self._cache,
            texts=self._texts,
            tables=self._after,
            tails=tails,
            layers=tuple(self._layers),
        )

    def _may_append(self, rule: Rule) -> bool:
        """Is there room behind the keys of the cache, which nobody else has written to?"""
        cache, before = self._cache, self._before[rule]
        is_free = before is cache.tables[rule] and cache.tails[rule].n_written == before.n_used
        return is_free and not _is_full(cache, rule, self._after[rule].n_used)

    def _larger_buffers(self, layer: int, new_keys: Keys) -> Keys:
        """Buffers with room for this pass, and with the keys of the cache."""
        rule = self._cache.rules[layer]
        n_before, n_used = self._before[rule].n_used, self._after[rule].n_used
        capacity = max(self._reserve, n_used + max(n_used, MIN_SPARE))
        buffers = []
        for number, new in enumerate(new_keys):
            buffer = new.new_zeros((*new.shape[:2], capacity, new.shape[3]))
            if n_before:
                buffer[:, :, :n_before] = self._cache.layers[layer][number][:, :, :n_before]
            buffers.append(buffer)
        return tuple(buffers)


def _is_full(cache: StackCache, rule: Rule, n_used: int) -> bool:
    """Have the buffers of a rule no room for so many slots?"""
    if not cache.layers:
        return True
    return n_used > cache.layers[cache.rules.index(rule)][0].shape[2]


def _lacks_room(cache: StackCache, rule: Rule, n_new: int) -> bool:
    return bool(cache.layers) and _is_full(cache, rule, cache.tables[rule].n_used + n_new)


def gather_slots(keys: Keys, slots_BS: IntArray) -> Keys:
    """The keys of some slots of each row; of padding, any."""
    gathered = []
    for tensor in keys:
        index = torch.from_numpy(np.maximum(slots_BS, 0)).to(tensor.device)[:, None, :, None]
        gathered.append(tensor.gather(2, index.expand(*tensor.shape[:2], -1, tensor.shape[3])))
    return tuple(gathered)


def pad_slots(slots_by_row: Sequence[IntArray]) -> IntArray:
    """Slots of each row, padded to the same number: [B, slots]."""
    n_slots = max(map(len, slots_by_row))
    slots_BS = np.full((len(slots_by_row), n_slots), NO_PLACE)
    for row, slots in enumerate(slots_by_row):
        slots_BS[row, : len(slots)] = slots
    return slots_BS


def _with_room(keys: Keys) -> Keys:
    """Keys with free slots behind them."""
    roomy = []
    for tensor in keys:
        n_slots = tensor.shape[2]
        shape = (*tensor.shape[:2], n_slots + max(n_slots, MIN_SPARE), tensor.shape[3])
        room = tensor.new_zeros(shape)
        room[:, :, :n_slots] = tensor
        roomy.append(room)
    return tuple(roomy)
