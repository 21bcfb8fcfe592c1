"""Texts that are read together and grow apart: rows of shared buffers, which texts join and leave.

A `Cache` is a value and holds texts from beginning to end. Here rows come and go, so whoever owns
them changes them in place: a text that joins or leaves moves its own keys alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import PREFIX_RULES, Rule, leaves
from paribus.model.cache import Keys
from paribus.model.linear import JoinedWeights
from paribus.model.row_slots import RowSlots
from paribus.model.slots import CachedTexts, IntArray
from paribus.model.source_keys import SourceKeys

MIN_SLOTS = 64  # of a row


@dataclass
class _RowText:
    """One row's text: how long it is, where its prefix ends, and how much of it is saved."""

    length: int = 0
    prefix: int = 0
    n_saved: int = 0  # places before this may be given up, where nobody sees them any more
    n_source: int = 0


class TextRows:
    """Keys of texts in the rows of shared buffers. One owner changes them, in one thread."""

    def __init__(
        self,
        rules: Sequence[Rule],
        device: torch.device,
        min_slots: int = MIN_SLOTS,
        weights: JoinedWeights | None = None,
    ):
        self.rules, self.device, self._min_slots = tuple(rules), device, min_slots
        self.weights = weights or JoinedWeights()
        self.slots = {rule: RowSlots(rule) for rule in dict.fromkeys(rules)}
        self.has_prefix = any(PREFIX_RULES & leaves(rule) for rule in self.slots)
        self._texts: list[_RowText] = []
        self._layers: dict[int, Keys] = {}  # each [rows, heads, slots, width]
        self._sources: dict[int, Keys] = {}

    @property
    def n_rows(self) -> int:
        return len(self._texts)

    def length(self, row: int) -> int:
        """How many tokens of a row's text were read."""
        return self._texts[row].length

    def set_length(self, row: int, length: int) -> None:
        """So many tokens of a row's text are read."""
        self._texts[row].length = length

    def join(self, prefix: int = 0) -> int:
        """A new row behind the others, for a text of which nothing is read yet."""
        if not self.has_prefix:
            prefix = 0
        self._texts.append(_RowText(prefix=prefix))
        self._reserve_rows(self.n_rows)
        for slots in self.slots.values():
            slots.clear(self.n_rows - 1)
        return self.n_rows - 1

    def leave(self, row: int) -> None:
        """Give up a row. The last row takes its place."""
        last = self.n_rows - 1
        if row != last:
            self._move(last, row)
        self._texts.pop()

    def n_saved(self, row: int) -> int:
        """How many tokens of a row's text are kept elsewhere too."""
        return self._texts[row].n_saved

    def mark_saved(self, row: int, n_tokens: int) -> None:
        """So many tokens of a row's text are kept elsewhere too."""
        self._texts[row].n_saved = n_tokens

    def fill(self, row: int, places: IntArray, length: int, layers: Sequence[Keys]) -> None:
        """Let an empty row hold keys that were read before: those of `places`, of a text that is
        `length` long. Each of `layers` has tensors [heads, places, width].
        """
        for rule in self.slots:
            self.make_room(rule, row, len(places))
        for slots in self.slots.values():
            slots.take(row, places)
        for layer, keys in enumerate(layers):
            buffers = self.buffers(layer, tuple(own[None] for own in keys))
            for buffer, own in zip(buffers, keys, strict=True):
                buffer[row, :, : len(places)] = own
        self._texts[row].length = self._texts[row].n_saved = length

    def keys(self, row: int, start: int, stop: int) -> list[Keys]:
        """Copies of the keys of some places, layer by layer, [heads, places, width]. The row must
        hold them in every layer.
        """
        found: dict[Rule, slice | Tensor] = {}
        for rule, slots in self.slots.items():
            if slots.is_plain_R[row]:
                found[rule] = slice(start, stop)
                continue
            held = slots.places_RS[row, : slots.n_used_R[row]]
            order = np.flatnonzero((held >= start) & (held < stop))
            order = order[np.argsort(held[order])]
            assert len(order) == stop - start
            found[rule] = torch.from_numpy(order).to(self.device)
        layers = []
        for layer, rule in enumerate(self.rules):
            own = []
            for buffer in self._layers[layer]:
                own.append(buffer[row][:, found[rule]].clone())
            layers.append(tuple(own))
        return layers

    def set_source(self, row: int, layers: Mapping[int, Keys]) -> None:
        """The source that a row's text is read beside; tensors are [heads, places, width]."""
        n_source = next(iter(layers.values()))[0].shape[1]
        self._texts[row].n_source = n_source
        for layer, keys in layers.items():
            old = self._sources.get(layer)
            if old is None or len(old[0]) < self.n_row_capacity or old[0].shape[2] < n_source:
                n_slots = n_source if old is None else max(n_source, old[0].shape[2])
                self._sources[layer] = _grow_buffers(old, keys, self.n_row_capacity, n_slots)
            for buffer, own in zip(self._sources[layer], keys, strict=True):
                buffer[row, :, :n_source] = own

    def texts(self, rows: range) -> CachedTexts:
        """How long the texts of some rows are."""
        own = self._texts[rows.start : rows.stop]
        return CachedTexts(tuple(text.length for text in own), tuple(text.prefix for text in own))

    def source(self, rows: range) -> SourceKeys | None:
        """The sources of some rows, padded on the right."""
        if not self._sources:
            return None
        lengths = [text.n_source for text in self._texts[rows.start : rows.stop]]
        longest, prefix, is_real = max(lengths), lengths[0], None
        if min(lengths) < longest:
            prefix = torch.tensor(lengths, device=self.device)
            is_real = torch.arange(longest, device=self.device) < prefix[:, None]
        layers = {}
        for layer, keys in self._sources.items():
            layers[layer] = tuple(one[rows.start : rows.stop, :, :longest] for one in keys)
        layout = BatchLayout(n_sequences=len(rows), length=longest, prefix=prefix, real_BT=is_real)
        return SourceKeys(layers, layout)

    @property
    def n_row_capacity(self) -> int:
        """How many rows there is room for."""
        return len(next(iter(self.slots.values())).places_RS)

    def _reserve_rows(self, n_rows: int) -> None:
        if n_rows <= self.n_row_capacity:
            return
        n_rows = max(n_rows, 2 * self.n_row_capacity)
        for slots in self.slots.values():
            slots.grow(n_rows, max(slots.capacity, self._min_slots))
        for layer, keys in self._layers.items():
            self._layers[layer] = _grow_buffers(keys, keys, n_rows, keys[0].shape[2])
        for layer, keys in self._sources.items():
            self._sources[layer] = _grow_buffers(keys, keys, n_rows, keys[0].shape[2])

    def make_room(self, rule: Rule, row: int, n_places: int) -> None:
        """Have room for more places of a row: in slots that nobody needs, or else in new ones."""
        slots, text = self.slots[rule], self._texts[row]
        if not slots.n_lacking(row, n_places):
            return
        slots.release(row, text.length, text.prefix, text.n_saved)
        n_lacking = slots.n_lacking(row, n_places)
        if not n_lacking:
            return
        n_slots = max(slots.capacity + n_lacking, 2 * slots.capacity)
        slots.grow(len(slots.places_RS), n_slots)
        for layer, own in enumerate(self.rules):
            if own == rule and layer in self._layers:
                keys = self._layers[layer]
                self._layers[layer] = _grow_buffers(keys, keys, len(keys[0]), n_slots)

    def reserve_places(self) -> bool:
        """Have room for one more place of every row: do all of them lie place by place, so that it
        is the slot of the same number?
        """
        lengths_B = np.array([text.length for text in self._texts])
        for rule, slots in self.slots.items():
            if slots.n_used_R[: self.n_rows].max() == slots.capacity:
                for row in range(self.n_rows):
                    self.make_room(rule, row, 1)
            is_used_B = slots.n_used_R[: self.n_rows] == lengths_B
            if not (is_used_B & slots.is_plain_R[: self.n_rows]).all():
                return False
        return len(self._layers) == len(self.rules)

    def take_places(self) -> None:
        """One more token of every row is read, whose slots lie place by place."""
        lengths_B = np.array([text.length for text in self._texts])
        for slots in self.slots.values():
            slots.take_one_each(self.n_rows, lengths_B)
        for text in self._texts:
            text.length += 1

    def first_slots(self, n_slots: int, n_rows: int) -> list[Keys]:
        """The keys of the first rows in their first slots, layer by layer; in fewer, if one has
        fewer.
        """
        n_slots = min(n_slots, *(slots.capacity for slots in self.slots.values()))
        layers = []
        for layer in range(len(self.rules)):
            layers.append(tuple(one[:n_rows, :, :n_slots] for one in self._layers[layer]))
        return layers

    def all_slots(self) -> list[Keys]:
        """The keys of all rows that there is room for, in all slots that every layer has."""
        return self.first_slots(sys.maxsize, self.n_row_capacity)

    def buffers(self, layer: int, like: Keys) -> Keys:
        """The buffers of a layer, whose widths are those of keys [B, heads, places, width]."""
        if layer not in self._layers:
            slots = self.slots[self.rules[layer]]
            one = tuple(tensor[0] for tensor in like)
            self._layers[layer] = _grow_buffers(None, one, *slots.places_RS.shape)
        return self._layers[layer]

    def _move(self, source: int, target: int) -> None:
        for layer, keys in self._layers.items():
            n_used = int(self.slots[self.rules[layer]].n_used_R[source])
            for buffer in keys:
                buffer[target, :, :n_used] = buffer[source, :, :n_used]
        n_source = self._texts[source].n_source
        for keys in self._sources.values():
            for buffer in keys:
                buffer[target, :, :n_source] = buffer[source, :, :n_source]
        for slots in self.slots.values():
            slots.move(source, target)
        self._texts[target] = self._texts[source]


def _grow_buffers(old: Keys | None, like: Keys, n_rows: int, n_slots: int) -> Keys:
    """Buffers [rows, heads, slots, width] with what the old ones hold."""
    buffers = []
    for number, tensor in enumerate(like):
        buffer = tensor.new_zeros((n_rows, tensor.shape[-3], n_slots, tensor.shape[-1]))
        if old is not None:
            own = old[number]
            buffer[: own.shape[0], :, : own.shape[2]] = own
        buffers.append(buffer)
    return tuple(buffers)
