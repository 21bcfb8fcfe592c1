"""Texts to look at a model with: held-out documents, one a row, all of one length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from glob import has_magic
from pathlib import Path

import torch
from torch import Tensor

from paribus.canonical import canonical_hash
from paribus.corpus import TokenisedCorpus, document_text
from paribus.corpus.archives import bare_name
from paribus.errors import SpecError, UnsupportedError
from paribus.objectives.framing import Ids
from paribus.spec.corpus import Files, Source, gives_pairs
from paribus.spec.yardstick import HeldOutSplit

_WHOLE_DOCUMENT = 2**62  # tokens


@dataclass(frozen=True)
class ProbeText:
    """The beginning of a document as a model reads it, and where the document is from."""

    name: str
    domain: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ProbeTexts:
    """Texts of one length."""

    texts: tuple[ProbeText, ...]

    @property
    def length(self) -> int:
        return len(self.texts[0].tokens)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of the texts, in the order of first appearance."""
        return tuple(dict.fromkeys(text.domain for text in self.texts))

    @property
    def fingerprint(self) -> str:
        """Which documents these are, and how long."""
        return canonical_hash([self.length, *(text.name for text in self.texts)])

    @property
    def tokens_BT(self) -> Tensor:
        return torch.tensor([text.tokens for text in self.texts])

    def chunks(self, n_texts: int) -> Iterator[ProbeTexts]:
        """At most so many texts at a time."""
        for first in range(0, len(self.texts), n_texts):
            yield ProbeTexts(self.texts[first : first + n_texts])


def held_out_texts(
    encode: Callable[[str], Ids],
    corpus: TokenisedCorpus,
    n_texts: int,
    length: int,
    split: HeldOutSplit = "test",
) -> ProbeTexts:
    """The first `length` tokens of held-out documents, `n_texts` of each source.

    Documents are taken in the order of a hash of their text, so no seed and no other document moves
    them. Shorter ones are left out.
    """
    found: list[ProbeText] = []
    for number, source in enumerate(corpus.spec.sources):
        if gives_pairs(source):
            raise UnsupportedError(
                f"corpus.sources.{number} ({source.kind}) has pairs, which differ in length; give"
                " running text with --corpus SPEC"
            )
        domain = _domain_name(source)
        if any(text.domain == domain for text in found):
            domain = f"{domain} {number}"
        documents = _ordered_documents(corpus, split, number)
        found += _chosen_texts(encode, documents, domain, n_texts, length)
    return ProbeTexts(tuple(found))


def _domain_name(source: Source) -> str:
    """The kind of a source; of files, the name of the first, and of a glob that of its folder."""
    if not isinstance(source, Files):
        return source.kind
    path = Path(source.paths[0])
    while has_magic(path.name):
        path = path.parent
    return bare_name(path.name) or source.kind


@lru_cache(maxsize=8)  # every probe of a study reads the same documents
def _ordered_documents(
    corpus: TokenisedCorpus, split: HeldOutSplit, source: int
) -> tuple[tuple[str, str], ...]:
    """The name and the text of each held-out document of a source, by name; none comes twice."""
    texts: dict[str, str] = {}
    for number in range(corpus.readers[split][source].shard.n_documents):
        text = document_text(corpus, split, source, number, _WHOLE_DOCUMENT)[0]
        texts[canonical_hash(text)[:16]] = text
    return tuple(sorted(texts.items()))


def _chosen_texts(
    encode: Callable[[str], Ids],
    documents: Sequence[tuple[str, str]],
    domain: str,
    n_texts: int,
    length: int,
) -> list[ProbeText]:
    """The first documents that are long enough; SpecError where there are too few."""
    chosen: list[ProbeText] = []
    lengths: list[int] = []
    for name, text in documents:
        tokens = encode(text)
        lengths.append(len(tokens))
        if len(tokens) >= length:
            chosen.append(ProbeText(name, domain, tokens[:length]))
        if len(chosen) == n_texts:
            return chosen
    lengths.sort(reverse=True)
    raise SpecError(
        f"{domain} has {len(chosen)} held-out documents of {length} tokens or more, but"
        f" {n_texts} texts are asked for; {_advice(lengths, n_texts)}"
    )


def _advice(lengths: Sequence[int], n_texts: int) -> str:
    if len(lengths) < n_texts:
        return f"it has {len(lengths)} in all: ask for fewer texts, or name others with --corpus"
    return f"use --length {lengths[n_texts - 1]} or less, fewer texts, or name others with --corpus"
