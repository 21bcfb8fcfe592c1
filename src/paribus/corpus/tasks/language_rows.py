"""Questions of invented languages as rows of a task: the question, its answer, and four options.

The split of a question is that of the corpus: a hash of its text in the form that is read there,
with the shares that a corpus has by default. So a question that is asked here is in no training
text of this form with these shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from paribus.corpus.languages.questions import language_documents
from paribus.corpus.splits import piece_digests, split_of
from paribus.corpus.tasks.rows import TaskRow
from paribus.runtime import derive_seed
from paribus.spec.corpus import Corpus
from paribus.spec.languages import (
    SYMBOLS,
    ArithmeticLanguage,
    InventedLanguage,
    LinearLanguage,
    RecallLanguage,
)
from paribus.spec.tasks import TaskSplit
from paribus.watcher import Watcher

N_OPTIONS = 4
_MAX_TRIES = 100


def language_rows(language: InventedLanguage, split: TaskSplit) -> Iterator[TaskRow]:
    """Every different question of a split, with four answers of which one is right."""
    shares = Corpus.model_fields
    earlier: set[str] = set()
    pairs = language.model_copy(update={"form": "pairs"})
    # every form of a language asks the same questions, in the same order
    as_read = language_documents(language, Watcher())
    for pair, document in zip(language_documents(pairs, Watcher()), as_read, strict=True):
        digest = piece_digests(document)[0]
        if split_of(digest, shares["valid"].default, shares["test"].default) != split:
            continue
        question, answer = (piece.decode() for piece in pair.pieces)
        if question in earlier:
            continue
        earlier.add(question)
        rng = Random(derive_seed(language.seed, "task", language.kind, question))
        options = _options(language, question, answer, rng)
        values = {
            "question": question,
            "answer": answer,
            "options": options,
            "key": str(options.index(answer)),
        }
        yield TaskRow(f"{language.kind} {question!r}", values)


def _options(
    language: InventedLanguage, question: str, answer: str, rng: Random
) -> tuple[str, ...]:
    """The answer among up to three wrong ones that look like it, in an order by chance."""
    options = [answer]
    for _ in range(_MAX_TRIES):
        if len(options) == N_OPTIONS:
            break
        wrong = _wrong_answer(language, question, answer, rng)
        if wrong not in options:
            options.append(wrong)
    rng.shuffle(options)
    return tuple(options)


def _wrong_answer(language: InventedLanguage, question: str, answer: str, rng: Random) -> str:
    match language:
        case RecallLanguage():
            values = question.partition("?")[0][1::2]
            return rng.choice(values + SYMBOLS[: language.n_symbols])
        case LinearLanguage():
            return SYMBOLS[rng.randrange(language.modulus)]
        case ArithmeticLanguage():
            return str(rng.randrange(language.modulus))
    words = answer.split(" ")
    pieces = words if len(words) > 1 else list(answer)
    rng.shuffle(pieces)
    if len(words) > 1:
        return " ".join(pieces)
    return "".join(pieces)
