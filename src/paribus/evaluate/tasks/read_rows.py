"""What a model reads for the targets of items: rows, each with all targets that are scored in
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.masks import looks_ahead
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout, LaidItem
from paribus.spec.objectives import LastToken


class ReadRow(NamedTuple):
    """What a model reads: equal for two targets that differ in their last token alone."""

    source: Ids  # of the encoder; () without one
    tokens: Ids
    prefix: int


class ScoredTarget(NamedTuple):
    """Targets that are scored in a row, and of which item they are; `first` is the position of
    the first of them.
    """

    item: int
    first: int
    targets: Ids


@dataclass(frozen=True, eq=False)
class SharedRow:
    """A row with all targets that are scored in it."""

    read: ReadRow
    scored: list[ScoredTarget]


def shared_rows(layout: ItemLayout, laid_items: Sequence[LaidItem]) -> list[SharedRow]:
    """The rows of all items, those of about one length side by side; a row that several items read
    is there once.
    """
    rows: dict[ReadRow, SharedRow] = {}
    for number, item in enumerate(laid_items):
        for read, first, targets in read_tokens(layout, item):
            row = rows.get(read)
            if row is None:
                row = rows[read] = SharedRow(read, [])
            row.scored.append(ScoredTarget(number, first, targets))
    return sorted(rows.values(), key=_reading_order)


def _reading_order(row: SharedRow) -> tuple[int, Ids, int]:
    """Rows of one source follow each other, so that it is encoded once."""
    return len(row.read.source), row.read.source, len(row.read.tokens)


def read_tokens(layout: ItemLayout, item: LaidItem) -> Iterator[tuple[ReadRow, int, Ids]]:
    """What is read for an item, the first scored position, and the targets from there on; as
    `item_problems` of `objectives/framing.py` says it with tensors.

    The last target is said and not read.
    """
    before = (*layout.opening, *item.target[:-1])
    match layout.framing:
        case "apart":
            tokens = (layout.vocabulary.decoder_start, *before)
            yield ReadRow(item.inputs, tokens, 0), len(layout.opening), item.target
        case "together":
            read = ReadRow((), (*item.inputs, *before), len(item.inputs))
            yield read, len(item.inputs) + len(layout.opening) - 1, item.target
        case "shifted":
            read = ReadRow((), (*item.inputs, *before), 0)
            yield read, len(item.inputs) - 1, item.target
        case "in place":
            ends = isinstance(layout.component.objective, LastToken)
            for place, token in enumerate(item.target):
                after = () if ends else (*item.target[place + 1 :], *layout.frame.after)
                mask = layout.vocabulary.mask
                tokens = (*item.inputs, *item.target[:place], mask, *after)
                yield ReadRow((), tokens, len(tokens)), len(item.inputs) + place, (token,)


@dataclass(frozen=True, eq=False)
class WholeRows:
    """Rows that are read from their beginning, at once."""

    rows: list[SharedRow]

    @property
    def starts(self) -> list[int]:
        """The position of the first state of each row."""
        return [0] * len(self.rows)

    def states(self, model: Transformer, layout: ItemLayout) -> Tensor:
        """The states of every position, [B, T, D]."""
        device = model.embedding.weight.device
        inputs = _inputs(model, layout, self.rows)
        if device.type == "cuda":  # else each copy would wait for the batch before it
            inputs = inputs.map_tensors(Tensor.pin_memory)
        return model.hidden_states(inputs.to(device)).states_BTD


def whole_batches(rows: Sequence[SharedRow], max_positions: int) -> Iterator[WholeRows]:
    """Rows in their order, as many at a time as fit when padded; one at least."""
    batch: list[SharedRow] = []
    longest = longest_source = n_sources = 0
    for row in rows:
        is_new = not batch or batch[-1].read.source != row.read.source
        longest = max(longest, len(row.read.tokens))
        longest_source = max(longest_source, len(row.read.source))
        n_positions = longest * (len(batch) + 1) + longest_source * (n_sources + is_new)
        if batch and n_positions > max_positions:
            yield WholeRows(batch)
            batch, n_sources, is_new = [], 0, True
            longest, longest_source = len(row.read.tokens), len(row.read.source)
        batch.append(row)
        n_sources += is_new
    if batch:
        yield WholeRows(batch)


def _inputs(model: Transformer, layout: ItemLayout, rows: Sequence[SharedRow]) -> Batch:
    pad = layout.vocabulary.pad
    prefixes = [row.read.prefix for row in rows]
    # Nothing sees padding behind it where no position looks ahead.
    needs_mask = looks_ahead(model.spec.stack.masks)
    inputs = padded_batch([row.read.tokens for row in rows], pad, prefixes, needs_mask)
    if layout.framing != "apart":
        return inputs
    numbers: dict[Ids, int] = {}
    source_rows = [numbers.setdefault(row.read.source, len(numbers)) for row in rows]
    sources = list(numbers)
    source = padded_batch(sources, pad, [len(tokens) for tokens in sources], needs_mask=True)
    return inputs.with_shared_source(source, torch.tensor(source_rows))


def padded_batch(
    sequences: Sequence[Ids], pad: int, prefixes: Sequence[int], needs_mask: bool
) -> Batch:
    """Sequences padded on the right; what all have in common is said once, which leaves a choice
    of faster kernels.
    """
    tokens, is_real = padded_tokens(sequences, pad)
    real_BT = None
    if needs_mask and not bool(is_real.all()):
        real_BT = is_real
    prefix: int | Tensor = prefixes[0]
    if len(set(prefixes)) > 1:
        prefix = torch.tensor(prefixes)
    return Batch.of(tokens, prefix=prefix, real_BT=real_BT)


def padded_tokens(sequences: Sequence[Ids], pad: int) -> tuple[Tensor, Tensor]:
    """Sequences padded on the right, and where they hold tokens."""
    lengths = np.array([len(sequence) for sequence in sequences])
    is_real = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.full(is_real.shape, pad, np.int64)
    tokens[is_real] = np.fromiter(chain.from_iterable(sequences), np.int64)
    return torch.from_numpy(tokens), torch.from_numpy(is_real)
