"""Invented languages: a seed gives questions, and each question has one answer, known to anyone
who can read it.

A question is a source and a sign after it, `=` unless the language has phrasings, so that it and
its answer can also stand in one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from random import Random
from string import ascii_lowercase, digits

from paribus.corpus.conversations import ASSISTANT, Turn, conversation_documents, prompt_bytes
from paribus.corpus.documents import Document
from paribus.corpus.languages.episodes import draw_episode, episode_answer, episode_letters
from paribus.corpus.languages.follow_ups import draw_follow_up, follow_up_answer, sort_letters
from paribus.corpus.languages.grammar import draw_sentence, translate
from paribus.corpus.languages.linear import draw_examples, last_value
from paribus.errors import SpecError
from paribus.runtime import derive_seed
from paribus.spec.languages import (
    PLAIN_PHRASINGS,
    SYMBOLS,
    ArithmeticLanguage,
    CopyLanguage,
    EpisodeLanguage,
    InventedLanguage,
    LinearLanguage,
    RecallLanguage,
    ReverseLanguage,
    SortLanguage,
    TranslationLanguage,
)
from paribus.spec.templates import render
from paribus.watcher import Watcher

QUESTIONS_PER_STREAM = 1024  # questions drawn from one stream


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A source, the question as it is put, its answer, and the documents of all of it: one for
    each answer of a conversation, otherwise one.
    """

    source: str
    question: str
    answer: str
    documents: tuple[Document, ...]
    follow_ups: tuple[tuple[str, str], ...] = ()  # what is asked next, each with its answer

    @property
    def exchanges(self) -> tuple[tuple[str, str], ...]:
        """All that a user says, in order, each with its answer."""
        return ((self.question, self.answer), *self.follow_ups)


def language_documents(language: InventedLanguage, progress: Watcher) -> Iterator[Document]:
    """All questions with their answers, in the form that the language is asked for."""
    for question in language_questions(language, progress):
        yield from question.documents


def language_questions(language: InventedLanguage, progress: Watcher) -> Iterator[AnsweredQuestion]:
    """All questions of a language, in their order."""
    with progress.stage(f"inventing {language.kind}", language.n_documents):
        for block, size in enumerate(block_sizes(language)):
            yield from _block_questions(language, block)
            progress.advance(size)


def block_sizes(language: InventedLanguage) -> list[int]:
    """How many questions each block has, which are drawn from one stream."""
    n_whole, rest = divmod(language.n_documents, QUESTIONS_PER_STREAM)
    return [QUESTIONS_PER_STREAM] * n_whole + [rest] * bool(rest)


def block_documents(language: InventedLanguage, block: int) -> Iterator[Document]:
    """The documents of one block."""
    for question in _block_questions(language, block):
        yield from question.documents


def _block_questions(language: InventedLanguage, block: int) -> Iterator[AnsweredQuestion]:
    draw = Random(derive_seed(language.seed, "corpus", language.kind, block))
    # streams of their own: every form and phrasing of a language has the same sources
    mistakes = Random(derive_seed(language.seed, "corpus", language.kind, block, "mistake"))
    phrasings = Random(derive_seed(language.seed, "corpus", language.kind, block, "phrasing"))
    follow_ups = Random(derive_seed(language.seed, "corpus", language.kind, block, "follow-up"))
    for _ in range(block_sizes(language)[block]):
        source = draw_source(language, draw)
        phrasing = phrasings.choice(language.phrasings)
        question = _answered_question(language, source, phrasing, mistakes)
        if language.max_turns > 1:
            question = _continued(language, question, follow_ups)
        yield question


def _answered_question(
    language: InventedLanguage, source: str, phrasing: str, mistakes: Random
) -> AnsweredQuestion:
    question, answer = render(phrasing, {"source": source}), source_answer(language, source)
    _require_readable(language, question, source)
    split_by = None
    if language.phrasings != PLAIN_PHRASINGS or language.form in ("conversations", "preferences"):
        split_by = render(*PLAIN_PHRASINGS, {"source": source}).encode()  # as of plain pairs
    text, target = question.encode(), answer.encode()
    match language.form:
        case "pairs":
            document = Document(text, target, split_by=split_by)
        case "text":
            document = Document(text + target, split_by=split_by)
        case "conversations":
            prompt = prompt_bytes([Turn("user", question)])
            document = Document(prompt, target, split_by=split_by)
        case "preferences":
            prompt = prompt_bytes([Turn("user", question)])
            mistaken = draw_mistake(language, answer, mistakes).encode()
            document = Document(prompt, target, mistaken, split_by=split_by)
    return AnsweredQuestion(source, question, answer, (document,))


def _continued(
    language: InventedLanguage, question: AnsweredQuestion, rng: Random
) -> AnsweredQuestion:
    """A question with what is asked after it. All its answers are in the split of the source."""
    follow_ups: list[tuple[str, str]] = []
    answer = question.answer
    for _ in range(rng.randint(language.min_turns, language.max_turns) - 1):
        message = draw_follow_up(language, question.source, rng)
        answer = follow_up_answer(language, question.source, answer, message)
        follow_ups.append((message, answer))
    continued = replace(question, follow_ups=tuple(follow_ups))
    turns: list[Turn] = []
    for message, response in continued.exchanges:
        turns += [Turn("user", message), Turn(ASSISTANT, response)]
    split_by = question.documents[0].split_by
    documents = [replace(one, split_by=split_by) for one in conversation_documents(turns)]
    return replace(continued, documents=tuple(documents))


def _require_readable(language: InventedLanguage, question: str, source: str) -> None:
    """SpecError where a question could be another one in another phrasing."""
    if len(language.phrasings) > 1 and question_source(language, question) != source:
        raise SpecError(
            f"language {language.kind!r} has phrasings that make {question!r} of two different"
            " sources; use phrasings that can be told apart"
        )


def draw_source(language: InventedLanguage, rng: Random) -> str:
    """The source of a question, drawn at random."""
    length = rng.randint(language.min_length, language.max_length)
    match language:
        case CopyLanguage() | ReverseLanguage() | SortLanguage():
            return _draw_letters(rng, language.n_symbols, length)
        case RecallLanguage():
            keys = rng.sample(SYMBOLS[: language.n_symbols], length)
            values = _draw_letters(rng, language.n_symbols, length)
            pairs = "".join(a + b for a, b in zip(keys, values, strict=True))
            return f"{pairs}?{rng.choice(keys)}"
        case LinearLanguage():
            return draw_examples(language, rng, length)
        case EpisodeLanguage():
            return draw_episode(language, rng, length)
        case TranslationLanguage():
            return draw_sentence(language, rng, length)
        case ArithmeticLanguage():
            first, *others = [rng.randrange(language.modulus) for _ in range(length)]
            source = str(first)
            for number in others:
                source += f"{rng.choice(language.operations)}{number}"
            return source


def language_answer(language: InventedLanguage, question: str) -> str:
    """The one right answer; ValueError where the question is none of this language."""
    return source_answer(language, question_source(language, question))


def turn_answer(language: InventedLanguage, messages: Sequence[str]) -> str:
    """The one right answer to the last of a user's messages, the first of which is a question."""
    source = question_source(language, messages[0])
    answer = source_answer(language, source)
    for message in messages[1:]:
        answer = follow_up_answer(language, source, answer, message)
    return answer


def question_source(language: InventedLanguage, question: str) -> str:
    """The source that a question is about; ValueError where it has none of the phrasings.

    Where it has several, the longest holds.
    """
    for before, after in _phrasing_ends(language.phrasings):
        fits = len(question) >= len(before) + len(after)
        if fits and question.startswith(before) and question.endswith(after):
            return question[len(before) : len(question) - len(after)]
    raise ValueError(
        f"{question!r} is no question of {language.kind!r}; use one of its phrasings:"
        f" {', '.join(map(repr, language.phrasings))}"
    )


@lru_cache(maxsize=64)
def _phrasing_ends(phrasings: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """What stands before and after the source in each phrasing, the longest first."""
    ends: list[tuple[str, str]] = []
    for phrasing in sorted(phrasings, key=len, reverse=True):
        before, _, after = render(phrasing, {"source": "\0"}).partition("\0")
        ends.append((before, after))
    return tuple(ends)


def source_answer(language: InventedLanguage, source: str) -> str:
    """The one right answer to a source; ValueError where it is none of this language."""
    match language:
        case CopyLanguage():
            return source
        case ReverseLanguage():
            return source[::-1]
        case SortLanguage():
            return sort_letters(source)
        case RecallLanguage():
            pairs, key = source.split("?")
            return dict(zip(pairs[::2], pairs[1::2], strict=True))[key]
        case LinearLanguage():
            return last_value(language, source)
        case EpisodeLanguage():
            return episode_answer(language, source)
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
        case EpisodeLanguage():
            return episode_letters(language)
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
