"""Assigns each text to train, valid or test by its hash, so that no text is in two splits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.documents import Document
from paribus.corpus.sentences import sentence_starts

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
DIGEST_BYTES = 16
SEPARATOR = b"\xff"  # never occurs in UTF-8, so no sentence can span two pieces


@dataclass(frozen=True, eq=False)
class SplitText:
    """The text of one split, its pieces concatenated: the bytes, a mask of sentence starts (one
    per byte), and the bytes per piece.

    A piece is a whole text, or the source or a target of it.
    """

    text_bytes: NDArray[np.uint8]
    is_sentence_start: NDArray[np.bool_]
    piece_lengths: NDArray[np.int64]


def piece_digests(document: Document) -> list[bytes]:
    """One digest for each piece."""
    return list(map(_digest, document.pieces))


def _digest(piece: bytes) -> bytes:
    return hashlib.blake2b(piece, digest_size=DIGEST_BYTES).digest()


def split_digest(document: Document) -> bytes:
    """The digest that decides which split a document is in.

    A pair is assigned by its source alone, so a source in valid or test never occurs in train with
    another target. The responses of one conversation stay together.
    """
    if document.split_by is None:
        return _digest(document.text)
    return _digest(document.split_by)


def split_of(digest: bytes, valid_share: float, test_share: float) -> Split:
    """The split of a text with this digest: the same text is always in the same split."""
    fraction = int.from_bytes(digest[:8]) / 2**64
    if fraction < test_share:
        return "test"
    if fraction < test_share + valid_share:
        return "valid"
    return "train"


def assign_splits(
    documents: list[Document], valid_share: float, test_share: float
) -> tuple[bytes, dict[Split, SplitText]]:
    """Returns (the digests of all pieces, joined; the text of each split). No piece may be
    empty.
    """
    digests: list[bytes] = []
    pieces: dict[Split, list[bytes]] = {}
    for document in documents:
        digests += piece_digests(document)
        split = split_of(split_digest(document), valid_share, test_share)
        pieces.setdefault(split, []).extend(document.pieces)
    return b"".join(digests), {split: _split_text(texts) for split, texts in pieces.items()}


def _split_text(pieces: list[bytes]) -> SplitText:
    lengths = np.array(list(map(len, pieces)), np.int64)
    assert lengths.all()  # `batch_documents` leaves out documents with an empty piece
    piece_starts = lengths.cumsum() - lengths
    text_bytes = np.frombuffer(b"".join(pieces), np.uint8)
    is_sentence_start = np.zeros(len(text_bytes), bool)
    is_sentence_start[piece_starts] = True
    joined_text = SEPARATOR.join(pieces)
    joined_starts = sentence_starts(joined_text)
    joined_piece_starts = piece_starts + np.arange(len(pieces))
    n_separators_before = np.searchsorted(joined_piece_starts, joined_starts, "right") - 1
    # positions in joined_text, minus the separators before them
    is_sentence_start[joined_starts - n_separators_before] = True
    return SplitText(text_bytes, is_sentence_start, lengths)
