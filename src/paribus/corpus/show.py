"""What a built corpus holds, for people: counts and samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from paribus.corpus.built import Built
from paribus.corpus.shards import Shard
from paribus.corpus.splits import Split
from paribus.errors import SpecError
from paribus.runtime import numbers


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


def remarks(built: Built, length: int) -> Iterator[str]:
    """What a person should be told of the text before it is read in rows of this length."""
    for number, source in enumerate(built.index.sources):
        counts = {
            f"{source.n_replaced} faults of UTF-8 were replaced": source.n_replaced,
            f"{source.n_empty} documents without a letter were left out": source.n_empty,
            f"{source.n_passed_over} files of other kinds were passed over": source.n_passed_over,
            f"{source.n_unknown} tokens stand for words that the tokenizer does not know": source.n_unknown,
            f"some {source.n_lost} letters have no token and are lost": source.n_lost,
        }
        for said, n in counts.items():
            if n:
                yield f"corpus.sources.{number} ({source.kind}): {said}"
    yield from cuts(built, length)


def cuts(built: Built, length: int) -> Iterator[str]:
    """What rows of this length leave out of the training pairs."""
    if n_cut := built.n_cut("train", length):
        yield f"{n_cut:,} pairs are longer than {length} tokens: the beginnings of their sources are left out"
    if n_unasked := built.n_unasked("train", length):
        yield (
            f"{n_unasked:,} pairs have targets of {length} tokens or more, with their end, which leave no room for a "
            f"source, or sources without a token: they are not asked"
        )


def document(built: Built, split: Split, source: int, number: int, max_tokens: int = 256) -> tuple[str, ...]:
    """The beginning of a document as it was read: its text, or the source and the target of a pair."""
    shard = built.readers[split][source].shard
    pieces = (shard.tokens[first : min(last, first + max_tokens)] for first, last in _pieces(shard, number))
    return tuple(built.decode(piece.tolist()) for piece in pieces)


def _pieces(shard: Shard, number: int) -> Iterator[tuple[int, int]]:
    cuts = shard.cuts[number * shard.n_pieces : (number + 1) * shard.n_pieces + 1].astype(np.int64)
    return pairwise(cuts.tolist())


@dataclass(frozen=True)
class Sample:
    """The beginning of a document drawn from a split: its pieces, and how many tokens each has in whole."""

    source: int
    kind: str
    number: int
    pieces: tuple[str, ...]
    lengths: tuple[int, ...]


def sampled(built: Built, split: Split, n: int, seed: int, max_tokens: int = 256) -> Iterator[Sample]:
    """So many different documents, or all there are: each of a source drawn by its share, any of its own as likely."""
    for source, number in _drawn(built, split, n, numbers(seed, "corpus", "sample", split)):
        lengths = (last - first for first, last in _pieces(built.readers[split][source].shard, number))
        pieces = document(built, split, source, number, max_tokens)
        yield Sample(source, built.corpus.sources[source].kind, number, pieces, tuple(lengths))


def _drawn(built: Built, split: Split, n: int, draws: np.random.Generator) -> Iterator[tuple[int, int]]:
    there = [reader.shard.n_documents for reader in built.readers[split]]
    if not any(there):
        raise SpecError(
            f"split {split!r} has no document; hold out a share such as corpus.valid = 0.05, or use another"
        )
    left = [draws.choice(count, min(n, count), replace=False).tolist() for count in there]
    for _ in range(min(n, sum(there))):
        weights = np.array([one.weight * bool(own) for one, own in zip(built.corpus.sources, left, strict=True)])
        source = int(draws.choice(len(left), p=weights / weights.sum()))
        yield source, left[source].pop()
