"""Nats of many targets at once: what several targets have in common is read once, and batches are
full.

`likelihoods` makes a `Problem` of each item. Tasks have a hundred thousand targets of a few tokens
each, so here whole batches are laid out with numpy, and the device is waited for once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import to_device
from paribus.evaluate.tasks.read_rows import WholeRows, shared_rows, whole_batches
from paribus.evaluate.tasks.shared_contexts import (
    ContextRows,
    context_batches,
    min_saved_tokens,
    split_by_context,
)
from paribus.model import Transformer
from paribus.objectives import target_nats
from paribus.objectives.framing import ItemLayout, LaidItem

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
    min_saved: int | None = None,
) -> TargetScores:
    """The score of each laid item, in their order, whatever the size of a batch.

    A context that several targets share is read once where that saves `min_saved` tokens; None: as
    many as make it worthwhile.
    """
    return queue_scores(model, layout, laid_items, max_positions, with_greedy, min_saved).result()


@torch.no_grad()
def queue_scores(
    model: Transformer,
    layout: ItemLayout,
    laid_items: Sequence[LaidItem],
    max_positions: int | None = None,
    with_greedy: bool = False,
    min_saved: int | None = None,
) -> QueuedScores:
    """What `target_scores` gives, without waiting for the device: more can be prepared while it
    works.
    """
    device = model.embedding.weight.device
    if min_saved is None:
        min_saved = min_saved_tokens(model)
    batch_size = max_positions or MAX_BATCH_POSITIONS.get(device.type, 2**14)
    nats: list[Tensor] = []
    is_likeliest: list[Tensor] = []
    items: list[NDArray[np.int64]] = []
    for batch in _batches(model, layout, laid_items, batch_size, min_saved):
        scored = _scored_tokens(batch)
        places = scored.places
        if device.type == "cuda":  # else each copy would wait for the batch before it
            places = places.pin_memory()
        states_BTD = batch.states(model, layout)
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


def _batches(
    model: Transformer,
    layout: ItemLayout,
    laid_items: Sequence[LaidItem],
    max_positions: int,
    min_saved: int,
) -> Iterator[WholeRows | ContextRows]:
    """What is read at a time: rows from their beginning, or contexts once and then what follows
    them.
    """
    rows = shared_rows(layout, laid_items)
    groups, alone = split_by_context(model, layout, rows, min_saved)
    yield from whole_batches(alone, max_positions)
    yield from context_batches(groups, max_positions, model.spec.max_length)


@dataclass(frozen=True, eq=False)
class _ScoredTokens:
    """Every scored token of a batch: its row, position and id, [3, M], and its item."""

    places: Tensor
    items: NDArray[np.int64]


def _scored_tokens(batch: WholeRows | ContextRows) -> _ScoredTokens:
    rows = batch.rows
    scored = [one for row in rows for one in row.scored]
    lengths = np.array([len(one.targets) for one in scored])
    n_scored = [len(row.scored) for row in rows]
    row_numbers = np.repeat(np.arange(len(rows)), n_scored)
    ends = lengths.cumsum()
    offset_M = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    firsts = np.array([one.first for one in scored]) - np.repeat(batch.starts, n_scored)
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
