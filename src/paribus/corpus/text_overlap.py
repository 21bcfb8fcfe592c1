"""Which texts stand in the training text of a corpus, however that is cut, tokenised or put in
form.

White space does not count, nor do special tokens: `ab=` → `c` as a pair is `ab=c` as running text.
What counts of a text is how much of it stands there, in bytes:

    32 or more     half of its windows of 32 bytes
    8 to 31        all of it, in a row
    fewer than 8   a document of its own, of a pair the source and the target

Half, because a document that is cut elsewhere may lie on both sides of a split. A window of 32
bytes is six words of English: invented languages do not repeat one by chance, and prose repeats
some, but not half of a text. What is shorter is found whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.dataset import TokenisedCorpus
from paribus.corpus.shards import Shard
from paribus.corpus.tokenizer import Tokenizer

WINDOW = 32  # bytes
SHORT_WINDOWS = (8, 16)  # at the start and the end of a text that has no whole window
FOUND_SHARE = 0.5  # of the windows of a text, from which on it stands there
CHUNK_TOKENS = 2**17
_FILTER_BITS = 20  # of a hash, by which most windows are passed over
_SPACE = 32  # stands for a special token
_FIRST_SPECIAL_BYTE = 0xF8  # from here on no byte occurs in UTF-8
_FACTORS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)))
_SHIFT = np.uint64(29)
Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint64]
SeenHashes = dict[int, NDArray[np.bool_]]  # by the size of what is looked for: which was seen


@dataclass(frozen=True, eq=False)
class SoughtTexts:
    """Texts to be looked for: of each item one or several, any of which will do."""

    items: Sequence[Sequence[str]]

    def seen_in(self, dataset: TokenisedCorpus) -> SeenHashes:
        """Which windows of the texts stand in the training text of a corpus."""
        seen = {size: np.zeros(len(own), bool) for size, own in self._wanted.items()}
        for data, bounds in _training_chunks(dataset):
            counts = _is_counted(data)
            own = data[counts]
            if any(size < SHORT_WINDOWS[0] for size in seen):
                self._mark_documents(seen, own, counts, bounds)
            for width, hashes in _window_hashes(own, max(self._filters, default=0)):
                if width in self._filters:
                    places = np.flatnonzero(self._filters[width][_filter_places(hashes)])
                    self._mark_windows(seen, width, hashes, places)
        return seen

    def _mark_documents(
        self, seen: SeenHashes, own: Bytes, counts: NDArray[np.bool_], bounds: NDArray[np.int64]
    ) -> None:
        """Mark what whole documents hold that are shorter than any window."""
        n_before = np.concatenate([[0], counts.cumsum()])
        starts, lengths = n_before[bounds[:, 0]], n_before[bounds[:, 1]] - n_before[bounds[:, 0]]
        for size in range(1, SHORT_WINDOWS[0]):
            if size in seen:
                places_NT = starts[lengths == size, None] + np.arange(size)
                _mark(seen[size], self._wanted[size], _packed(own[places_NT]))

    def _mark_windows(
        self, seen: SeenHashes, width: int, hashes: Hashes, places: NDArray[np.intp]
    ) -> None:
        """Mark what begins with one of the windows at some places."""
        for size in seen:
            if _width_of(size) == width:
                there = places[places < len(hashes) - (size - width)]
                ends = there + (size - width)
                _mark(seen[size], self._wanted[size], _joined(hashes[there], hashes[ends]))

    def standing(self, seen: Sequence[SeenHashes]) -> list[bool]:
        """Of each item, whether it stands in texts of which these windows were seen."""
        union = {size: np.zeros(len(own), bool) for size, own in self._wanted.items()}
        for one in seen:
            for size, own in one.items():
                union[size] |= own
        stands = np.zeros(len(self.items), bool)
        for item, size, hashes in self._texts:
            places = np.searchsorted(self._wanted[size], hashes)
            stands[item] |= union[size][places].mean() >= FOUND_SHARE
        return stands.tolist()

    @cached_property
    def _texts(self) -> list[tuple[int, int, Hashes]]:
        """Of each text the number of its item, the size of what is looked for, and the hashes: of
        its windows, or of all of it.
        """
        texts = []
        for number, data in self._counted_texts():
            size = min(len(data), WINDOW)
            if size < SHORT_WINDOWS[0]:
                texts.append((number, size, _packed(data[None, :])))
            else:
                hashes = dict(_window_hashes(data, _width_of(size)))[_width_of(size)]
                shift = size - _width_of(size)
                texts.append((number, size, _joined(hashes[: len(hashes) - shift], hashes[shift:])))
        return texts

    def _counted_texts(self) -> Iterator[tuple[int, Bytes]]:
        """The bytes of each text that count, and the number of its item; not of an empty text."""
        for number, own in enumerate(self.items):
            for text in own:
                data = np.frombuffer(text.encode(), np.uint8)
                data = data[_is_counted(data)]
                if len(data):
                    yield number, data

    @cached_property
    def _wanted(self) -> dict[int, Hashes]:
        """The hashes that are looked for, by the size of what they are of, each once and sorted."""
        by_size: dict[int, list[Hashes]] = {}
        for _, size, hashes in self._texts:
            by_size.setdefault(size, []).append(hashes)
        return {size: np.unique(np.concatenate(own)) for size, own in by_size.items()}

    @cached_property
    def _filters(self) -> dict[int, NDArray[np.bool_]]:
        """By the width of a window: which beginnings of hashes what is looked for may begin with,
        by which most places are passed over.
        """
        filters: dict[int, NDArray[np.bool_]] = {}
        for _, data in self._counted_texts():
            size = min(len(data), WINDOW)
            if size >= SHORT_WINDOWS[0]:
                width = _width_of(size)
                table = filters.setdefault(width, np.zeros(2**_FILTER_BITS, bool))
                hashes = dict(_window_hashes(data, width))[width]
                table[_filter_places(hashes[: len(data) - size + 1])] = True
        return filters


def _width_of(size: int) -> int:
    """The width of the windows with which a text of so many bytes begins and ends; 0 of one that
    is too short for any.
    """
    return max((width for width in (*SHORT_WINDOWS, WINDOW) if width <= size), default=0)


def _joined(starts: Hashes, ends: Hashes) -> Hashes:
    """Hashes of what begins and ends with windows."""
    return starts * _FACTORS[1] + ends


def _is_counted(data: Bytes) -> NDArray[np.bool_]:
    return (data > _SPACE) & (data < _FIRST_SPECIAL_BYTE)


def _window_hashes(data: Bytes, largest: int) -> Iterator[tuple[int, Hashes]]:
    """The hashes of all windows of 8, 16 and 32 bytes, up to the largest size; of each, one a
    place.
    """
    size = SHORT_WINDOWS[0]
    if len(data) < size or largest < size:
        return
    own = np.ascontiguousarray(data)
    words = np.ndarray(len(own) - size + 1, np.dtype("<u8"), own.data, strides=(1,))
    hashes = words * _FACTORS[0]
    hashes ^= hashes >> _SHIFT
    yield size, hashes
    for factor in _FACTORS[1:]:
        if size >= largest or len(hashes) <= size:
            return
        hashes = hashes[:-size] * factor + hashes[size:]
        hashes ^= hashes >> _SHIFT
        size *= 2
        yield size, hashes


def _filter_places(hashes: Hashes) -> NDArray[np.intp]:
    return (hashes >> np.uint64(64 - _FILTER_BITS)).astype(np.intp)


def _mark(seen: NDArray[np.bool_], wanted: Hashes, hashes: Hashes) -> None:
    """Mark those of the wanted hashes that are among others."""
    places = np.searchsorted(wanted, hashes).clip(max=len(wanted) - 1)
    seen[places[wanted[places] == hashes]] = True


def _packed(data_NT: Bytes) -> Hashes:
    """Texts of fewer than 8 bytes, all of one length, each as one number."""
    packed_N = np.zeros(len(data_NT), np.uint64)
    for place in range(data_NT.shape[1]):
        packed_N |= data_NT[:, place].astype(np.uint64) << np.uint64(8 * place)
    return packed_N


def _training_chunks(dataset: TokenisedCorpus) -> Iterator[tuple[Bytes, NDArray[np.int64]]]:
    """The training text in bytes, about CHUNK_TOKENS tokens at a time, and where its documents
    begin and end there, with the target of a pair and without a rejected one.

    A window over the end of a document is one too: where a longer text was cut, it stands there.
    """
    to_bytes = _TokenBytes(dataset.tokenizer)
    for reader in dataset.readers["train"]:
        for first, last in reader.shard.chunks(CHUNK_TOKENS):
            bounds = _document_bounds(reader.shard, first, last)
            tokens = reader.shard.document_tokens(first, last)
            yield to_bytes.convert(tokens, bounds - bounds[0, 0])


def _document_bounds(shard: Shard, first: int, last: int) -> NDArray[np.int64]:
    n_pieces = shard.pieces_per_document
    starts = np.arange(first, last) * n_pieces
    ends = starts + min(n_pieces, 2)
    return shard.offsets[np.stack([starts, ends], axis=1)].astype(np.int64)


class _TokenBytes:
    """The bytes that the ids of a tokenizer stand for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def convert(
        self, tokens: NDArray[np.unsignedinteger], bounds: NDArray[np.int64]
    ) -> tuple[Bytes, NDArray[np.int64]]:
        """Tokens as bytes, and bounds in tokens as bounds in bytes."""
        n_text = self.tokenizer.n_text
        if self.tokenizer.is_bytes:
            return np.where(tokens < n_text, tokens, _SPACE).astype(np.uint8), bounds
        if not self.tokenizer.is_byte_level:
            return self._decode_documents(tokens, bounds)
        table, table_starts, table_lengths = self._table
        numbers = np.minimum(tokens.astype(np.int64), n_text)  # at the end, a space for the special
        lengths = table_lengths[numbers]
        ends = np.concatenate([[0], lengths.cumsum()])
        places = np.repeat(table_starts[numbers] - ends[:-1], lengths) + np.arange(ends[-1])
        return table[places], ends[bounds]

    def _decode_documents(
        self, tokens: NDArray[np.unsignedinteger], bounds: NDArray[np.int64]
    ) -> tuple[Bytes, NDArray[np.int64]]:
        """Documents one by one, where only the tokenizer itself knows what its ids stand for."""
        texts = [self.tokenizer.decode(tokens[i:j].tolist()).encode() for i, j in bounds.tolist()]
        ends = np.cumsum([0, *map(len, texts)])
        return np.frombuffer(b"".join(texts), np.uint8), np.stack([ends[:-1], ends[1:]], axis=1)

    @cached_property
    def _table(self) -> tuple[Bytes, NDArray[np.int64], NDArray[np.int64]]:
        words = [self.tokenizer.token_bytes(number) for number in range(self.tokenizer.n_text)]
        words.append(bytes([_SPACE]))
        lengths = np.array(list(map(len, words)), np.int64)
        return np.frombuffer(b"".join(words), np.uint8), lengths.cumsum() - lengths, lengths
