"""Texts that are read together and grow apart: rows of shared buffers, which texts join and leave.

A `Cache` is a value and holds texts from beginning to end. Here rows come and go, so whoever owns
them changes them in place: a text that joins or leaves moves its own keys alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import PREFIX_RULES, Rule, leaves
from paribus.model.cache import Keys, SourceKeys
from paribus.model.linear import JoinedWeights
from paribus.model.row_slots import RowSlots
from paribus.model.slots import NO_PLACE, CachedTexts, IntArray, query_layout

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

    def __init__(self, rules: Sequence[Rule], device: torch.device, min_slots: int = MIN_SLOTS):
        self.rules, self.device, self._min_slots = tuple(rules), device, min_slots
        self.weights = JoinedWeights()
        self.slots = {rule: RowSlots(rule) for rule in dict.fromkeys(rules)}
        self._has_prefix = any(PREFIX_RULES & leaves(rule) for rule in self.slots)
        self._texts: list[_RowText] = []
        self._layers: dict[int, Keys] = {}  # each [rows, heads, slots, width]
        self._sources: dict[int, Keys] = {}

    @property
    def n_rows(self) -> int:
        return len(self._texts)

    def length(self, row: int) -> int:
        """How many tokens of a row's text were read."""
        return self._texts[row].length

    def join(self, prefix: int = 0) -> int:
        """A new row behind the others, for a text of which nothing is read yet."""
        if not self._has_prefix:
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
            self._make_room(rule, row, len(places))
        for slots in self.slots.values():
            slots.take(row, places)
        for layer, keys in enumerate(layers):
            for buffer, own in zip(self._layers[layer], keys, strict=True):
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
            if old is None or len(old[0]) < self._n_row_capacity or old[0].shape[2] < n_source:
                n_slots = n_source if old is None else max(n_source, old[0].shape[2])
                self._sources[layer] = _grow_buffers(old, keys, self._n_row_capacity, n_slots)
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

    def append(self, rows: range, n_tokens: Sequence[int]) -> RowsPass:
        """A pass that reads so many tokens behind the text of each of some rows."""
        return RowsPass(self, rows, n_tokens)

    @property
    def _n_row_capacity(self) -> int:
        return len(next(iter(self.slots.values())).places_RS)

    def _reserve_rows(self, n_rows: int) -> None:
        if n_rows <= self._n_row_capacity:
            return
        n_rows = max(n_rows, 2 * self._n_row_capacity)
        for slots in self.slots.values():
            slots.grow(n_rows, max(slots.capacity, self._min_slots))
        for layer, keys in self._layers.items():
            self._layers[layer] = _grow_buffers(keys, keys, n_rows, keys[0].shape[2])
        for layer, keys in self._sources.items():
            self._sources[layer] = _grow_buffers(keys, keys, n_rows, keys[0].shape[2])

    def _make_room(self, rule: Rule, row: int, n_places: int) -> None:
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

    def _buffers(self, layer: int, like: Keys) -> Keys:
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


class RowsPass:
    """One forward pass over some rows, which get the keys that are new."""

    def __init__(self, rows: TextRows, chosen: range, n_tokens: Sequence[int]):
        self._rows, self._chosen, self._n_tokens = rows, chosen, n_tokens
        old = rows.texts(chosen)
        n_read = max(n_tokens)
        self.places_BT = np.array(old.lengths)[:, None] + np.arange(n_read)
        self.places_BT[np.arange(n_read) >= np.array(n_tokens)[:, None]] = NO_PLACE
        lengths = [length + n for length, n in zip(old.lengths, n_tokens, strict=True)]
        self._texts = CachedTexts(tuple(lengths), old.prefixes)
        self.queries = query_layout(self.places_BT, self._texts, rows.device)
        self.source, self.weights = rows.source(chosen), rows.weights
        self._at = _index(np.nonzero(self.places_BT != NO_PLACE), rows.device)
        self._targets: dict[Rule, tuple[Tensor, Tensor]] = {}
        self._key_layouts: dict[Rule, BatchLayout] = {}
        for rule, slots in rows.slots.items():
            self._targets[rule] = self._take_slots(slots)
        for rule, slots in rows.slots.items():
            self._key_layouts[rule] = self._layout(slots)

    def key_layout(self, rule: Rule) -> BatchLayout:
        """How the keys lie that a layer of this rule attends to."""
        return self._key_layouts[rule]

    def join(self, layer: int, new_keys: Keys) -> Keys:
        """The keys of a layer: those of this pass with those of the rows, which get them."""
        rule, chosen = self._rows.rules[layer], self._chosen
        buffers = self._rows._buffers(layer, new_keys)
        target_rows, target_slots = self._targets[rule]
        rows, columns = self._at
        for buffer, new in zip(buffers, new_keys, strict=True):
            if new.shape[2] == 1 and len(target_rows) == len(new):
                buffer[target_rows, :, target_slots] = new[:, :, 0]
            else:
                buffer[target_rows, :, target_slots] = new.transpose(1, 2)[rows, columns]
        n_used = self._key_layouts[rule].length
        return tuple(buffer[chosen.start : chosen.stop, :, :n_used] for buffer in buffers)

    def finish(self) -> None:
        """The rows' texts are longer now."""
        for row, length in zip(self._chosen, self._texts.lengths, strict=True):
            self._rows._texts[row].length = length

    def _take_slots(self, slots: RowSlots) -> tuple[Tensor, Tensor]:
        """Where the new keys of a rule go: rows and slots, by token."""
        for row, n_new in zip(self._chosen, self._n_tokens, strict=True):
            self._rows._make_room(slots.rule, row, n_new)
        target_rows = np.repeat(np.array(self._chosen), self._n_tokens)
        if self._chosen.start == 0 and max(self._n_tokens) == min(self._n_tokens) == 1:
            taken = slots.take_one_each(len(self._chosen), self.places_BT[:, 0])
        else:
            each = []
            for row, places, n_new in zip(
                self._chosen, self.places_BT, self._n_tokens, strict=True
            ):
                each.append(slots.take(row, places[:n_new]))
            taken = np.concatenate(each)
        first, second = _index((target_rows, taken), self._rows.device)
        return first, second

    def _layout(self, slots: RowSlots) -> BatchLayout:
        chosen, device = slice(self._chosen.start, self._chosen.stop), self._rows.device
        n_used_B = slots.n_used_R[chosen]
        layout = BatchLayout(
            n_sequences=len(self._chosen),
            length=int(n_used_B.max()),
            prefix=self._texts.prefix(device),
        )
        places_BS = slots.places_RS[chosen, : layout.length]
        if slots.is_plain_R[chosen].all():
            if int(n_used_B.min()) == layout.length:
                return self._as_queries(layout)
            is_real = torch.from_numpy(np.arange(layout.length) < n_used_B[:, None]).to(device)
            return _with_tensors(layout, None, is_real)
        places = torch.from_numpy(places_BS).to(device)
        return _with_tensors(layout, places, places != NO_PLACE)

    def _as_queries(self, keys: BatchLayout) -> BatchLayout:
        """The layout of the queries, where keys are the same positions."""
        queries = self.queries
        if queries.places_BT is None and queries.start == 0 and queries.length == keys.length:
            return queries
        return keys


def _with_tensors(layout: BatchLayout, places: Tensor | None, is_real: Tensor) -> BatchLayout:
    return BatchLayout(
        n_sequences=layout.n_sequences,
        length=layout.length,
        prefix=layout.prefix,
        places_BT=places,
        real_BT=is_real,
    )


def _index(arrays: Sequence[IntArray], device: torch.device) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(np.asarray(array)).to(device) for array in arrays)


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
