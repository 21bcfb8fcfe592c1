"""Targets that share a context in one sequence: it is read once, and each target continues it over
the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from paribus.batch import to_device
from paribus.evaluate.tasks.read_rows import SharedRow, padded_batch, padded_tokens
from paribus.model import Transformer
from paribus.objectives.framing import Ids, ItemLayout
from paribus.spec.price import count_parameters

MIN_SAVED = 16  # tokens that a group of rows need not read
# Multiplications that a group saves from which on two passes pay (benchmarks/shared_contexts.py).
# A CUDA device saves less time than its host needs for the second pass: on an H200 2**42 were too
# few at contexts of several lengths.
MIN_WORK = {"cpu": 2**26, "cuda": 2**43}
EQUAL_SHARE = 4  # of a full batch, from which on it ends where contexts become longer


@dataclass(frozen=True, eq=False)
class ContextGroup:
    """Rows that begin with the same tokens, up to the first one that is scored in any of them."""

    context: Ids
    prefix: int
    rows: list[SharedRow]

    @property
    def n_saved(self) -> int:
        """How many tokens need not be read again."""
        return (len(self.rows) - 1) * len(self.context)

    @cached_property
    def longest(self) -> int:
        """How many tokens follow the context at most."""
        return max(len(row.read.tokens) for row in self.rows) - len(self.context)


@dataclass(frozen=True, eq=False)
class ContextRows:
    """Groups of rows whose contexts are read at once, and then what follows them."""

    groups: list[ContextGroup]

    @property
    def rows(self) -> list[SharedRow]:
        return [row for group in self.groups for row in group.rows]

    @property
    def starts(self) -> list[int]:
        """The position of the first state of each row: that of the last token of its context."""
        starts = []
        for group in self.groups:
            starts += [len(group.context) - 1] * len(group.rows)
        return starts

    @property
    def n_positions(self) -> int:
        """Positions that the rows would take if each was read whole, padded."""
        longest = max(len(group.context) + group.longest for group in self.groups)
        return longest * sum(len(group.rows) for group in self.groups)

    def states(self, model: Transformer, layout: ItemLayout) -> Tensor:
        """The states from the last token of each context on, [B, T, D]."""
        device, pad = model.embedding.weight.device, layout.vocabulary.pad
        contexts = [group.context for group in self.groups]
        prefixes = [group.prefix for group in self.groups]
        n_after = max(group.longest for group in self.groups)
        batch = padded_batch(contexts, pad, prefixes, needs_mask=True).to(device)
        out = model.read(batch, reserve=batch.layout.length + n_after)
        ends = torch.tensor([len(context) - 1 for context in contexts])
        last_GD = out.states_BTD[torch.arange(len(contexts)), ends]
        numbers, after = self._continuations()
        owner_B = torch.tensor(numbers)
        states_BTD = last_GD[owner_B][:, None].repeat(1, 1 + n_after, 1)
        going_on = [row for row, tokens in enumerate(after) if tokens]
        if going_on:
            cache = out.cache.select_rows([numbers[row] for row in going_on])
            tokens_BT, _ = padded_tokens([after[row] for row in going_on], pad)
            appended = model.append(to_device(device)(tokens_BT), cache)
            states_BTD[torch.tensor(going_on), 1:] = appended.states_BTD
        return states_BTD

    def _continuations(self) -> tuple[list[int], list[Ids]]:
        """Of each row, the number of its group, and the tokens after its context."""
        numbers, after = [], []
        for number, group in enumerate(self.groups):
            for row in group.rows:
                numbers.append(number)
                after.append(row.read.tokens[len(group.context) :])
        return numbers, after


def min_saved_tokens(model: Transformer) -> int:
    """How many tokens a group of rows must save, so that two passes are not slower than one."""
    counts = count_parameters(model.spec)
    n_used = counts.active - (counts.total - counts.non_embedding)
    work = MIN_WORK.get(model.embedding.weight.device.type, MIN_WORK["cuda"])
    return max(MIN_SAVED, work // max(n_used, 1))


def split_by_context(
    model: Transformer, layout: ItemLayout, rows: Sequence[SharedRow], min_saved: int
) -> tuple[list[ContextGroup], list[SharedRow]]:
    """Groups of rows that save so many tokens if their context is read once, the short contexts
    first, and the rows that are read whole.

    Whether a group is shared depends on nothing but its own rows. Where a model has no cache, none
    is.
    """
    if layout.framing not in ("together", "shifted") or not model.is_appendable:
        return [], list(rows)
    by_context: dict[tuple[Ids, int], ContextGroup] = {}
    for row in rows:
        n_context = min(one.first for one in row.scored) + 1
        context = row.read.tokens[:n_context]
        key = (context, row.read.prefix)
        if key not in by_context:
            by_context[key] = ContextGroup(context, row.read.prefix, [])
        by_context[key].rows.append(row)
    groups, alone = [], []
    for group in by_context.values():
        if group.n_saved >= min_saved:
            groups.append(group)
        else:
            alone += group.rows
    groups.sort(key=lambda group: (len(group.context), group.longest))
    return groups, alone


def context_batches(
    groups: Sequence[ContextGroup], max_positions: int, max_length: int
) -> Iterator[ContextRows]:
    """Groups in their order, as many at a time as fit; one at least. Contexts of one length have
    faster kernels, so a batch that is large enough has no longer one.
    """
    batch: list[ContextGroup] = []
    for group in groups:
        if batch and _is_full([*batch, group], max_positions, max_length):
            yield ContextRows(batch)
            batch = []
        batch.append(group)
    if batch:
        yield ContextRows(batch)


def _is_full(groups: list[ContextGroup], max_positions: int, max_length: int) -> bool:
    """Is the last of some groups one too many for a batch?"""
    n_positions = ContextRows(groups).n_positions
    if n_positions > max_positions:
        return True
    n_context = len(groups[-1].context)
    if n_context + max(group.longest for group in groups) > max_length:
        return True
    is_longer = n_context > len(groups[-2].context)
    return is_longer and n_positions > max_positions // EQUAL_SHARE
