"""A forward pass over texts that share rows and grow apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import Rule
from paribus.model.cache import Keys
from paribus.model.row_slots import RowSlots
from paribus.model.slots import NO_PLACE, CachedTexts, IntArray, query_layout
from paribus.model.text_rows import TextRows

_Target = slice | tuple[Tensor, ...]  # slots of all rows alike, or rows with slots


class RowsPass:
    """One forward pass over some rows, which get the keys that are new."""

    def __init__(self, rows: TextRows, chosen: range, n_tokens: Sequence[int]):
        """So many tokens are read behind the text of each chosen row."""
        self._rows, self._chosen, self._n_tokens = rows, chosen, n_tokens
        old = rows.texts(chosen)
        n_read = max(n_tokens)
        self.places_BT = np.array(old.lengths)[:, None] + np.arange(n_read)
        self.places_BT[np.arange(n_read) >= np.array(n_tokens)[:, None]] = NO_PLACE
        self.has_own_keys = min(n_tokens) == n_read
        lengths = [length + n for length, n in zip(old.lengths, n_tokens, strict=True)]
        self._texts = CachedTexts(tuple(lengths), old.prefixes)
        self.queries = query_layout(self.places_BT, self._texts, rows.device)
        self.source, self.weights = rows.source(chosen), rows.weights
        self._at = _index(np.nonzero(self.places_BT != NO_PLACE), rows.device)
        self._targets: dict[Rule, _Target] = {}
        self._key_layouts: dict[Rule, BatchLayout] = {}
        for rule, slots in rows.slots.items():
            self._targets[rule] = self._take_slots(slots)
        for rule, slots in rows.slots.items():
            self._key_layouts[rule] = self._layout(slots)

    def head_groups(self, rule: Rule) -> tuple[Rule, ...]:
        """All heads of a layer have the same keys."""
        return (rule,)

    def key_layout(self, rule: Rule) -> BatchLayout:
        """How the keys lie that a layer of this rule attends to."""
        return self._key_layouts[rule]

    def join(self, layer: int, new_keys: Keys) -> Keys:
        """The keys of a layer: those of this pass with those of the rows, which get them."""
        rule, chosen = self._rows.rules[layer], self._chosen
        buffers, target = self._rows.buffers(layer, new_keys), self._targets[rule]
        for buffer, new in zip(buffers, new_keys, strict=True):
            if isinstance(target, slice):
                buffer[chosen.start : chosen.stop, :, target] = new
            elif new.shape[2] == 1 and len(target[0]) == len(new):
                buffer[target[0], :, target[1]] = new[:, :, 0]
            else:
                rows, columns = self._at
                buffer[target[0], :, target[1]] = new.transpose(1, 2)[rows, columns]
        n_used = self._key_layouts[rule].length
        return tuple(buffer[chosen.start : chosen.stop, :, :n_used] for buffer in buffers)

    def finish(self) -> None:
        """The rows' texts are longer now."""
        for row, length in zip(self._chosen, self._texts.lengths, strict=True):
            self._rows.set_length(row, length)

    def _take_slots(self, slots: RowSlots) -> _Target:
        """Where the new keys of a rule go: the same slots of all rows, or a row and a slot for
        each token.
        """
        n_tokens, chosen = self._n_tokens, self._chosen
        if slots.n_used_R[chosen.start : chosen.stop].max() + max(n_tokens) > slots.capacity:
            for row, n_new in zip(chosen, n_tokens, strict=True):
                self._rows.make_room(slots.rule, row, n_new)
        if chosen.start == 0 and max(n_tokens) == min(n_tokens) == 1:
            taken_B = slots.take_one_each(len(chosen), self.places_BT[:, 0])
            if (taken_B == taken_B[0]).all():
                return slice(int(taken_B[0]), int(taken_B[0]) + 1)
            return _index((np.array(chosen), taken_B), self._rows.device)
        each = []
        for row, places, n_new in zip(chosen, self.places_BT, n_tokens, strict=True):
            each.append(slots.take(row, places[:n_new]))
        first, n_new = each[0], len(each[0])
        if len(each) == 1 and (first == np.arange(first[0], first[0] + n_new)).all():
            return slice(int(first[0]), int(first[0]) + n_new)
        rows = np.repeat(np.array(chosen), n_tokens)
        return _index((rows, np.concatenate(each)), self._rows.device)

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
