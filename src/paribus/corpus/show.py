"""What a built corpus holds, for people: counts and samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from paribus.corpus.built import Built
from paribus.corpus.splits import Split


@dataclass(frozen=True)
class Holding:
    """One source's part of one split."""

    source: int
    kind: str
    share: float  # of the rows read
    split: Split
    n_documents: int
    n_tokens: int
    n_bytes: int


def holdings(built: Built) -> Iterator[Holding]:
    """Every source and split, in order."""
    total = sum(source.weight for source in built.corpus.sources)
    for number, (source, index) in enumerate(zip(built.corpus.sources, built.index.sources, strict=True)):
        for split, count in index.splits.items():
            share = source.weight / total
            yield Holding(number, source.kind, share, split, count.n_documents, count.n_tokens, count.n_bytes)


def document(built: Built, split: Split, source: int, number: int, max_tokens: int = 256) -> tuple[str, ...]:
    """The beginning of a document as it was read: its text, or the source and the target of a pair."""
    shard = built.readers[split][source].shard
    cuts = shard.cuts[number * shard.n_pieces : (number + 1) * shard.n_pieces + 1].astype(np.int64)
    pieces = (shard.tokens[first : min(last, first + max_tokens)] for first, last in pairwise(cuts.tolist()))
    return tuple(built.decode(piece.tolist()) for piece in pieces)
