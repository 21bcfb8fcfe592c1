"""Nats of laid items, and whether each target is what the model would have said itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from paribus.batch import Batch
from paribus.evaluate.item_rows import ItemRow, item_rows
from paribus.evaluate.likelihood import MAX_POSITIONS
from paribus.model import Transformer
from paribus.objectives.framing import ItemLayout, LaidItem

# positions that are read at a time where no number of sequences is given
BATCH_POSITIONS = {"cuda": 2**16, "cpu": 2**12}
DEFAULT_POSITIONS = 2**14  # on other devices


@dataclass(frozen=True)
class ItemScore:
    """How surprised a model is by a target, and whether each of its tokens is the likeliest."""

    nats: float
    is_greedy: bool


@torch.no_grad()
def item_scores(
    model: Transformer,
    layout: ItemLayout,
    laid_items: Sequence[LaidItem],
    n_sequences: int | None = None,
) -> list[ItemScore]:
    """A score of each item, in their order; without a number of sequences, batches are as large
    as the device reads at ease.
    """
    nats = [0.0] * len(laid_items)
    is_greedy = [True] * len(laid_items)
    rows = item_rows(layout, laid_items)
    max_positions = BATCH_POSITIONS.get(model.embedding.weight.device.type, DEFAULT_POSITIONS)
    for batch in _batches(rows, n_sequences, max_positions):
        answers = iter(_answers(model, layout, batch))
        for row in batch:
            shared = [next(answers) for _ in row.shared_targets]
            shared_nats = sum(answer.nats for answer in shared)
            shared_greedy = all(answer.is_greedy for answer in shared)
            for number, _ in row.last_targets:
                last = next(answers)
                nats[number] += shared_nats + last.nats
                is_greedy[number] &= shared_greedy and last.is_greedy
    return [ItemScore(*score) for score in zip(nats, is_greedy, strict=True)]


def _batches(
    rows: Sequence[ItemRow], n_sequences: int | None, max_positions: int
) -> Iterator[list[ItemRow]]:
    """Rows in their order, as many at a time as are asked for, or as fit when padded."""
    batch: list[ItemRow] = []
    longest = 0
    for row in rows:
        longest = max(longest, row.n_positions)
        if n_sequences is None:
            is_full = longest * (len(batch) + 1) > max_positions
        else:
            is_full = len(batch) == n_sequences
        if batch and is_full:
            yield batch
            batch, longest = [], row.n_positions
        batch.append(row)
    if batch:
        yield batch


def _answers(model: Transformer, layout: ItemLayout, rows: Sequence[ItemRow]) -> list[ItemScore]:
    """Of each row its shared targets, then the last target of each item; logits are held for a
    few positions at a time.
    """
    device = model.embedding.weight.device
    places, positions, targets = [], [], []
    for place, row in enumerate(rows):
        last = row.read.first_scored + len(row.shared_targets)
        own = [*row.shared_targets, *(token for _, token in row.last_targets)]
        places += [place] * len(own)
        positions += [*range(row.read.first_scored, last), *[last] * len(row.last_targets)]
        targets += own
    states_BTD = model.hidden_states(_batch(rows, layout.vocabulary.pad).to(device)).states_BTD
    chosen = torch.tensor([places, positions, targets], device=device)
    states_MD = states_BTD[chosen[0], chosen[1]]
    nats, is_likeliest = [], []
    for some_states, some_targets in zip(
        states_MD.split(MAX_POSITIONS), chosen[2].split(MAX_POSITIONS), strict=True
    ):
        logits_MV = model.logits(some_states).float()
        own_M = logits_MV.gather(1, some_targets[:, None])[:, 0]
        nats.append(logits_MV.logsumexp(-1) - own_M)
        is_likeliest.append(logits_MV.argmax(-1) == some_targets)
    both = zip(torch.cat(nats).tolist(), torch.cat(is_likeliest).tolist(), strict=True)
    return [ItemScore(*score) for score in both]


def _batch(rows: Sequence[ItemRow], pad: int) -> Batch:
    source = None
    if rows[0].read.source:
        sources = [row.read.source for row in rows]
        source = _padded(sources, pad, [len(tokens) for tokens in sources])
    prefixes = [row.read.prefix for row in rows]
    return _padded([row.read.tokens for row in rows], pad, prefixes, source)


def _padded(
    sequences: Sequence[Sequence[int]],
    pad: int,
    prefixes: Sequence[int],
    source: Batch | None = None,
) -> Batch:
    """Sequences padded on the right; what all have in common is said once, which leaves a choice
    of faster kernels.
    """
    tokens_BT = pad_sequence(
        [torch.tensor(sequence) for sequence in sequences], batch_first=True, padding_value=pad
    )
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    real_BT: Tensor | None = torch.arange(tokens_BT.shape[1]) < lengths[:, None]
    if bool(real_BT.all()):
        real_BT = None
    prefix: int | Tensor = torch.tensor(prefixes)
    if len(set(prefixes)) == 1:
        prefix = prefixes[0]
    return Batch.of(tokens_BT, prefix=prefix, real_BT=real_BT, source=source)
