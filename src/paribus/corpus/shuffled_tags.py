"""Tags dealt anew among the words of a source: each tag moves by itself, so that every word has
one, however long its sentence is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paribus.corpus.order import IntArray, shuffled_indices
from paribus.corpus.shards import Shard
from paribus.corpus.words import WORD_SEPARATOR


@dataclass(frozen=True, eq=False)
class ShuffledTags:
    """The tags of a shard of tagged sentences, in bytes, in the order of a shuffle by `key`."""

    shard: Shard
    key: int

    def tags(self, sentence: int) -> str:
        """The tags that the words of a sentence get, with a space between any two."""
        first, last = self._word_starts[sentence : sentence + 2].tolist()
        tags = []
        for place in self._order[first:last].tolist():
            other = int(np.searchsorted(self._word_starts, place, "right")) - 1
            start, end = self.shard.piece_bounds(other)[1]
            own = self.shard.tokens[start:end].tobytes().decode().split(WORD_SEPARATOR)
            tags.append(own[place - int(self._word_starts[other])])
        return WORD_SEPARATOR.join(tags)

    @cached_property
    def _word_starts(self) -> IntArray:
        """How many words there are before each sentence, and in all."""
        is_separator = self.shard.tokens == ord(WORD_SEPARATOR)
        before = np.concatenate([[0], is_separator.cumsum()])
        documents = np.arange(self.shard.n_documents)
        starts = self.shard.target_starts(documents)
        ends = self.shard.document_starts(documents + 1)
        n_tags = before[ends] - before[starts] + 1
        return np.concatenate([[0], n_tags.cumsum()])

    @cached_property
    def _order(self) -> IntArray:
        """The place of the tag that each word gets, counted over all sentences."""
        n_words = int(self._word_starts[-1])
        return shuffled_indices(np.arange(n_words), n_words, self.key)
