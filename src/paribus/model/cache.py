"""A cache: keys and values of texts that were read, given to a forward pass and returned by it.

What is valid and what is needed follow from the masks (`masks.plan_growth`). The keys of a layer
lie in slots. A table says which place of its text each slot holds. Layers of one rule share a
table, for a key is needed by rule and place alone. Where heads differ in what they free, each group
of heads has its own slots. New keys are written behind those there are. Where no room is left,
those that are still needed move into new slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import Rule, frees_keys, head_groups
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

Keys = tuple[Tensor, ...]  # of one layer: each [B, heads, slots, width]; group after group
MIN_SPARE = 64  # slots that are left free when room is made


@dataclass
class _Tail:
    """How many slots of shared buffers are written: who appends to a cache twice gets a copy."""

    n_written: int = 0


@dataclass(frozen=True, eq=False)
class StackCache:
    """What one stack keeps of some texts."""

    rules: tuple[Rule, ...]  # by layer
    groups: dict[Rule, tuple[Rule, ...]]  # by rule of a layer, the rules of its groups of heads
    texts: CachedTexts
    tables: dict[Rule, SlotTable]  # by rule of a group
    tails: dict[Rule, _Tail]
    layers: tuple[Keys, ...] = ()  # buffers, longer than the tables; none before a text was read

    @staticmethod
    def empty(rules: Sequence[Rule], n_sequences: int, n_kv_heads: int = 1) -> StackCache:
        groups = {rule: head_groups(rule, n_kv_heads) for rule in rules}
        none = (0,) * n_sequences
        own = dict.fromkeys(chain.from_iterable(groups.values()))
        return StackCache(
            rules=tuple(rules),
            groups=groups,
            texts=CachedTexts(none, none),
            tables={rule: SlotTable() for rule in own},
            tails={rule: _Tail() for rule in own},
        )

    def emptied(self) -> StackCache:
        """A cache of as many texts that holds nothing."""
        none = (0,) * self.texts.n_sequences
        return replace(
            self,
            texts=CachedTexts(none, none),
            tables={rule: SlotTable() for rule in self.tables},
            tails={rule: _Tail() for rule in self.tables},
            layers=(),
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of the slots in use."""
        total = 0
        for layer in range(len(self.layers)):
            for rule, keys in self.keys_by_group(layer):
                for tensor in keys:
                    total += tensor[:, :, : self.tables[rule].n_used].nbytes
        return total

    def keys_by_group(self, layer: int) -> list[tuple[Rule, Keys]]:
        """The buffers of a layer, group of heads by group."""
        parts, keys = self.groups[self.rules[layer]], self.layers[layer]
        if len(parts) == 1:
            return [(parts[0], keys)]
        each = len(keys) // len(parts)
        grouped = []
        for number, part in enumerate(parts):
            grouped.append((part, keys[number * each : (number + 1) * each]))
        return grouped

    def kept_places(self, layer: int, row: int) -> list[int]:
        """The places of a text whose keys are kept by any head, in order: what a later token can
        see.
        """
        return sorted(set().union(*self.kept_places_by_group(layer, row)))

    def kept_places_by_group(self, layer: int, row: int) -> list[list[int]]:
        """The places of a text whose keys are kept, in order, by each group of heads."""
        kept = []
        for rule in self.groups[self.rules[layer]]:
            places = self.tables[rule].places(self.texts.n_sequences)[row]
            kept.append(sorted(places[is_needed(rule, places, self.texts, row)].tolist()))
        return kept

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
        tables, tails = dict(self.tables), dict(self.tails)
        slots_by_rule: dict[Rule, IntArray] = {}
        for rule, table in self.tables.items():
            slots_BS = self._needed_slots(rule)
            if slots_BS.shape[1] == table.n_used:
                continue
            slots_by_rule[rule] = slots_BS
            places_BS = table.places(self.texts.n_sequences)
            is_slot = slots_BS != NO_PLACE
            kept_BS = np.where(is_slot, np.take_along_axis(places_BS, slots_BS, 1), NO_PLACE)
            tables[rule] = SlotTable().append(kept_BS)
            tails[rule] = _Tail(slots_BS.shape[1])
        layers = []
        for layer in range(len(self.layers)):
            own: Keys = ()
            for rule, keys in self.keys_by_group(layer):
                if rule in slots_by_rule:
                    keys = _with_room(gather_slots(keys, slots_by_rule[rule]))
                own += keys
            layers.append(own)
        return replace(self, tables=tables, tails=tails, layers=tuple(layers))

    @property
    def has_much_to_free(self) -> bool:
        """Does some rule hold more than twice the keys that are needed, beside spare slots?"""
        for rule, table in self.tables.items():
            if table.n_used <= MIN_SPARE or not frees_keys(rule):
                continue
            if table.n_used > 2 * self._needed_slots(rule).shape[1] + MIN_SPARE:
                return True
        return False

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
        self._cache, self.texts, self._reserve = cache, texts, reserve
        self._before = {
            rule: without_places(table, places_BT) for rule, table in cache.tables.items()
        }
        self._after = {rule: table.append(places_BT) for rule, table in self._before.items()}
        self._is_appended = {rule: self._may_append(rule) for rule in cache.tables}
        self._layers: list[Keys] = []
        self.queries = query_layout(places_BT, texts, device)
        self.has_own_keys = bool((places_BT != NO_PLACE).all())
        self._key_layouts: dict[Rule, BatchLayout] = {}
        for rule, table in self._after.items():
            self._key_layouts[rule] = key_layout(table, self.queries, texts, device)

    def head_groups(self, rule: Rule) -> tuple[Rule, ...]:
        """The rules of groups of heads that have keys of their own, in a layer of this rule."""
        return self._cache.groups[rule]

    def key_layout(self, rule: Rule) -> BatchLayout:
        """How the keys lie that a group of heads of this rule attends to."""
        return self._key_layouts[rule]

    def join(self, layer: int, new_keys: Keys) -> Keys:
        """The keys of a layer: those of this pass behind those of the cache, which gets them."""
        assert layer == len(self._layers)
        parts = self.head_groups(self._cache.rules[layer])
        old_keys: list[Keys] = [()] * len(parts)
        if self._cache.layers:
            old_keys = [keys for _, keys in self._cache.keys_by_group(layer)]
        all_buffers: Keys = ()
        joined: Keys = ()
        for number, rule in enumerate(parts):
            own = new_keys
            if len(parts) > 1:
                own = tuple(tensor.chunk(len(parts), 1)[number] for tensor in new_keys)
            buffers = self._written_buffers(rule, old_keys[number], own)
            n_used = self._after[rule].n_used
            all_buffers += buffers
            joined += tuple(buffer[:, :, :n_used] for buffer in buffers)
        self._layers.append(all_buffers)
        return joined

    def finish(self) -> StackCache:
        """The cache after this pass."""
        tails = {}
        for rule, table in self._after.items():
            tails[rule] = self._cache.tails[rule] if self._is_appended[rule] else _Tail()
            tails[rule].n_written = table.n_used
        return replace(
            self._cache,
            texts=self.texts,
            tables=self._after,
            tails=tails,
            layers=tuple(self._layers),
        )

    def _written_buffers(self, rule: Rule, old_keys: Keys, new_keys: Keys) -> Keys:
        """The buffers of a group of heads with the keys of this pass."""
        if self._is_appended[rule]:
            buffers = old_keys
        else:
            buffers = self._larger_buffers(rule, old_keys, new_keys)
        n_before, n_used = self._before[rule].n_used, self._after[rule].n_used
        for buffer, new in zip(buffers, new_keys, strict=True):
            buffer[:, :, n_before:n_used] = new
        return buffers

    def _may_append(self, rule: Rule) -> bool:
        """Is there room behind the keys of the cache, which nobody else has written to?"""
        cache, before = self._cache, self._before[rule]
        is_free = before is cache.tables[rule] and cache.tails[rule].n_written == before.n_used
        return is_free and not _is_full(cache, rule, self._after[rule].n_used)

    def _larger_buffers(self, rule: Rule, old_keys: Keys, new_keys: Keys) -> Keys:
        """Buffers with room for this pass, and with the keys of the cache."""
        n_before, n_used = self._before[rule].n_used, self._after[rule].n_used
        capacity = n_used + max(n_used, MIN_SPARE)
        if not frees_keys(rule):
            capacity = max(self._reserve, capacity)
        buffers = []
        for number, new in enumerate(new_keys):
            buffer = new.new_zeros((*new.shape[:2], capacity, new.shape[3]))
            if n_before:
                buffer[:, :, :n_before] = old_keys[number][:, :, :n_before]
            buffers.append(buffer)
        return tuple(buffers)


def _is_full(cache: StackCache, rule: Rule, n_used: int) -> bool:
    """Have the buffers of a rule no room for so many slots?"""
    for layer in range(len(cache.layers)):
        for part, keys in cache.keys_by_group(layer):
            if part == rule:
                return n_used > keys[0].shape[2]
    return True


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
