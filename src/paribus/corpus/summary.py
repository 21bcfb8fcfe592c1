"""What a built corpus holds, for people: counts and samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from paribus.corpus.conversations import Turn, parse_turns, readable_tokens
from paribus.corpus.dataset import TokenisedCorpus
from paribus.corpus.labelled_rows import LabelledCorpus
from paribus.corpus.shards import TURN_FORMS
from paribus.corpus.splits import Split
from paribus.errors import SpecError
from paribus.runtime import numpy_generator
from paribus.spec.objectives import Objective, TextLabels, WordTags


@dataclass(frozen=True)
class SplitCount:
    """One source's part of one split."""

    source: int
    kind: str
    share: float  # of the rows read
    split: Split
    n_documents: int
    n_tokens: int
    n_bytes: int


def split_counts(dataset: TokenisedCorpus) -> Iterator[SplitCount]:
    """Every source and split, in order."""
    total = sum(source.weight for source in dataset.spec.sources)
    for number, (source, index) in enumerate(
        zip(dataset.spec.sources, dataset.index.sources, strict=True)
    ):
        for split, count in index.splits.items():
            share = source.weight / total
            yield SplitCount(
                source=number,
                kind=source.kind,
                share=share,
                split=split,
                n_documents=count.n_documents,
                n_tokens=count.n_tokens,
                n_bytes=count.n_bytes,
            )


def corpus_remarks(
    dataset: TokenisedCorpus, length: int, objective: Objective | None = None
) -> Iterator[str]:
    """What a person should be told of the text before an objective reads it in rows of this
    length.
    """
    for number, source in enumerate(dataset.index.sources):
        counts = {
            f"{source.n_replaced} faults of UTF-8 were replaced": source.n_replaced,
            f"{source.n_empty} documents without a letter were left out": source.n_empty,
            f"{source.n_passed_over} files of other kinds were passed over": source.n_passed_over,
            f"{source.n_unknown} tokens stand for words that the tokenizer does not know": (
                source.n_unknown
            ),
            f"some {source.n_lost} letters have no token and are lost": source.n_lost,
        }
        for remark, n in counts.items():
            if n:
                yield f"corpus.sources.{number} ({source.kind}): {remark}"
    if dataset.spec.shuffled_targets:
        yield "the targets of training pairs are shuffled among their sources"
    yield from truncation_remarks(dataset, length, objective)


def truncation_remarks(
    dataset: TokenisedCorpus, length: int, objective: Objective | None = None
) -> Iterator[str]:
    """What rows of this length leave out of the training pairs, or of texts with labels."""
    if isinstance(objective, TextLabels | WordTags):
        if n_texts := LabelledCorpus(dataset, objective).n_truncated("train", length):
            yield (
                f"{n_texts:,} texts are longer than {length - 1} tokens: their ends are left out"
            )
        return
    if n_cut := dataset.n_truncated_pairs("train", length):
        yield (
            f"{n_cut:,} pairs are longer than {length} tokens: the beginnings of their sources are"
            " left out"
        )
    if n_unasked := dataset.n_unscored_pairs("train", length):
        yield (
            f"{n_unasked:,} pairs have targets of {length} tokens or more, with their end, which"
            " leave no room for a source, or sources without a token: they are not asked"
        )


def document_text(
    dataset: TokenisedCorpus, split: Split, source: int, number: int, max_tokens: int = 256
) -> tuple[str, ...]:
    """The beginning of a document as it was read: its text, or the source and the target of a
    pair, as they stand beside each other. What comes before a response has special tokens in it,
    by their names.
    """
    shard = dataset.readers[split][source].shard
    texts = []
    for first, last in shard.piece_bounds(number):
        tokens = shard.tokens[first : min(last, first + max_tokens)]
        if dataset.spec.form in TURN_FORMS:
            texts.append(readable_tokens(tokens.tolist(), dataset.tokenizer))
        else:
            texts.append(dataset.decode(tokens.tolist()))
    return tuple(texts)


def document_turns(
    dataset: TokenisedCorpus, split: Split, source: int, number: int
) -> tuple[Turn, ...]:
    """The turns before a response, or none where a document is no conversation."""
    if dataset.spec.form not in TURN_FORMS:
        return ()
    shard = dataset.readers[split][source].shard
    first, last = shard.piece_bounds(number)[0]
    return parse_turns(shard.tokens[first:last].tolist(), dataset.tokenizer)


@dataclass(frozen=True)
class DocumentSample:
    """The beginning of a document drawn from a split: its pieces, and how many tokens each has
    in whole.
    """

    source: int
    kind: str
    number: int
    pieces: tuple[str, ...]
    lengths: tuple[int, ...]


def sample_documents(
    dataset: TokenisedCorpus, split: Split, n: int, seed: int, max_tokens: int = 256
) -> Iterator[DocumentSample]:
    """So many different documents, or all there are: each of a source drawn by its share, any
    of its own as likely.
    """
    for source, number in _draw_documents(
        dataset, split, n, numpy_generator(seed, "corpus", "sample", split)
    ):
        bounds = dataset.readers[split][source].shard.piece_bounds(number)
        yield DocumentSample(
            source=source,
            kind=dataset.spec.sources[source].kind,
            number=number,
            pieces=document_text(dataset, split, source, number, max_tokens),
            lengths=tuple(last - first for first, last in bounds),
        )


def _draw_documents(
    dataset: TokenisedCorpus, split: Split, n: int, rng: np.random.Generator
) -> Iterator[tuple[int, int]]:
    counts = [reader.shard.n_documents for reader in dataset.readers[split]]
    if not any(counts):
        raise SpecError(
            f"split {split!r} has no document; hold out a share such as corpus.valid = 0.05, or use"
            " another"
        )
    numbers = [rng.choice(count, min(n, count), replace=False).tolist() for count in counts]
    shares = np.array([source.weight for source in dataset.spec.sources])
    for _ in range(min(n, sum(counts))):
        weights = shares * np.array(list(map(bool, numbers)))
        source = int(rng.choice(len(numbers), p=weights / weights.sum()))
        yield source, numbers[source].pop()
