"""Nats of many targets at once: what several targets have in common is read once, and batches are
full.

`likelihoods` makes a `Problem` of each item. Tasks have a hundred thousand targets of a few tokens
each, so here whole batches are laid out with numpy, and the device is waited for once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import Batch, to_device
from paribus.masks import looks_ahead
from paribus.model import Transformer
from paribus.objectives import target_nats
from paribus.objectives.framing import Ids, ItemLayout, LaidItem
from paribus.spec.objectives import LastToken

# positions that are read at a time, and logits that are held
MAX_BATCH_POSITIONS = {"cuda": 2**16, "cpu": 2**12}
MAX_LOGITS = {"cuda": 2**27, "cpu": 2**21}


@dataclass(frozen=True, eq=False)
class TargetScores:
    """Of each item the nats of its target, and whether each token of it is the likeliest, where
    that was asked.
    """

    nats: NDArray[np.float64]
    is_greedy: NDArray[np.bool_] | None = None


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
class _SharedRow:
    """A row with all targets that are scored in it."""

    read: ReadRow
    scored: list[ScoredTarget]


@dataclass(frozen=True, eq=False)
class QueuedScores:
    """Scores that the device may still be working on."""

    n_items: int
    items_M: NDArray[np.int64]
    nats_M: Tensor
    is_likeliest_M: Tensor | None

    def result(self) -> TargetScores:
        """The scores; the device is waited for."""
        nats_M = self.nats_M.cpu().numpy().astype(np.float64)
        sums = np.bincount(self.items_M, nats_M, self.n_items).astype(np.float64)
        if self.is_likeliest_M is None:
            return TargetScores(sums)
        unlikely_M = (~self.is_likeliest_M).cpu().numpy()
        return TargetScores(sums, np.bincount(self.items_M, unlikely_M, self.n_items) == 0)


def target_scores(
    model: Transformer,
    layout: ItemLayout,
    laid_items: Sequence[LaidItem],
    max_positions: int | None = None,
    with_greedy: bool = False,
) -> TargetScores:
    """The score of each laid item, in their order, whatever the size of a batch."""
    return queue_scores(model, layout, laid_items, max_positions, with_greedy).result()


@torch.no_grad()
def queue_scores(
    model: Transformer,
    layout: ItemLayout,
    laid_items: Sequence[LaidItem],
    max_positions: int | None = None,
    with_greedy: bool = False,
) -> QueuedScores:
    """What `target_scores` gives, without waiting for the device: more can be prepared while it
    works.
    """
    device = model.embedding.weight.device
    rows = shared_rows(layout, laid_items)
    batch_size = max_positions or MAX_BATCH_POSITIONS.get(device.type, 2**14)
    nats: list[Tensor] = []
    is_likeliest: list[Tensor] = []
    items: list[NDArray[np.int64]] = []
    for batch in _batches(rows, batch_size):
        scored = _scored_tokens(batch)
        places, inputs = scored.places, _inputs(model, layout, batch)
        if device.type == "cuda":  # else each copy would wait for the batch before it
            places, inputs = places.pin_memory(), inputs.map_tensors(Tensor.pin_memory)
        states_BTD = model.hidden_states(inputs.to(device)).states_BTD
        for logits, targets in _logits(model, states_BTD, to_device(device)(places)):
            nats.append(target_nats(logits, targets))
            if with_greedy:
                is_likeliest.append(logits.argmax(-1) == targets)
        items.append(scored.items)
    return QueuedScores(
        n_items=len(laid_items),
        items_M=np.concatenate(items),
        nats_M=torch.cat(nats),
        is_likeliest_M=torch.cat(is_likeliest) if with_greedy else None,
    )


def shared_rows(layout: ItemLayout, laid_items: Sequence[LaidItem]) -> list[_SharedRow]:
    """The rows of all items, those of about one length side by side; a row that several items read
    is there once.
    """
    rows: dict[ReadRow, _SharedRow] = {}
    for number, item in enumerate(laid_items):
        for read, first, targets in read_tokens(layout, item):
            row = rows.get(read)
            if row is None:
                row = rows[read] = _SharedRow(read, [])
            row.scored.append(ScoredTarget(number, first, targets))
    return sorted(rows.values(), key=_reading_order)


def _reading_order(row: _SharedRow) -> tuple[int, Ids, int]:
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


def _batches(rows: Sequence[_SharedRow], max_positions: int) -> Iterator[list[_SharedRow]]:
    """Rows in their order, as many at a time as fit when padded; one at least."""
    batch: list[_SharedRow] = []
    longest = longest_source = n_sources = 0
    for row in rows:
        is_new = not batch or batch[-1].read.source != row.read.source
        longest = max(longest, len(row.read.tokens))
        longest_source = max(longest_source, len(row.read.source))
        n_positions = longest * (len(batch) + 1) + longest_source * (n_sources + is_new)
        if batch and n_positions > max_positions:
            yield batch
            batch, n_sources, is_new = [], 0, True
            longest, longest_source = len(row.read.tokens), len(row.read.source)
        batch.append(row)
        n_sources += is_new
    if batch:
        yield batch


@dataclass(frozen=True, eq=False)
class _ScoredTokens:
    """Every scored token of a batch: its row, position and id, [3, M], and its item."""

    places: Tensor
    items: NDArray[np.int64]


def _scored_tokens(rows: Sequence[_SharedRow]) -> _ScoredTokens:
    scored = [one for row in rows for one in row.scored]
    lengths = np.array([len(one.targets) for one in scored])
    row_numbers = np.repeat(np.arange(len(rows)), [len(row.scored) for row in rows])
    ends = lengths.cumsum()
    offset_M = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    firsts = np.array([one.first for one in scored])
    targets_M = np.fromiter(chain.from_iterable(one.targets for one in scored), np.int64)
    places = np.stack(
        [np.repeat(row_numbers, lengths), np.repeat(firsts, lengths) + offset_M, targets_M]
    )
    items = np.repeat(np.array([one.item for one in scored]), lengths)
    return _ScoredTokens(torch.from_numpy(places), items)


def _logits(
    model: Transformer, states_BTD: Tensor, places_3M: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits at scored positions alone, a few at a time, and the targets there."""
    row_M, position_M, target_M = places_3M
    states_MD = states_BTD[row_M, position_M]
    chunk = max(1, MAX_LOGITS.get(states_BTD.device.type, 2**24) // model.spec.n_vocab)
    for states, targets in zip(states_MD.split(chunk), target_M.split(chunk), strict=True):
        yield model.logits(states), targets


def _inputs(model: Transformer, layout: ItemLayout, rows: Sequence[_SharedRow]) -> Batch:
    pad = layout.vocabulary.pad
    prefixes = [row.read.prefix for row in rows]
    # Nothing sees padding behind it where no position looks ahead.
    needs_mask = looks_ahead(model.spec.stack.masks)
    inputs = _padded([row.read.tokens for row in rows], pad, prefixes, needs_mask)
    if layout.framing != "apart":
        return inputs
    numbers: dict[Ids, int] = {}
    source_rows = [numbers.setdefault(row.read.source, len(numbers)) for row in rows]
    sources = list(numbers)
    source = _padded(sources, pad, [len(tokens) for tokens in sources], needs_mask=True)
    return inputs.with_shared_source(source, torch.tensor(source_rows))


def _padded(sequences: Sequence[Ids], pad: int, prefixes: Sequence[int], needs_mask: bool) -> Batch:
    """Sequences padded on the right; what all have in common is said once, which leaves a choice
    of faster kernels.
    """
    lengths = np.array([len(sequence) for sequence in sequences])
    is_real = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.full(is_real.shape, pad, np.int64)
    tokens[is_real] = np.fromiter(chain.from_iterable(sequences), np.int64)
    real_BT = None
    if needs_mask and not is_real.all():
        real_BT = torch.from_numpy(is_real)
    prefix: int | Tensor = prefixes[0]
    if len(set(prefixes)) > 1:
        prefix = torch.tensor(prefixes)
    return Batch.of(torch.from_numpy(tokens), prefix=prefix, real_BT=real_BT)
