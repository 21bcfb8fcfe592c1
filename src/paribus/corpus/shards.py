"""Tokens on disk: one run of them per source and split, memory-mapped when read.

N.split.tokens      ids in the smallest unsigned type that holds them
N.split.sentences   one bit a token: a sentence begins here
N.split.cuts        where pieces begin, and the end, as uint64: each document, or each source and
                    each target

In conversations and preferences, the ids after those of text are TURN_TOKENS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.order import MAX_CACHED_ORDER, IntArray, shuffled_indices
from paribus.spec.corpus import N_ROLE_TOKENS
from paribus.spec.languages import LanguageForm

# by what the documents of a source are
PIECES_PER_DOCUMENT: dict[LanguageForm, int] = {
    "text": 1,
    "pairs": 2,
    "conversations": 2,
    "preferences": 3,
}
TURN_FORMS: tuple[LanguageForm, ...] = ("conversations", "preferences")
SUFFIXES = ("tokens", "sentences", "cuts")


def token_dtype(n_ids: int) -> np.dtype[np.unsignedinteger]:
    if n_ids <= 2**8:
        return np.dtype(np.uint8)
    if n_ids <= 2**16:
        return np.dtype(np.uint16)
    return np.dtype(np.uint32)


def n_stored_ids(n_text: int, form: LanguageForm) -> int:
    """How many ids a shard of tokens may hold: turn tokens come after those of text."""
    if form in TURN_FORMS:
        return n_text + N_ROLE_TOKENS
    return n_text


class ShardWriter:
    """Appends tokens, their sentence bits and where their pieces end; a context, closed when
    left.
    """

    def __init__(self, stem: Path, n_ids: int):
        self.stem, self.dtype = stem, token_dtype(n_ids)
        self.n_tokens = self.n_pieces = 0
        self._bits = np.zeros(0, bool)  # those that do not fill a byte yet
        files = [open(f"{stem}.{suffix}", "wb") for suffix in SUFFIXES]  # noqa: SIM115
        self._tokens, self._sentences, self._offsets = files
        self._offsets.write(np.zeros(1, np.uint64).tobytes())

    def append(
        self,
        tokens: NDArray[np.integer],
        is_sentence_start: NDArray[np.bool_],
        lengths: NDArray[np.int64],
    ) -> None:
        """Tokens of whole pieces, each so long."""
        assert len(tokens) == len(is_sentence_start) == lengths.sum()
        self._tokens.write(np.ascontiguousarray(tokens, self.dtype).data)
        bits = np.concatenate([self._bits, is_sentence_start])
        whole = len(bits) // 8 * 8
        self._sentences.write(np.packbits(bits[:whole]).data)
        self._bits = bits[whole:]
        self._offsets.write((self.n_tokens + np.cumsum(lengths)).astype(np.uint64).data)
        self.n_tokens += len(tokens)
        self.n_pieces += len(lengths)

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sentences.write(np.packbits(self._bits).data)
        for file in (self._tokens, self._sentences, self._offsets):
            file.close()


@dataclass(frozen=True, eq=False)
class Shard:
    """One source's tokens of one split; a document has 1 piece in running text, 2 in pairs and
    conversations, 3 in preferences.
    """

    tokens: NDArray[np.unsignedinteger]
    sentence_bits: NDArray[np.uint8]
    offsets: NDArray[np.uint64]
    pieces_per_document: int
    shuffle_key: int | None = None  # of the targets; None: each stands beside its own source

    @staticmethod
    def from_files(
        stem: Path, n_ids: int, form: LanguageForm, shuffle_key: int | None = None
    ) -> Shard:
        tokens, sentences, cuts = (Path(f"{stem}.{suffix}") for suffix in SUFFIXES)
        return Shard(
            tokens=_memory_map(tokens, token_dtype(n_ids)),
            sentence_bits=_memory_map(sentences, np.dtype(np.uint8)),
            offsets=_memory_map(cuts, np.dtype(np.uint64)),
            pieces_per_document=PIECES_PER_DOCUMENT[form],
            shuffle_key=shuffle_key,
        )

    @property
    def n_documents(self) -> int:
        return (len(self.offsets) - 1) // self.pieces_per_document

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    def document_starts(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where documents begin; document n_documents is the end."""
        return self.offsets[documents * self.pieces_per_document].astype(np.int64)

    def chunks(self, n_tokens: int) -> Iterator[tuple[int, int]]:
        """Documents in runs of about so many tokens, each as the first and the one after the
        last.
        """
        starts = self.document_starts(np.arange(self.n_documents + 1))
        first = 0
        while first < self.n_documents:
            last = int(np.searchsorted(starts, starts[first] + n_tokens, "right")) - 1
            last = min(max(last, first + 1), self.n_documents)
            yield first, last
            first = last

    def document_tokens(self, first: int, last: int) -> NDArray[np.unsignedinteger]:
        """The tokens of a run of documents."""
        start, end = self.document_starts(np.array([first, last])).tolist()
        return self.tokens[start:end]

    def target_starts(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the targets of pairs begin."""
        assert self.pieces_per_document > 1
        return self.offsets[documents * self.pieces_per_document + 1].astype(np.int64)

    def target_documents(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """The documents whose targets stand beside the sources of these: they themselves, unless
        targets are shuffled.
        """
        if self.shuffle_key is None:
            return documents
        if self.n_documents > MAX_CACHED_ORDER:
            return shuffled_indices(documents, self.n_documents, self.shuffle_key)
        return self._target_order[documents]

    @cached_property
    def _target_order(self) -> IntArray:
        assert self.shuffle_key is not None
        numbers = np.arange(self.n_documents)
        return shuffled_indices(numbers, self.n_documents, self.shuffle_key)

    def piece_bounds(self, document: int) -> list[tuple[int, int]]:
        """Where each piece of a document begins and ends; a target is the one beside the
        source.
        """
        n_pieces = self.pieces_per_document
        offsets = self.offsets[n_pieces * document : n_pieces * (document + 1) + 1]
        bounds = list(pairwise(offsets.astype(np.int64).tolist()))
        if self.shuffle_key is not None:
            other = self.target_documents(np.array([document]))
            bounds[1] = (int(self.target_starts(other)[0]), int(self.document_starts(other + 1)[0]))
        return bounds

    def rejected_starts(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the rejected targets of preferences begin."""
        assert self.pieces_per_document == 3
        return self.offsets[documents * self.pieces_per_document + 2].astype(np.int64)

    def begins_sentence(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (self.sentence_bits[places >> 3] >> (7 - (places & 7)).astype(np.uint8) & 1).astype(
            bool
        )


def _memory_map(path: Path, kind: np.dtype) -> NDArray:
    """A file as an array whose pages are the kernel's; an empty file cannot be mapped."""
    if path.stat().st_size == 0:
        return np.zeros(0, kind)
    return np.asarray(np.memmap(path, kind, "r"))
