"""Texts over a cache: how they lie, and which of their tokens are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError
from paribus.masks import Rule, plan_growth
from paribus.model.cache import SourceKeys, StackCache
from paribus.model.linear import JoinedWeights
from paribus.model.slots import NO_PLACE, CachedTexts, IntArray


@dataclass(frozen=True, eq=False)
class Cache:
    """What a model keeps of texts: given to a forward pass and returned by it, never changed."""

    stack: StackCache
    source: SourceKeys | None = None
    weights: JoinedWeights = field(default_factory=JoinedWeights)

    @property
    def lengths(self) -> tuple[int, ...]:
        """How long each text is."""
        return self.stack.texts.lengths

    @property
    def n_bytes(self) -> int:
        """Bytes of keys and values in use."""
        n_source = 0
        if self.source is not None:
            for keys in self.source.layers.values():
                n_source += sum(tensor.nbytes for tensor in keys)
        return self.stack.n_bytes + n_source

    def select_rows(self, rows: Sequence[int]) -> Cache:
        """Some of the texts, in any order and any number of times each."""
        source = None if self.source is None else self.source.select_rows(rows)
        return Cache(self.stack.select_rows(rows), source, self.weights)


class CachedStates(NamedTuple):
    """The states of the tokens that were read, [B, T, D], the place of each in its text, -1 where
    padding, and the cache afterwards.
    """

    states_BTD: Tensor
    places_BT: IntArray
    cache: Cache


def texts_of(batch: Batch) -> CachedTexts:
    """How long the texts of a batch are, and their prefixes; padding must be on the right."""
    layout = batch.layout
    if batch.segments_BT is not None or batch.source_rows_B is not None:
        raise SpecError(
            "a cache holds texts of one segment, each with a source of its own; leave out"
            " segments_BT and source_rows_B"
        )
    if layout.documents_BT is not None or layout.positions_BT is not None or layout.start:
        raise SpecError(
            "a cache holds one document a row, counted from its beginning; leave out documents_BT,"
            " positions_BT and start"
        )
    n_sequences = layout.n_sequences
    lengths = [layout.length] * n_sequences
    if layout.real_BT is not None:
        lengths = layout.real_BT.sum(1).tolist()
        is_real = torch.arange(layout.length) < torch.tensor(lengths)[:, None]
        if not torch.equal(is_real, layout.real_BT.cpu()):
            raise SpecError("real_BT has padding before a token; with a cache, pad on the right")
    if isinstance(layout.prefix, Tensor):
        prefixes = layout.prefix.tolist()
    else:
        prefixes = [layout.prefix] * n_sequences
    return CachedTexts(tuple(lengths), tuple(prefixes))


def places_to_read(masks: Sequence[Rule], old: CachedTexts, new: CachedTexts) -> IntArray:
    """The places of each text that are read when it grows, padded on the right: [B, T]."""
    _require_growth(old, new)
    plans, rows = {}, []
    for row in range(new.n_sequences):
        growth = (old.lengths[row], old.prefixes[row], new.lengths[row], new.prefixes[row])
        if growth not in plans:
            plan = plan_growth(masks, old.layout(row), new.layout(row))
            plans[growth] = np.flatnonzero(plan.is_read)
        rows.append(plans[growth])
    places_BT = np.full((len(rows), max(map(len, rows))), NO_PLACE)
    for row, places in enumerate(rows):
        places_BT[row, : len(places)] = places
    return places_BT


def appended_places(old: CachedTexts, n_tokens: int) -> tuple[IntArray, CachedTexts]:
    """The places of as many tokens behind each text, and how the texts lie then."""
    places_BT = np.array(old.lengths)[:, None] + np.arange(n_tokens)
    lengths = tuple(length + n_tokens for length in old.lengths)
    return places_BT, CachedTexts(lengths, old.prefixes)


def tokens_at(batch: Batch, places_BT: IntArray) -> Tensor:
    """The tokens of each text at some places; of padding, any."""
    if (places_BT == np.arange(batch.layout.length)[None, : places_BT.shape[1]]).all():
        return batch.tokens_BT[:, : places_BT.shape[1]]
    index = torch.from_numpy(np.maximum(places_BT, 0)).to(batch.tokens_BT.device)
    return batch.tokens_BT.gather(1, index)


def _require_growth(old: CachedTexts, new: CachedTexts) -> None:
    if old.n_sequences != new.n_sequences:
        raise SpecError(
            f"the cache holds {old.n_sequences} texts beside {new.n_sequences}; give as many"
        )
    for before, after in zip(old.lengths, new.lengths, strict=True):
        if after <= before:
            raise SpecError(
                f"a text has {after} tokens, and the cache holds {before} of it; give a longer one"
            )
