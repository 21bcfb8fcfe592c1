"""Rows of one pair each, any row of any epoch; a preference has two rows with the same source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.order import IntArray, shuffled_indices
from paribus.corpus.shards import Shard
from paribus.corpus.token_rows import LOOKUP_DOCUMENTS, TokenRows, sentence_numbers
from paribus.runtime import derive_seed


class MinRowLengths(NamedTuple):
    """The shortest rows that hold a whole target and at least one source token, for some pair
    and for every pair.
    """

    for_any_pair: int
    for_every_pair: int


@dataclass(frozen=True, eq=False)
class TurnIds:
    """What the ids after those of text stand for in a shard of conversations: the special tokens
    of a vocabulary.
    """

    n_text: int
    special_tokens: IntArray

    def vocabulary_ids(self, stored_ids: IntArray) -> IntArray:
        """Ids of a shard as a model knows them."""
        place = np.clip(stored_ids - self.n_text, 0, len(self.special_tokens) - 1)
        return np.where(stored_ids < self.n_text, stored_ids, self.special_tokens[place])


class _Places(NamedTuple):
    """Where the sources end in a shard and one target of each begins and ends, [B]; and how much
    of each source a row holds.
    """

    source_ends: IntArray
    starts: IntArray
    ends: IntArray
    n_source: IntArray


class _FilledRows(NamedTuple):
    tokens: IntArray
    is_real: NDArray[np.bool_]
    is_sentence_start: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PairRows:
    """Rows of one pair each: source, target, `eos`, padding. A source too long for its row
    loses its beginning.

    If the target leaves no room for its source, the row holds only the beginning of the target,
    and nothing in it is scored. `name` is part of the seed of every shuffle. `eos` ends a target:
    in conversations it is the end of a turn. The two targets of a preference have the same part of
    their source before them: what the longer one leaves room for. Where the shard shuffles its
    targets, a row holds the target that the shard puts beside its source.
    """

    shard: Shard
    name: str
    eos: int
    pad: int
    turn_ids: TurnIds | None = None  # None: the shard holds text alone

    @property
    def has_rejected(self) -> bool:
        """Whether a document has a second target, which is rejected."""
        return self.shard.pieces_per_document == 3

    def n_rows(self, length: int) -> int:
        """One row per pair, whatever the `length`; RunningText needs it."""
        return self.shard.n_documents

    def rows(self, seed: int, epoch: int, row_numbers: IntArray, length: int) -> TokenRows:
        pairs = shuffled_indices(
            row_numbers,
            self.shard.n_documents,
            derive_seed(seed, "corpus", self.name, "documents", epoch),
        )
        source_starts = self.shard.document_starts(pairs)
        source_ends = self.shard.target_starts(pairs)
        targets = self.shard.target_documents(pairs)
        target_starts = self.shard.target_starts(targets)
        document_ends = self.shard.document_starts(targets + 1)
        target_ends = document_ends
        longest = target_ends - target_starts
        if self.has_rejected:
            target_ends = self.shard.rejected_starts(targets)
            longest = np.maximum(target_ends - target_starts, document_ends - target_ends)
        # counts eos, which is cut off if the target alone fills the row
        n_target = np.minimum(longest + 1, length)
        n_source = np.minimum(source_ends - source_starts, length - n_target)
        rows = self._fill(_Places(source_ends, target_starts, target_ends, n_source), length)
        rejected = None
        if self.has_rejected:
            rejected = self._fill(
                _Places(source_ends, target_ends, document_ends, n_source), length
            )
        return TokenRows(
            tokens=rows.tokens,
            documents=np.zeros_like(rows.tokens),
            sentences=sentence_numbers(rows.is_sentence_start),
            is_real=rows.is_real,
            target_starts=n_source,
            rejected=None if rejected is None else rejected.tokens,
            rejected_is_real=None if rejected is None else rejected.is_real,
        )

    def _fill(self, places: _Places, length: int) -> _FilledRows:
        """Rows of source, target, `eos` and padding."""
        positions, n_source = np.arange(length), places.n_source[:, None]
        n_target = np.minimum(places.ends - places.starts + 1, length - places.n_source)
        is_real = positions < n_source + n_target[:, None]
        token_indices = np.where(
            positions < n_source,
            places.source_ends[:, None] - n_source + positions,
            places.starts[:, None] - n_source + positions,
        )
        is_eos = (positions >= n_source) & (token_indices == places.ends[:, None])
        token_indices = np.clip(token_indices, 0, max(self.shard.n_tokens - 1, 0))
        stored_ids = self.shard.tokens[token_indices].astype(np.int64)
        if self.turn_ids is not None:
            stored_ids = self.turn_ids.vocabulary_ids(stored_ids)
        tokens = np.where(is_eos, self.eos, stored_ids)
        tokens = np.where(is_real, tokens, self.pad)
        is_sentence_start = self.shard.begins_sentence(token_indices) & is_real & ~is_eos
        return _FilledRows(tokens, is_real, is_sentence_start)

    def n_truncated(self, length: int) -> int:
        """Pairs whose source is cut but not lost."""
        n_pairs = 0
        for sources, targets in self._pair_lengths():
            n_pairs += int(((targets < length) & (sources + targets > length)).sum())
        return n_pairs

    def n_unscored(self, length: int) -> int:
        """Pairs with no source token in the row, which are therefore not scored: there is no
        room for it, or the source has no token.
        """
        n_pairs = 0
        for sources, targets in self._pair_lengths():
            n_pairs += int(((targets >= length) | (sources == 0)).sum())
        return n_pairs

    @cached_property
    def min_row_lengths(self) -> MinRowLengths | None:
        """The shortest rows for the pairs whose source has a token; None if there is no such
        pair.
        """
        shortest, longest = [], []
        for sources, targets in self._pair_lengths():
            row_lengths = targets[sources > 0] + 1
            if len(row_lengths):
                shortest.append(int(row_lengths.min()))
                longest.append(int(row_lengths.max()))
        if shortest:
            return MinRowLengths(for_any_pair=min(shortest), for_every_pair=max(longest))
        return None

    @cached_property
    def longest_source(self) -> int:
        """Tokens of the longest source, whatever fits a row."""
        return max((int(sources.max()) for sources, _ in self._pair_lengths()), default=0)

    def longest_pairs(self, length: int) -> list[tuple[int, int]]:
        """Tokens of source and target, with its `eos`, of the longest pairs that are scored in rows
        of this length: every other has a source and a target that are no longer than those of one
        of these.
        """
        longest_sources = np.zeros(length, np.int64)  # by the tokens of the target
        for sources, targets in self._pair_lengths():
            fits = targets < length
            kept = np.minimum(sources[fits], length - targets[fits])
            np.maximum.at(longest_sources, targets[fits], kept)
        pairs, longest = [], 0
        for n_target in range(length - 1, 0, -1):
            n_source = int(longest_sources[n_target])
            if n_source > longest:
                pairs.append((n_source, n_target))
                longest = n_source
        return pairs

    def _pair_lengths(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Tokens of sources, and of targets with their eos, many pairs at a time; of two targets
        the longer one counts.
        """
        n_pieces = self.shard.pieces_per_document
        for first in range(0, self.shard.n_documents, LOOKUP_DOCUMENTS):
            # offsets go round: source, target, (rejected,) source, …
            offsets = self.shard.offsets[
                n_pieces * first : n_pieces * (first + LOOKUP_DOCUMENTS) + 1
            ]
            lengths = np.diff(offsets.astype(np.int64)).reshape(-1, n_pieces)
            targets = lengths[:, 1:].max(1)
            if self.shard.shuffle_key is not None:
                targets = self._shuffled_lengths(first, first + len(lengths))
            yield lengths[:, 0], targets + 1

    def _shuffled_lengths(self, first: int, last: int) -> IntArray:
        """Tokens of the targets that stand beside the sources of documents first … last-1."""
        documents = self.shard.target_documents(np.arange(first, last))
        return self.shard.document_starts(documents + 1) - self.shard.target_starts(documents)
