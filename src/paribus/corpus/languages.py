"""Invented languages: a seed gives questions, and each question has one answer, known to anyone who can read it.

A question ends with `=`, so that it and its answer can also stand in one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from random import Random

from paribus.corpus.documents import Document
from paribus.corpus.grammar import sentence, translated
from paribus.corpus.linear import examples, value
from paribus.corpus.progress import Progress
from paribus.runtime import key
from paribus.spec.corpus import (
    SYMBOLS,
    Arithmetic,
    Copy,
    Invented,
    Linear,
    Recall,
    Reverse,
    Sort,
    Translation,
)

N_TOGETHER = 1024  # questions drawn from one stream


def documents(language: Invented, progress: Progress) -> Iterator[Document]:
    """All questions with their answers, as pairs or as text."""
    with progress.stage(f"inventing {language.kind}", language.n_documents):
        for first in range(0, language.n_documents, N_TOGETHER):
            draw = Random(key(language.seed, "corpus", language.kind, first // N_TOGETHER))
            together = min(N_TOGETHER, language.n_documents - first)
            yield from (_document(language, question(language, draw)) for _ in range(together))
            progress.advance(together)


def _document(language: Invented, asked: str) -> Document:
    texts = asked.encode(), answer(language, asked).encode()
    return Document(*texts) if language.form == "pairs" else Document(b"".join(texts))


def question(language: Invented, draw: Random) -> str:
    """A question drawn at random."""
    length = draw.randint(language.min_length, language.max_length)
    match language:
        case Copy() | Reverse() | Sort():
            return _letters(draw, language.n_symbols, length) + "="
        case Recall():
            keys = draw.sample(SYMBOLS[: language.n_symbols], length)
            values = _letters(draw, language.n_symbols, length)
            return "".join(a + b for a, b in zip(keys, values, strict=True)) + f"?{draw.choice(keys)}="
        case Linear():
            return examples(language, draw, length) + "="
        case Translation():
            return sentence(language, draw, length) + "="
        case Arithmetic():
            first, *rest = (draw.randrange(language.modulus) for _ in range(length))
            return f"{first}" + "".join(f"{draw.choice(language.operations)}{number}" for number in rest) + "="


def answer(language: Invented, asked: str) -> str:
    """The one right answer; ValueError where the question is none of this language."""
    if not asked.endswith("="):
        raise ValueError(f"{asked!r} does not end with '='; a question of {language.kind!r} does")
    said = asked[:-1]
    match language:
        case Copy():
            return said
        case Reverse():
            return said[::-1]
        case Sort():
            return "".join(sorted(said, key=SYMBOLS.index))
        case Recall():
            known, wanted = said.split("?")
            return dict(zip(known[::2], known[1::2], strict=True))[wanted]
        case Linear():
            return value(language, said)
        case Translation():
            return translated(language, said)
        case Arithmetic():
            return str(_total(said, language.modulus))


def _letters(draw: Random, n_symbols: int, length: int) -> str:
    return "".join(draw.choices(SYMBOLS[:n_symbols], k=length))


def _total(said: str, modulus: int) -> int:
    terms = re.findall(r"([+-]?)([0-9*]+)", said)
    return sum((-1 if sign == "-" else 1) * prod(map(int, term.split("*"))) for sign, term in terms) % modulus
