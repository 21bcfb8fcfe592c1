"""What is trained on and what is held out: decided by a hash of each text, so that none is in
two.
"""

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
N_DIGEST = 16  # bytes
SEPARATOR = b"\xff"  # no byte of UTF-8: no sentence reaches over it


@dataclass(frozen=True, eq=False)
class SplitText:
    """A parcel's text of one split: its bytes, where sentences begin, and how long its pieces
    are.
    """

    text: NDArray[np.uint8]
    sentence_starts: NDArray[np.bool_]
    lengths: NDArray[np.int64]


def piece_digests(document: Document) -> list[bytes]:
    return [hashlib.blake2b(piece, digest_size=N_DIGEST).digest() for piece in document.pieces]


def split_of(digest: bytes, valid: float, test: float) -> Split:
    """Where a text with this digest belongs: the same text always to the same split.

    A pair goes by its source, so that no source of a held-out pair was trained on with another
    target.
    """
    place = int.from_bytes(digest[:8]) / 2**64
    if place < test:
        return "test"
    if place < test + valid:
        return "valid"
    return "train"


def assign_splits(
    documents: list[Document], valid: float, test: float
) -> tuple[bytes, dict[Split, SplitText]]:
    """The digests of documents, and their text by split."""
    marks: list[bytes] = []
    pieces: dict[Split, list[bytes]] = {}
    for document in documents:
        digest = piece_digests(document)
        marks += digest
        pieces.setdefault(split_of(digest[0], valid, test), []).extend(document.pieces)
    return b"".join(marks), {split: _split_text(texts) for split, texts in pieces.items()}


def _split_text(pieces: list[bytes]) -> SplitText:
    lengths = np.array(list(map(len, pieces)), np.int64)
    firsts = lengths.cumsum() - lengths
    apart = SEPARATOR.join(pieces)
    text = np.frombuffer(b"".join(pieces), np.uint8)
    begins = np.zeros(len(text), bool)
    starts = sentence_starts(apart)
    n_before = np.searchsorted(firsts + np.arange(len(pieces)), starts, "right") - 1
    begins[starts - n_before] = True
    begins[firsts] = True
    return SplitText(text, begins, lengths)
