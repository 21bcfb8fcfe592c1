"""Texts over a cache, and sources beside them: how they lie, and which of their tokens are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError
from paribus.masks import (
    Rule,
    TextBesideSource,
    plan_growth,
    plan_source_growth,
    same_source_views,
)
from paribus.model.cache import StackCache, pad_slots
from paribus.model.linear import JoinedWeights
from paribus.model.slots import NO_PLACE, CachedTexts, IntArray
from paribus.model.source_keys import SourceKeys
from paribus.spec import MultiHead, Stack

BoolArray = NDArray[np.bool_]


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
        n_source = 0 if self.source is None else self.source.n_bytes
        return self.stack.n_bytes + n_source

    def select_rows(self, rows: Sequence[int]) -> Cache:
        """Some of the texts, in any order and any number of times each."""
        source = None if self.source is None else self.source.select_rows(rows)
        return Cache(self.stack.select_rows(rows), source, self.weights)

    def without_text(self) -> Cache:
        """The sources alone: for texts that begin anew beside them, such as the next answer."""
        return Cache(self.stack.emptied(), self.source, self.weights)


class CachedStates(NamedTuple):
    """The states of the tokens that were read, [B, T, D], the place of each in its text, -1 where
    padding, and the cache afterwards; the places of sources that were read, if there were any.
    """

    states_BTD: Tensor
    places_BT: IntArray
    cache: Cache
    source_places_BS: IntArray | None = None


class SourceGrowth(NamedTuple):
    """How sources lie after they grew, the places that are read, and by row which of the old ones
    keep their states.
    """

    texts: CachedTexts
    places_BS: IntArray
    is_unchanged: list[BoolArray]

    @property
    def is_whole(self) -> bool:
        """Is every token read?"""
        n_read = (self.places_BS != NO_PLACE).sum(1)
        return tuple(n_read.tolist()) == self.texts.lengths


def empty_cache(stack: Stack, n_sequences: int) -> StackCache:
    """What a stack keeps of texts before it has read any."""
    attention = stack.layers[0].attention
    n_kv_heads = 1  # a latent serves all heads
    if isinstance(attention, MultiHead):
        n_kv_heads = attention.n_kv_heads or attention.n_heads
    return StackCache.empty(stack.masks, n_sequences, n_kv_heads)


def texts_of(batch: Batch) -> CachedTexts:
    """How the texts of a batch lie; padding must be on the right."""
    layout = batch.layout
    if batch.segments_BT is not None or batch.source_rows_B is not None:
        raise SpecError(
            "a cache holds texts of one segment, each with a source of its own; leave out"
            " segments_BT and source_rows_B"
        )
    if layout.start or layout.places_BT is not None:
        raise SpecError(
            "a cache holds texts from their beginning; leave out start and places_BT of the layout"
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
    texts = CachedTexts(
        tuple(lengths),
        tuple(map(min, prefixes, lengths)),
        _numbers(layout.documents_BT),
        _numbers(layout.positions_BT),
    )
    for row in range(n_sequences):
        documents = texts.documents(row)
        if documents is not None and (np.diff(documents) < 0).any():
            raise SpecError(
                f"documents_BT of row {row} go back to an earlier document; with a cache, number"
                " documents in the order of their tokens"
            )
    return texts


def _numbers(tensor_BT: Tensor | None) -> IntArray | None:
    if tensor_BT is None:
        return None
    return tensor_BT.cpu().numpy().astype(np.int64)


def places_to_read(
    masks: Sequence[Rule],
    old: CachedTexts,
    new: CachedTexts,
    same_source: Sequence[BoolArray] | None = None,
) -> IntArray:
    """The places of each text that are read when it grows, padded on the right: [B, T].

    `same_source` says by row which layers see the same of a source as before, if it grew.
    """
    plans, rows = {}, []
    for row in range(new.n_sequences):
        growth = (old.lengths[row], old.prefixes[row], new.lengths[row], new.prefixes[row])
        is_plain = new.documents_BT is None and same_source is None
        if not is_plain or growth not in plans:
            views = None if same_source is None else same_source[row]
            plan = plan_growth(masks, old.layout(row), new.layout(row), views)
            plans[growth] = np.flatnonzero(plan.is_read)
        rows.append(plans[growth])
    return pad_slots(rows)


def source_growth(masks: Sequence[Rule], old: CachedTexts, new: CachedTexts) -> SourceGrowth:
    """What an encoder of these masks reads when sources grow."""
    require_growth(old, new, "source", least=0)
    rows, is_unchanged = [], []
    for row in range(new.n_sequences):
        plan = plan_source_growth(masks, old.layout(row), new.layout(row))
        rows.append(np.flatnonzero(plan.is_read))
        is_unchanged.append(plan.is_unchanged)
    return SourceGrowth(new, pad_slots(rows), is_unchanged)


def source_views(
    cross: Sequence[Rule | None], old: Cache, new: CachedTexts, source: SourceGrowth
) -> list[BoolArray]:
    """By row, which layers see the same of a source that grew: [layer, old position]."""
    assert old.source is not None
    views = []
    for row in range(new.n_sequences):
        before = TextBesideSource(old.stack.texts.layout(row), old.source.texts.layout(row))
        after = TextBesideSource(new.layout(row), source.texts.layout(row))
        views.append(same_source_views(cross, before, after, source.is_unchanged[row]))
    return views


def appended_places(old: CachedTexts, n_tokens: int) -> tuple[IntArray, CachedTexts]:
    """The places of as many tokens behind each text, and how the texts lie then."""
    places_BT = np.array(old.lengths)[:, None] + np.arange(n_tokens)
    return places_BT, old.append(n_tokens)


def tokens_at(batch: Batch, places_BT: IntArray) -> Tensor:
    """The tokens of each text at some places; of padding, any."""
    if (places_BT == np.arange(batch.layout.length)[None, : places_BT.shape[1]]).all():
        return batch.tokens_BT[:, : places_BT.shape[1]]
    index = torch.from_numpy(np.maximum(places_BT, 0)).to(batch.tokens_BT.device)
    return batch.tokens_BT.gather(1, index)


def require_growth(old: CachedTexts, new: CachedTexts, name: str, least: int) -> None:
    """SpecError if what a cache holds of texts or sources is not the beginning of the new ones, or
    they have too few new tokens.
    """
    if old.n_sequences != new.n_sequences:
        raise SpecError(
            f"the cache holds {old.n_sequences} {name}s beside {new.n_sequences}; give as many"
        )
    for row, (before, after) in enumerate(zip(old.lengths, new.lengths, strict=True)):
        if after < before + least:
            raise SpecError(
                f"a {name} has {after} tokens, and the cache holds {before} of it; give a longer"
                f" one{_remedy(name)}"
            )
        if before and not _is_same_beginning(old, new, row):
            raise SpecError(
                f"{name} {row} has other documents or positions than the cache holds of it; a"
                " token keeps those it was read with"
            )


def _remedy(name: str) -> str:
    if name == "source":
        return ", or no cache"
    return ", or cache.without_text()"


def _is_same_beginning(old: CachedTexts, new: CachedTexts, row: int) -> bool:
    """Do tokens that were read keep their documents and positions?"""
    length = old.lengths[row]
    before, after = old.documents(row), new.documents(row)
    documents = np.zeros(length) if before is None else before
    documents_now = np.zeros(length) if after is None else after[:length]
    positions, positions_now = old.positions(row), new.positions(row)[:length]
    return np.array_equal(documents, documents_now) and np.array_equal(positions, positions_now)
