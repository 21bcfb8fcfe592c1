"""Rows of tokens out of a shard: any row of any epoch, found without reading those before it.

Running text. In each epoch the documents are shuffled and laid end to end, each followed by `end`;
from a random offset this is cut into rows, which are shuffled again, so that neighbours in a batch
are no neighbours in a text. Fewer tokens than one row, at both ends, are left out of an epoch, each
time others. Pairs: one a row, shuffled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.order import Numbers, shuffled_indices
from paribus.corpus.shards import Shard
from paribus.runtime import derive_seed

BLOCK_DOCUMENTS = 16  # documents between two entries of an epoch's index
LOOKUP_DOCUMENTS = 2**18  # documents looked up at once when that is made
N_CACHED_EPOCHS = 2  # whose indices are kept: a batch may reach from one into the next
MAX_ORDERED = 2**20  # documents; up to so many, an epoch's order is computed once and cached


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows as arrays of [B, T]."""

    tokens: Numbers
    documents: Numbers
    sentences: Numbers
    real: NDArray[np.bool_] | None = None
    targets_from: Numbers | None = None


@dataclass(frozen=True, eq=False)
class EpochIndex:
    """Where each block of an epoch's documents begins, and in which order they come, if there
    are not too many.
    """

    block_starts: Numbers
    document_order: Numbers | None


@dataclass(frozen=True, eq=False)
class RunningText:
    """Rows of running text; `name` keys its shuffles."""

    shard: Shard
    name: str
    eos: int
    _epochs: OrderedDict[tuple[int, int], EpochIndex] = field(
        default_factory=OrderedDict, repr=False
    )

    @property
    def n_tokens(self) -> int:
        """Of one epoch, with an `end` for each document."""
        return self.shard.n_tokens + self.shard.n_documents

    def n_rows(self, length: int) -> int:
        return self.n_tokens // length

    def rows(self, seed: int, epoch: int, numbers: Numbers, length: int) -> TokenRows:
        """The rows of an epoch with these numbers, 0 ≤ number < n_rows."""
        n_rows = self.n_rows(length)
        spare = self.n_tokens - n_rows * length
        offset = derive_seed(seed, "corpus", self.name, "offset", epoch) % (spare + 1)
        places = shuffled_indices(
            numbers, n_rows, derive_seed(seed, "corpus", self.name, "rows", epoch)
        )
        return self._rows_at(seed, epoch, offset + places * length, length)

    def _rows_at(self, seed: int, epoch: int, starts: Numbers, length: int) -> TokenRows:
        """The stretches of an epoch's text that begin at these places: all rows at once, by
        [row, document].
        """
        kept = self._cached_epoch(seed, epoch)
        blocks = np.searchsorted(kept.block_starts, starts, "right") - 1
        last = np.searchsorted(kept.block_starts, starts + length - 1, "right") - 1
        n_documents = BLOCK_DOCUMENTS * int((last - blocks).max() + 1)
        places = blocks[:, None] * BLOCK_DOCUMENTS + np.arange(n_documents)
        there = np.minimum(places, self.shard.n_documents - 1)
        if kept.document_order is None:
            documents = self._document_order(seed, epoch, there)
        else:
            documents = kept.document_order[there]
        begins = self.shard.document_starts(documents)
        lengths = np.where(
            places < self.shard.n_documents,
            self.shard.document_starts(documents + 1) - begins + 1,
            0,
        )
        ends = kept.block_starts[blocks][:, None] + lengths.cumsum(1)
        firsts = np.maximum(ends - lengths, starts[:, None])
        counts = np.maximum(np.minimum(ends, starts[:, None] + length) - firsts, 0)

        def spread(values: Numbers) -> Numbers:
            return np.repeat(values.ravel(), counts.ravel()).reshape(-1, length)

        within = starts[:, None] + np.arange(length) - spread(ends - lengths)
        is_end = within == spread(lengths) - 1
        places = np.minimum(spread(begins) + within, max(self.shard.n_tokens - 1, 0))
        tokens = np.where(is_end, self.eos, self.shard.tokens[places].astype(np.int64))
        begins_sentence = self.shard.begins_sentence(places) & ~is_end
        return TokenRows(
            tokens=tokens,
            documents=spread((counts > 0).cumsum(1) - 1),
            sentences=_sentence_numbers(begins_sentence),
        )

    def _document_order(self, seed: int, epoch: int, places: Numbers) -> Numbers:
        return shuffled_indices(
            places,
            self.shard.n_documents,
            derive_seed(seed, "corpus", self.name, "documents", epoch),
        )

    def _cached_epoch(self, seed: int, epoch: int) -> EpochIndex:
        """The index of an epoch; those of the latest two epochs are cached."""
        index = self._epochs.get((seed, epoch))
        if index is None:
            index = self._epochs[seed, epoch] = self._index_epoch(seed, epoch)
            while len(self._epochs) > N_CACHED_EPOCHS:
                self._epochs.popitem(last=False)
        return index

    def _index_epoch(self, seed: int, epoch: int) -> EpochIndex:
        n_documents = self.shard.n_documents
        sizes = np.zeros(-(-n_documents // BLOCK_DOCUMENTS) + 1, np.int64)
        orders = []
        for first in range(0, n_documents, LOOKUP_DOCUMENTS):
            documents = self._document_order(
                seed, epoch, np.arange(first, min(first + LOOKUP_DOCUMENTS, n_documents))
            )
            lengths = (
                self.shard.document_starts(documents + 1)
                - self.shard.document_starts(documents)
                + 1
            )
            block_sizes = np.add.reduceat(lengths, np.arange(0, len(lengths), BLOCK_DOCUMENTS))
            sizes[1 + first // BLOCK_DOCUMENTS :][: len(block_sizes)] = block_sizes
            if n_documents <= MAX_ORDERED:
                orders.append(documents)
        block_starts = sizes.cumsum()[:-1]
        if not orders:
            return EpochIndex(block_starts, None)
        return EpochIndex(block_starts, np.concatenate(orders))


@dataclass(frozen=True, eq=False)
class PairRows:
    """Rows of one pair each: source, target, `end`, padding. A source too long for its row
    loses its beginning.

    A target that leaves no room for a source stands alone, as much of it as fits: it is read, and
    not asked for.
    """

    shard: Shard
    name: str
    eos: int
    pad: int

    def n_rows(self, length: int) -> int:
        return self.shard.n_documents

    def rows(self, seed: int, epoch: int, numbers: Numbers, length: int) -> TokenRows:
        pairs = shuffled_indices(
            numbers,
            self.shard.n_documents,
            derive_seed(seed, "corpus", self.name, "documents", epoch),
        )
        begins, targets, ends = (
            self.shard.document_starts(pairs),
            self.shard.target_starts(pairs),
            self.shard.document_starts(pairs + 1),
        )
        # with its end, unless that is cut off too
        n_target = np.minimum(ends - targets + 1, length)
        n_source = np.minimum(targets - begins, length - n_target)
        at = np.arange(length)
        real = at < (n_source + n_target)[:, None]
        places = (targets - n_source)[:, None] + at
        is_end = places == ends[:, None]
        places = np.clip(places, 0, self.shard.n_tokens - 1)
        tokens = np.where(
            real, np.where(is_end, self.eos, self.shard.tokens[places].astype(np.int64)), self.pad
        )
        sentences = _sentence_numbers(self.shard.begins_sentence(places) & real & ~is_end)
        return TokenRows(
            tokens=tokens,
            documents=np.zeros_like(tokens),
            sentences=sentences,
            real=real,
            targets_from=n_source,
        )

    def n_truncated(self, length: int) -> int:
        """How many pairs lose a part of their source, but not all of it, in rows of this length."""
        n_pairs = 0
        for sources, targets in self._pair_lengths():
            n_pairs += int(((targets < length) & (sources + targets > length)).sum())
        return n_pairs

    def n_unscored(self, length: int) -> int:
        """How many pairs show nothing of their source in rows of this length: no room for it,
        or no token in it.
        """
        n_pairs = 0
        for sources, targets in self._pair_lengths():
            n_pairs += int(((targets >= length) | (sources == 0)).sum())
        return n_pairs

    @cached_property
    def fitting_lengths(self) -> tuple[int, int] | None:
        """The shortest rows with room for a whole target and some of its source: of one pair,
        and of every pair.

        None where no pair has a source to be shown.
        """
        shortest, longest = [], []
        for sources, targets in self._pair_lengths():
            rooms = targets[sources > 0] + 1
            if len(rooms):
                shortest.append(int(rooms.min()))
                longest.append(int(rooms.max()))
        if shortest:
            return min(shortest), max(longest)
        return None

    def _pair_lengths(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Tokens of sources, and of targets with their ends, many at a time."""
        for first in range(0, self.shard.n_documents, LOOKUP_DOCUMENTS):
            lengths = np.diff(
                self.shard.offsets[2 * first : 2 * (first + LOOKUP_DOCUMENTS) + 1].astype(np.int64)
            )
            yield lengths[::2], lengths[1::2] + 1


def _sentence_numbers(begins: NDArray[np.bool_]) -> Numbers:
    """0 up to the first beginning after a row's first place, then one more at each."""
    begins[:, 0] = False
    return begins.cumsum(1)
