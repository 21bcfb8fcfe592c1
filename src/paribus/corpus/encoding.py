"""Shards of bytes into shards of tokens, and the text a tokenizer is trained on, a few
megabytes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.conversations import (
    TURN_TOKENS,
    holds_special_bytes,
    special_byte_name,
    split_at_special_bytes,
)
from paribus.corpus.formats import cut_position
from paribus.corpus.order import shuffled_indices
from paribus.corpus.shards import Shard, ShardWriter
from paribus.corpus.tokenizer import Encoding, Tokenizer
from paribus.watcher import Watcher

# bytes encoded at once; a longer piece is cut at a line or word, so that memory has a bound
CHUNK_BYTES = 2**16
LIBRARY_BATCH_BYTES = 2**21  # bytes handed to the library at once
MAX_TOKENIZER_TEXT = 2**27  # bytes a tokenizer is trained on


class Chunk(NamedTuple):
    """Bytes of one piece of a shard that are encoded at once: where they begin and end."""

    first: int
    end: int
    ends_piece: bool  # is it the last chunk of its piece?


def tokenizer_text(shards: list[Shard], progress: Watcher) -> Iterator[str]:
    """The text to train a tokenizer on: all of it, or where that is long whole pieces evenly
    from all of it.
    """
    share = min(1.0, MAX_TOKENIZER_TEXT / max(1, sum(shard.n_tokens for shard in shards)))
    for shard in shards:
        n_pieces = len(shard.offsets) - 1
        if share == 1:
            is_chosen = np.ones(n_pieces, bool)
        else:
            is_chosen = shuffled_indices(np.arange(n_pieces), n_pieces, 0) < share * n_pieces
        for number in np.flatnonzero(is_chosen).tolist():
            for first, last, _ in _piece_chunks(shard, number):
                progress.advance(last - first)
                for text in split_at_special_bytes(shard.tokens[first:last].tobytes()):
                    if special_byte_name(text) is None:
                        yield text.decode()


@dataclass
class LostText:
    """What a tokenizer did not write."""

    n_unknown: int = 0  # tokens that stand for words it does not know
    n_lost: int = 0  # letters that no token stands for


def encode_shard(
    shard: Shard, tokenizer: Tokenizer, writer: ShardWriter, progress: Watcher, losses: LostText
) -> None:
    """Every piece of a shard, in order."""
    waiting: list[Chunk] = []
    for number in range(len(shard.offsets) - 1):
        waiting += _piece_chunks(shard, number)
        n_bytes = waiting[-1].end - waiting[0].first
        if n_bytes >= LIBRARY_BATCH_BYTES:
            _encode_chunks(shard, tokenizer, writer, waiting, losses)
            progress.advance(n_bytes)
            waiting = []
    if waiting:
        _encode_chunks(shard, tokenizer, writer, waiting, losses)


def _piece_chunks(shard: Shard, number: int) -> Iterator[Chunk]:
    """One piece, cut where it is too long to be encoded at once."""
    first, end = int(shard.offsets[number]), int(shard.offsets[number + 1])
    while end - first > CHUNK_BYTES:
        last = first + cut_position(
            shard.tokens[first : first + CHUNK_BYTES + 1].tobytes(), 0, CHUNK_BYTES
        )
        yield Chunk(first, last, ends_piece=False)
        first = last
    yield Chunk(first, end, ends_piece=True)


def _encode_chunks(
    shard: Shard,
    tokenizer: Tokenizer,
    writer: ShardWriter,
    chunks: list[Chunk],
    losses: LostText,
) -> None:
    if tokenizer.is_bytes and not holds_special_bytes(_chunk_bytes(shard, chunks)):
        _copy_chunks(shard, writer, chunks)
        return
    texts = [shard.tokens[first:last].tobytes() for first, last, _ in chunks]
    length = 0
    ids, begins, lengths = [], [], []
    for text, (first, last, ends), encoding in zip(
        texts, chunks, _encode_texts(tokenizer, texts), strict=True
    ):
        starts = np.flatnonzero(shard.begins_sentence(np.arange(first, last)))
        ids.append(encoding.ids)
        begins.append(_begins_sentence(tokenizer, text, starts, encoding))
        length += len(encoding.ids)
        losses.n_lost += encoding.n_lost
        losses.n_unknown += (
            0 if tokenizer.unknown_id is None else int((encoding.ids == tokenizer.unknown_id).sum())
        )
        if ends:
            lengths.append(length)
            length = 0
    writer.append(np.concatenate(ids), np.concatenate(begins), np.array(lengths, np.int64))


def _chunk_bytes(shard: Shard, chunks: list[Chunk]) -> NDArray[np.unsignedinteger]:
    """All bytes of chunks that follow one another."""
    return shard.tokens[chunks[0].first : chunks[-1].end]


def _copy_chunks(shard: Shard, writer: ShardWriter, chunks: list[Chunk]) -> None:
    """Chunks whose bytes are their ids."""
    ends = [chunks[0].first] + [chunk.end for chunk in chunks if chunk.ends_piece]
    is_sentence_start = shard.begins_sentence(np.arange(ends[0], ends[-1]))
    writer.append(_chunk_bytes(shard, chunks), is_sentence_start, np.diff(ends))


def _encode_texts(tokenizer: Tokenizer, texts: list[bytes]) -> Iterator[Encoding]:
    """Each text in ids; around special bytes, each stretch of text by itself."""
    parted_texts = list(map(split_at_special_bytes, texts))
    stretches = []
    for pieces in parted_texts:
        stretches += [piece.decode() for piece in pieces if special_byte_name(piece) is None]
    encodings = tokenizer.encode_batch(stretches)
    for pieces in parted_texts:
        if len(pieces) == 1 and special_byte_name(pieces[0]) is None:
            yield next(encodings)
        else:
            yield _encode_turns(tokenizer, pieces, encodings)


def _encode_turns(
    tokenizer: Tokenizer, pieces: list[bytes], encodings: Iterator[Encoding]
) -> Encoding:
    """Stretches of text with turn tokens between them, which lie after the ids of text.

    Where sentences begin is not asked of conversations: no token is said to hold a letter.
    """
    ids, n_lost = [], 0
    for piece in pieces:
        name = special_byte_name(piece)
        if name is not None:
            ids.append(np.array([tokenizer.n_text + TURN_TOKENS.index(name)], np.int64))
        else:
            encoding = next(encodings)
            ids.append(encoding.ids)
            n_lost += encoding.n_lost
    whole = np.concatenate(ids)
    return Encoding(whole, np.zeros(len(whole), np.int64), n_lost)


def _begins_sentence(
    tokenizer: Tokenizer, text: bytes, starts: NDArray[np.int64], encoding: Encoding
) -> NDArray[np.bool_]:
    """Which tokens hold the first byte of a sentence."""
    begins = np.zeros(len(encoding.ids), bool)
    ends = encoding.ends
    if ends is None:
        ends = tokenizer.bytes_of_ids[encoding.ids].cumsum()
    else:
        letters = (np.frombuffer(text, np.uint8) & 0xC0 != 0x80).cumsum()
        starts = letters[starts] - 1
    indices = np.searchsorted(ends, starts, "right")
    begins[indices[indices < len(begins)]] = True
    return begins
