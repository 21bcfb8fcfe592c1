"""Questions of invented languages as rows of a task: the question, its answer, and four options.

The split of a question is that of the corpus: a hash of its text, with the shares that a corpus has
by default. So a question that is asked here is in no training text with these shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from paribus.corpus.languages.episodes import episode_letters
from paribus.corpus.languages.questions import language_questions
from paribus.corpus.splits import split_digest, split_of
from paribus.corpus.tasks.rows import TaskRow
from paribus.runtime import derive_seed
from paribus.spec.corpus import Corpus
from paribus.spec.languages import (
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
from paribus.spec.tasks import TaskSplit
from paribus.watcher import Watcher

N_OPTIONS = 4
_MAX_TRIES = 100


def language_rows(language: InventedLanguage, split: TaskSplit) -> Iterator[TaskRow]:
    """Every different question of a split, with four answers of which one is right."""
    shares = Corpus.model_fields
    earlier: set[str] = set()
    for own in language_questions(language, Watcher()):
        digest = split_digest(own.documents[0])
        if split_of(digest, shares["valid"].default, shares["test"].default) != split:
            continue
        if own.source in earlier:
            continue
        earlier.add(own.source)
        rng = Random(derive_seed(language.seed, "task", language.kind, own.source + "="))
        options = _options(language, own.source, own.answer, rng)
        values = {
            "language": language.kind,
            "question": own.question,
            "answer": own.answer,
            "options": options,
            "key": str(options.index(own.answer)),
        }
        yield TaskRow(f"{language.kind} {own.question!r}", values)


def _options(language: InventedLanguage, source: str, answer: str, rng: Random) -> tuple[str, ...]:
    """The answer among up to three wrong ones that look like it, in an order by chance."""
    options = [answer]
    for _ in range(_MAX_TRIES):
        if len(options) == N_OPTIONS:
            break
        wrong = _wrong_answer(language, source, answer, rng)
        if wrong not in options:
            options.append(wrong)
    rng.shuffle(options)
    return tuple(options)


def _wrong_answer(language: InventedLanguage, source: str, answer: str, rng: Random) -> str:
    match language:
        case RecallLanguage():
            values = source.partition("?")[0][1::2]
            return rng.choice(values + SYMBOLS[: language.n_symbols])
        case LinearLanguage():
            return SYMBOLS[rng.randrange(language.modulus)]
        case EpisodeLanguage():
            return rng.choice(episode_letters(language))
        case ArithmeticLanguage():
            return str(rng.randrange(language.modulus))
        case CopyLanguage() | ReverseLanguage() | SortLanguage() | TranslationLanguage():
            return _shuffled_answer(answer, rng)


def _shuffled_answer(answer: str, rng: Random) -> str:
    words = answer.split(" ")
    pieces = words if len(words) > 1 else list(answer)
    rng.shuffle(pieces)
    if len(words) > 1:
        return " ".join(pieces)
    return "".join(pieces)
