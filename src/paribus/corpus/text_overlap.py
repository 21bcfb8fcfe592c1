"""Which texts stand in the training text of a corpus, however that is cut, tokenised or put in
form.

Case, white space and the punctuation of sentences do not count, nor do special tokens: `Ab=` → `c`
as a pair is `ab=c` as running text. Nor do the accents and the form of a character, nor characters
that nobody sees. A text may stand there backwards, too. What counts of it is how
much of it stands there, in bytes:

    32 or more     a quarter of its windows of 32 bytes
    8 to 31        all of it, in a row
    fewer than 8   a document of its own, of a pair the source and the target

A text of two parts, a question and its answer, also stands there if one of the parts does, by
itself or in other words. A part of fewer than 24 bytes proves nothing in a natural language, where
phrases recur: 1 window of 24 bytes in 300 of novels stands in other novels, and 1 of 16 in 9. Where
the texts are letters drawn at random, so that no two are alike, a quarter of the windows of 8 bytes
tells it.

A quarter, because a document that is cut elsewhere may lie on both sides of a split. A window of 32
bytes is six words of English: invented languages do not repeat one by chance, and prose repeats
some, but not a quarter of a text. What is shorter is found whole, or not at all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.dataset import TokenisedCorpus
from paribus.corpus.shards import Shard
from paribus.corpus.tokenizer import Tokenizer

WINDOW = 32  # bytes
SHORT_WINDOWS = (8, 16)  # at the start and the end of a text that has no whole window
FOUND_SHARE = 0.25  # of the windows of a text, from which on it stands there
TELLING_BYTES = 24  # of a part that is looked for alone
DRAWN_BYTES = 8  # of a part that is letters drawn at random, and of its windows
DRAWN_WINDOW = 5  # bytes
DRAWN_SHARE = 0.005  # of the windows of one text that others have: below it, letters are drawn
MIN_DRAWN_WINDOWS = 100  # fewer do not tell whether they are
CHUNK_TOKENS = 2**17
_FILTER_BITS = 22  # of a hash, by which most windows are passed over
_SPACE = 32  # stands for a special token
_PUNCTUATION = b".,;:!?'\"`_*#"  # of sentences; what stands for a number or an operation is text
_FIRST_OTHER_BYTE = 0x80  # from here on bytes are of characters beyond ASCII
_BROKEN = (0xDC80, 0xDCFF)  # stand for bytes that are no UTF-8
# white space, control and format characters, bytes that are no UTF-8, marks, quotes, punctuation
_UNCOUNTED = ("Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Mn", "Me", "Pi", "Pf", "Po")
_FIRST_SPECIAL_BYTE = 0xF8  # from here on no byte occurs in UTF-8
_FACTORS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)))
_SHIFT = np.uint64(29)
Bytes = NDArray[np.uint8]
Text = tuple[str, ...]  # in its parts, such as a question and its answer
Hashes = NDArray[np.uint64]
SeenHashes = dict[int, NDArray[np.bool_]]  # by the size of what is looked for: which was seen


class SoughtItem(NamedTuple):
    """One or several texts, any of which will do."""

    texts: Sequence[Text]
    is_drawn: bool = False  # letters drawn at random


@dataclass(frozen=True, eq=False)
class SoughtTexts:
    """Items to be looked for."""

    items: Sequence[SoughtItem]

    def seen_in(self, dataset: TokenisedCorpus) -> SeenHashes:
        """Which windows of the texts stand in the training text of a corpus."""
        seen = {size: np.zeros(len(own), bool) for size, own in self._wanted.items()}
        for data, bounds in _training_chunks(dataset):
            folded = _fold(data)
            counts = folded > 0
            own = folded[counts]
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
        for number, data, window in self._counted_texts():
            size = min(len(data), window)
            if size < SHORT_WINDOWS[0]:
                texts.append((number, size, _packed(data[None, :])))
            else:
                hashes = dict(_window_hashes(data, _width_of(size)))[_width_of(size)]
                shift = size - _width_of(size)
                texts.append((number, size, _joined(hashes[: len(hashes) - shift], hashes[shift:])))
        return texts

    def _counted_texts(self) -> Iterator[tuple[int, Bytes, int]]:
        """The number of each item, the bytes of its texts that count, forwards and backwards, and
        the size of their windows; then those of the parts that tell something by themselves.
        """
        for number, item in enumerate(self.items):
            least, window = (TELLING_BYTES, WINDOW)
            if item.is_drawn:
                least, window = (DRAWN_BYTES, DRAWN_BYTES)
            for parts in item.texts:
                sought = [("".join(parts), WINDOW)]
                if len(parts) > 1 or item.is_drawn:
                    told = [part for part in parts if len(_counted_bytes(part)) >= least]
                    sought += [(part, window) for part in told]
                for text, own_window in sought:
                    data = _counted_bytes(text)
                    backwards = _counted_bytes(text[::-1])
                    if len(data):
                        yield number, data, own_window
                    if not np.array_equal(data, backwards):
                        yield number, backwards, own_window

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
        for _, data, window in self._counted_texts():
            size = min(len(data), window)
            if size >= SHORT_WINDOWS[0]:
                width = _width_of(size)
                table = filters.setdefault(width, np.zeros(2**_FILTER_BITS, bool))
                hashes = dict(_window_hashes(data, width))[width]
                table[_filter_places(hashes[: len(data) - size + 1])] = True
        return filters


def are_drawn(items: Sequence[Sequence[Text]]) -> bool:
    """Are the texts of items letters drawn at random, so that no two have a few of them in a
    row?
    """
    windows: list[Bytes] = []
    for texts in dict.fromkeys(map(tuple, items)):
        data = _counted_bytes(" ".join("".join(parts) for parts in texts))
        if len(data) >= DRAWN_WINDOW:
            rows = np.lib.stride_tricks.sliding_window_view(data, DRAWN_WINDOW)
            windows.append(np.unique(rows, axis=0))
    if not windows:
        return False
    _, counts = np.unique(np.concatenate(windows), axis=0, return_counts=True)
    n_windows, n_shared = counts.sum(), counts[counts > 1].sum()
    return bool(n_windows >= MIN_DRAWN_WINDOWS and n_shared < DRAWN_SHARE * n_windows)


def _width_of(size: int) -> int:
    """The width of the windows with which a text of so many bytes begins and ends; 0 of one that
    is too short for any.
    """
    return max((width for width in (*SHORT_WINDOWS, WINDOW) if width <= size), default=0)


def _joined(starts: Hashes, ends: Hashes) -> Hashes:
    """Hashes of what begins and ends with windows."""
    return starts * _FACTORS[1] + ends


def _folding() -> Bytes:
    """What each byte counts as: letters without their case; 0 is what does not count."""
    folded = np.arange(256, dtype=np.uint8)
    folded[: _SPACE + 1] = 0
    folded[_FIRST_SPECIAL_BYTE:] = 0
    folded[list(_PUNCTUATION)] = 0
    for letter in range(ord("A"), ord("Z") + 1):
        folded[letter] = letter + ord("a") - ord("A")
    return folded


_FOLDED = _folding()


class _CharacterFolding:
    """What each character beyond ASCII counts as: in its plain form, without its case and marks.
    White space, format characters and punctuation count for nothing. What a form is longer than the
    character in UTF-8 is cut off, so that texts keep their places.
    """

    def __init__(self) -> None:
        self._rows = np.zeros((sys.maxunicode + 1, 4), np.uint8)
        self._is_known = np.zeros(sys.maxunicode + 1, bool)

    def rows(self, codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Of each character 4 bytes; 0 is what does not count."""
        for code in np.unique(codes[~self._is_known[codes]]).tolist():
            own = self._folded(chr(code))[:4]
            self._rows[code, : len(own)] = list(own)
        self._is_known[codes] = True
        return self._rows[codes]

    def _folded(self, character: str) -> bytes:
        plain = normalize("NFKD", normalize("NFKD", character).casefold())
        kept = ""
        for one in plain:
            if one.isascii() or category(one) not in _UNCOUNTED:
                kept += "-" if category(one) == "Pd" else one
        data = normalize("NFC", kept).encode()
        return bytes(_FOLDED[list(data)]).replace(b"\0", b"")


_CHARACTERS = _CharacterFolding()


def _fold(data: Bytes) -> Bytes:
    """Text in UTF-8 as it counts, each character in its place; 0 is what does not count."""
    folded = _FOLDED[data]
    places = np.flatnonzero(data >= _FIRST_OTHER_BYTE)
    if not len(places):
        return folded
    text = data[places].tobytes().decode(errors="surrogateescape")
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))
    is_broken = (codes >= _BROKEN[0]) & (codes <= _BROKEN[1])
    lengths = np.where(is_broken, 1, 2 + (codes >= 0x800) + (codes >= 0x10000))
    starts = lengths.cumsum() - lengths
    rows_N4 = _CHARACTERS.rows(codes)
    for number in range(4):
        has_byte = lengths > number
        folded[places[starts[has_byte] + number]] = rows_N4[has_byte, number]
    return folded


def _counted_bytes(text: str) -> Bytes:
    folded = _fold(np.frombuffer(text.encode(), np.uint8))
    return folded[folded > 0]


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
