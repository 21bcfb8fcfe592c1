"""Invented languages: a seed gives questions, and each question has one answer, known to anyone
who can read it.

A question ends with `=`, so that it and its answer can also stand in one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from random import Random
from string import ascii_lowercase, digits

from paribus.corpus.conversations import Turn, prompt_bytes
from paribus.corpus.documents import Document
from paribus.corpus.languages.grammar import draw_sentence, translate
from paribus.corpus.languages.linear import draw_examples, last_value
from paribus.runtime import derive_seed
from paribus.spec.languages import (
    SYMBOLS,
    ArithmeticLanguage,
    CopyLanguage,
    InventedLanguage,
    LinearLanguage,
    RecallLanguage,
    ReverseLanguage,
    SortLanguage,
    TranslationLanguage,
)
from paribus.watcher import Watcher

QUESTIONS_PER_STREAM = 1024  # questions drawn from one stream


def language_documents(language: InventedLanguage, progress: Watcher) -> Iterator[Document]:
    """All questions with their answers, in the form that the language is asked for."""
    with progress.stage(f"inventing {language.kind}", language.n_documents):
        for first in range(0, language.n_documents, QUESTIONS_PER_STREAM):
            block = first // QUESTIONS_PER_STREAM
            draw = Random(derive_seed(language.seed, "corpus", language.kind, block))
            # a stream of its own: every form of a language asks the same questions
            mistakes = Random(derive_seed(language.seed, "corpus", language.kind, block, "mistake"))
            together = min(QUESTIONS_PER_STREAM, language.n_documents - first)
            for _ in range(together):
                yield _document(language, draw_question(language, draw), mistakes)
            progress.advance(together)


def _document(language: InventedLanguage, question: str, mistakes: Random) -> Document:
    answer = language_answer(language, question)
    match language.form:
        case "pairs":
            return Document(question.encode(), answer.encode())
        case "text":
            return Document((question + answer).encode())
        case "conversations":
            return Document(prompt_bytes([Turn("user", question)]), answer.encode())
        case "preferences":
            mistaken = draw_mistake(language, answer, mistakes)
            prompt = prompt_bytes([Turn("user", question)])
            return Document(prompt, answer.encode(), mistaken.encode())


def draw_question(language: InventedLanguage, rng: Random) -> str:
    """A question drawn at random."""
    length = rng.randint(language.min_length, language.max_length)
    match language:
        case CopyLanguage() | ReverseLanguage() | SortLanguage():
            return _draw_letters(rng, language.n_symbols, length) + "="
        case RecallLanguage():
            keys = rng.sample(SYMBOLS[: language.n_symbols], length)
            values = _draw_letters(rng, language.n_symbols, length)
            return (
                "".join(a + b for a, b in zip(keys, values, strict=True)) + f"?{rng.choice(keys)}="
            )
        case LinearLanguage():
            return draw_examples(language, rng, length) + "="
        case TranslationLanguage():
            return draw_sentence(language, rng, length) + "="
        case ArithmeticLanguage():
            first, *others = [rng.randrange(language.modulus) for _ in range(length)]
            question = str(first)
            for number in others:
                question += f"{rng.choice(language.operations)}{number}"
            return question + "="


def language_answer(language: InventedLanguage, question: str) -> str:
    """The one right answer; ValueError where the question is none of this language."""
    if not question.endswith("="):
        raise ValueError(
            f"{question!r} does not end with '='; a question of {language.kind!r} does"
        )
    source = question[:-1]
    match language:
        case CopyLanguage():
            return source
        case ReverseLanguage():
            return source[::-1]
        case SortLanguage():
            return "".join(sorted(source, key=SYMBOLS.index))
        case RecallLanguage():
            pairs, key = source.split("?")
            return dict(zip(pairs[::2], pairs[1::2], strict=True))[key]
        case LinearLanguage():
            return last_value(language, source)
        case TranslationLanguage():
            return translate(language, source)
        case ArithmeticLanguage():
            return str(_arithmetic_value(source, language.modulus))


def draw_mistake(language: InventedLanguage, answer: str, rng: Random) -> str:
    """An answer with one letter changed for another that its language has."""
    letters = answer_letters(language)
    place = rng.randrange(len(answer))
    others = [letter for letter in letters if letter != answer[place]]
    return answer[:place] + rng.choice(others) + answer[place + 1 :]


def answer_letters(language: InventedLanguage) -> str:
    """The letters that answers of a language are written in."""
    match language:
        case ArithmeticLanguage():
            return digits
        case TranslationLanguage():
            return ascii_lowercase
        case LinearLanguage():
            return SYMBOLS[: language.modulus]
        case _:
            return SYMBOLS[: language.n_symbols]


def _draw_letters(rng: Random, n_symbols: int, length: int) -> str:
    return "".join(rng.choices(SYMBOLS[:n_symbols], k=length))


def _arithmetic_value(expression: str, modulus: int) -> int:
    total = 0
    for sign, term in re.findall(r"([+-]?)([0-9*]+)", expression):
        value = prod(map(int, term.split("*")))
        if sign == "-":
            total -= value
        else:
            total += value
    return total % modulus
