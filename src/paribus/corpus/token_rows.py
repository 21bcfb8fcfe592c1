"""Rows of tokens out of a shard: any row of any epoch, found without reading those before it.

Running text. In each epoch the documents are shuffled and laid end to end, each followed by `eos`;
from a random offset this is cut into rows, which are shuffled again, so that neighbours in a batch
are no neighbours in a text. Each epoch drops fewer tokens than one row, at its start and end, and
different ones each time. Pairs are in `pair_rows`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.order import MAX_CACHED_ORDER, IntArray, shuffled_indices
from paribus.corpus.shards import Shard
from paribus.runtime import derive_seed

BLOCK_DOCUMENTS = 16  # documents between two entries of an epoch's index
LOOKUP_DOCUMENTS = 2**18  # documents read at a time when an epoch's index is built
N_CACHED_EPOCHS = 2  # a batch can span two epochs


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows as arrays of [B, T]; the fields from `is_real` on are None for running text."""

    tokens: IntArray
    documents: IntArray  # the document of each token, counted from 0 within the row
    sentences: IntArray  # the sentence of each token, counted from 0 within the row
    is_real: NDArray[np.bool_] | None = None  # False on padding
    target_starts: IntArray | None = None  # [B], where the target of each pair begins
    # of preferences, the source with the rejected target; else None
    rejected: IntArray | None = None
    rejected_is_real: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class EpochIndex:
    """The documents of an epoch in their shuffled order, in blocks of BLOCK_DOCUMENTS."""

    block_starts: IntArray  # where each block begins, in tokens from the start of the epoch
    document_order: IntArray | None  # None if there are more than MAX_CACHED_ORDER documents


@dataclass(frozen=True, eq=False)
class RunningText:
    """Rows of running text; `name` is part of the seed of every shuffle."""

    shard: Shard
    name: str
    eos: int
    _epochs: OrderedDict[tuple[int, int], EpochIndex] = field(
        default_factory=OrderedDict, repr=False
    )

    @property
    def n_tokens(self) -> int:
        """The tokens of one epoch, with an `eos` for each document."""
        return self.shard.n_tokens + self.shard.n_documents

    @cached_property
    def longest_document(self) -> int:
        """Tokens of the longest document, with its `eos`."""
        longest = 0
        for first in range(0, self.shard.n_documents, LOOKUP_DOCUMENTS):
            starts = self.shard.offsets[first : first + LOOKUP_DOCUMENTS + 1].astype(np.int64)
            longest = max(longest, int(np.diff(starts).max()))
        return longest + 1

    def n_rows(self, length: int) -> int:
        return self.n_tokens // length

    def rows(self, seed: int, epoch: int, row_numbers: IntArray, length: int) -> TokenRows:
        """The rows of an epoch with these numbers, 0 ≤ number < n_rows."""
        n_rows = self.n_rows(length)
        spare = self.n_tokens - n_rows * length
        offset = derive_seed(seed, "corpus", self.name, "offset", epoch) % (spare + 1)
        row_slots = shuffled_indices(
            row_numbers, n_rows, derive_seed(seed, "corpus", self.name, "rows", epoch)
        )
        return self._rows_at(seed, epoch, offset + row_slots * length, length)

    def _rows_at(self, seed: int, epoch: int, starts: IntArray, length: int) -> TokenRows:
        """The rows that begin at these tokens of an epoch's text, all at once.

        Arrays are by [row, candidate document] until `per_token` makes them [row, token].
        """
        index = self._cached_epoch(seed, epoch)
        first_blocks = np.searchsorted(index.block_starts, starts, "right") - 1
        last_blocks = np.searchsorted(index.block_starts, starts + length - 1, "right") - 1
        n_candidates = BLOCK_DOCUMENTS * int((last_blocks - first_blocks).max() + 1)
        document_ranks = first_blocks[:, None] * BLOCK_DOCUMENTS + np.arange(n_candidates)
        clamped_ranks = np.minimum(document_ranks, self.shard.n_documents - 1)
        if index.document_order is None:
            documents = self._documents_at(seed, epoch, clamped_ranks)
        else:
            documents = index.document_order[clamped_ranks]
        document_starts = self.shard.document_starts(documents)
        lengths = np.where(
            document_ranks < self.shard.n_documents,
            self.shard.document_starts(documents + 1) - document_starts + 1,
            0,
        )
        ends = index.block_starts[first_blocks][:, None] + lengths.cumsum(1)
        firsts = np.maximum(ends - lengths, starts[:, None])
        counts = np.maximum(np.minimum(ends, starts[:, None] + length) - firsts, 0)

        def per_token(values: IntArray) -> IntArray:
            return np.repeat(values.ravel(), counts.ravel()).reshape(-1, length)

        offset_in_document = starts[:, None] + np.arange(length) - per_token(ends - lengths)
        is_eos = offset_in_document == per_token(lengths) - 1
        token_indices = per_token(document_starts) + offset_in_document
        # the eos of the last document has no token in the shard
        token_indices = np.minimum(token_indices, max(self.shard.n_tokens - 1, 0))
        tokens = np.where(is_eos, self.eos, self.shard.tokens[token_indices].astype(np.int64))
        is_sentence_start = self.shard.begins_sentence(token_indices) & ~is_eos
        return TokenRows(
            tokens=tokens,
            documents=per_token((counts > 0).cumsum(1) - 1),
            sentences=sentence_numbers(is_sentence_start),
        )

    def _documents_at(self, seed: int, epoch: int, ranks: IntArray) -> IntArray:
        """The documents at these ranks of an epoch's shuffled order."""
        return shuffled_indices(
            ranks,
            self.shard.n_documents,
            derive_seed(seed, "corpus", self.name, "documents", epoch),
        )

    def _cached_epoch(self, seed: int, epoch: int) -> EpochIndex:
        """The index of an epoch; those of the latest two epochs are cached."""
        index = self._epochs.get((seed, epoch))
        if index is None:
            index = self._index_epoch(seed, epoch)
            self._epochs[seed, epoch] = index
            while len(self._epochs) > N_CACHED_EPOCHS:
                self._epochs.popitem(last=False)
        return index

    def _index_epoch(self, seed: int, epoch: int) -> EpochIndex:
        n_documents = self.shard.n_documents
        n_blocks = -(-n_documents // BLOCK_DOCUMENTS)
        sizes = np.zeros(n_blocks + 1, np.int64)  # tokens of each block, after a 0
        orders = []
        for first in range(0, n_documents, LOOKUP_DOCUMENTS):
            ranks = np.arange(first, min(first + LOOKUP_DOCUMENTS, n_documents))
            documents = self._documents_at(seed, epoch, ranks)
            starts = self.shard.document_starts(documents)
            lengths = self.shard.document_starts(documents + 1) - starts + 1
            block_sizes = np.add.reduceat(lengths, np.arange(0, len(lengths), BLOCK_DOCUMENTS))
            first_block = first // BLOCK_DOCUMENTS
            sizes[first_block + 1 : first_block + 1 + len(block_sizes)] = block_sizes
            if n_documents <= MAX_CACHED_ORDER:
                orders.append(documents)
        block_starts = sizes.cumsum()[:-1]
        if not orders:
            return EpochIndex(block_starts, None)
        return EpochIndex(block_starts, np.concatenate(orders))


def sentence_numbers(is_sentence_start: NDArray[np.bool_]) -> IntArray:
    """Sentence number of each token, from 0. A row's first token never starts a new number."""
    starts_new_number = is_sentence_start.copy()
    starts_new_number[:, 0] = False
    return starts_new_number.cumsum(1)
