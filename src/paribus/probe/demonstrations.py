"""In-context learning: what a model makes of examples in its context, by their number, beside what
known learners make of the same examples.

Documents are drawn anew, with another seed than those that were trained on, so that every function
is new to the model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paribus.canonical import canonical_hash
from paribus.corpus.languages.episodes import (
    Episode,
    episode_letters,
    input_numbers,
    read_episode,
    spell_episode,
)
from paribus.corpus.languages.questions import AnsweredQuestion, language_questions
from paribus.errors import SpecError, UnsupportedError
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.model import Transformer
from paribus.probe.item_answers import ItemReader, token_answers
from paribus.probe.regression_tasks import (
    RegressionTasks,
    bin_centres,
    known_predictions,
    nearest_bins,
    posterior_nats,
    read_tasks,
)
from paribus.record.probe_rows import ProbeRow
from paribus.runtime import derive_seed
from paribus.spec.base import MAX_SIZE
from paribus.spec.corpus import Corpus
from paribus.spec.languages import (
    ClassificationLanguage,
    EpisodeKind,
    EpisodeLanguage,
    RegressionLanguage,
)
from paribus.spec.probe_variants import (
    ACCURACY,
    NATS,
    RIDGE,
    SQUARED_DIFFERENCE,
    SQUARED_ERROR,
    SYMBOL_MASS,
)
from paribus.watcher import Watcher

PROBE = "in-context"
N_ITEMS = 400  # documents
DEMONSTRATIONS = "demonstrations"
Values = Iterator[tuple[str, str, Tensor]]  # quantity, variant, and one number for each item


@dataclass(frozen=True, eq=False)
class SymbolAnswers:
    """What a model says to B questions: ln p of each of the K symbols that an answer can be."""

    log_probabilities_BK: Tensor
    answers_B: Tensor  # the numbers of the right symbols

    @property
    def nats_B(self) -> Tensor:
        """-ln p of the right symbol, among all tokens of the vocabulary."""
        return -self.log_probabilities_BK.gather(1, self.answers_B[:, None])[:, 0]

    @property
    def is_right_B(self) -> Tensor:
        """Is the likeliest symbol the right one?"""
        return self.log_probabilities_BK.argmax(1) == self.answers_B

    @property
    def shares_BK(self) -> Tensor:
        """p of each symbol, given that it is one of them."""
        return self.log_probabilities_BK.softmax(1)

    @property
    def mass_B(self) -> Tensor:
        """How probable it is that the answer is one of the symbols at all."""
        return self.log_probabilities_BK.logsumexp(1).exp()


def demonstration_rows(
    checkpoint: LoadedCheckpoint,
    model: Transformer,
    language: EpisodeKind | None = None,
    n_items: int = N_ITEMS,
    watcher: Watcher | None = None,
) -> Iterator[ProbeRow]:
    """A model and known learners, for each number of demonstrations that the language has.

    Without a language, that of the text which the checkpoint was last trained on.
    """
    reader = ItemReader.of(checkpoint, model)
    language = language or taught_episodes(checkpoint)
    questions = drawn_questions(language, n_items)
    for n_demonstrations in range(language.min_length, language.max_length + 1):
        short = [with_demonstrations(language, one, n_demonstrations) for one in questions]
        for quantity, variant, values in _values(reader, language, short):
            yield ProbeRow(
                probe=PROBE,
                quantity=quantity,
                value=values.double().mean().item(),
                n=len(values),
                variant=variant,
                x=float(n_demonstrations),
                x_name=DEMONSTRATIONS,
            )
        if watcher is not None:
            watcher.advance(len(short))


def _values(
    reader: ItemReader, language: EpisodeKind, questions: Sequence[AnsweredQuestion]
) -> Values:
    """What is found with the first half of the questions; rates of descent are fitted to the
    second.
    """
    n_items = len(questions) // 2
    questions, other_questions = questions[:n_items], questions[n_items:]
    answers = symbol_answers(reader, language, questions)
    yield NATS, "", answers.nats_B
    yield ACCURACY, "", answers.is_right_B
    yield SYMBOL_MASS, "", answers.mass_B
    if isinstance(language, RegressionLanguage):
        tasks = _read_questions(language, questions)
        yield from regression_values(answers, tasks, _read_questions(language, other_questions))
    else:
        yield from _classification_values(language, questions)


def _read_questions(
    language: RegressionLanguage, questions: Sequence[AnsweredQuestion]
) -> RegressionTasks:
    sources = [question.source for question in questions]
    return read_tasks(language, sources, [question.answer for question in questions])


def episode_language(corpus: Corpus) -> EpisodeKind | None:
    """The language of examples that a corpus has; the first of several."""
    for source in corpus.sources:
        if isinstance(source, EpisodeLanguage):
            return source
    return None


def taught_episodes(checkpoint: LoadedCheckpoint) -> EpisodeKind:
    """The language of examples that a checkpoint was last trained on."""
    language = None
    if checkpoint.stage is not None:
        language = episode_language(checkpoint.stage.corpus)
    if language is None:
        raise UnsupportedError(
            f"{checkpoint.folder} was not last trained on 'regression' or 'classification', so"
            " nothing says which examples it can read; use a run that was"
        )
    return language


def drawn_questions(language: EpisodeKind, n_items: int) -> list[AnsweredQuestion]:
    """Questions to ask, and as many others, to which rates of descent are fitted."""
    return new_questions(language, 2 * n_items)


def questions_fingerprint(language: EpisodeKind, questions: Sequence[AnsweredQuestion]) -> str:
    """Which questions these are, and with how many examples they are asked."""
    texts = [[question.question, question.answer] for question in questions]
    return canonical_hash([language.min_length, language.max_length, texts])


def new_questions(language: EpisodeKind, n_items: int) -> list[AnsweredQuestion]:
    """Questions of new functions, of a seed that follows from the language's and is another, with
    as many examples as it has at most.
    """
    if n_items < 1:
        raise SpecError(f"n_items is {n_items}; ask for at least 1 document")
    changes = {
        "seed": derive_seed(language.seed, "probe", language.kind) % MAX_SIZE,
        "n_documents": n_items,
        "form": "pairs",
        "min_turns": 1,
        "max_turns": 1,
        "min_length": language.max_length,
    }
    return list(language_questions(language.model_copy(update=changes), Watcher()))


def with_demonstrations(
    language: EpisodeKind, question: AnsweredQuestion, n_demonstrations: int
) -> AnsweredQuestion:
    """A question with the last examples alone, and the same answer: curves over the number of
    demonstrations are then over the same functions and queries.
    """
    whole = read_episode(language, question.source)
    first = len(whole.inputs) - n_demonstrations
    source = spell_episode(Episode(whole.inputs[first:], whole.values[first:], whole.query))
    text = question.question.replace(question.source, source)
    return replace(question, source=source, question=text)


def symbol_answers(
    reader: ItemReader, language: EpisodeKind, questions: Sequence[AnsweredQuestion]
) -> SymbolAnswers:
    """What a model says to each question, among the symbols that answers are written in."""
    letters = episode_letters(language)
    reader.encoder.require_symbols((*letters, *(question.question for question in questions)))
    ids = [reader.checkpoint.tokenizer.encode(letter)[0] for letter in letters]
    items = [reader.lay(question.question, question.answer) for question in questions]
    log_probabilities_BK = torch.zeros(len(items), len(ids), dtype=torch.float64)
    for answer in token_answers(reader, items):
        log_probabilities_BK[answer.item] = answer.log_probabilities_MV[0, ids].double()
    numbers = [letters.index(question.answer) for question in questions]
    return SymbolAnswers(log_probabilities_BK, torch.tensor(numbers))


def regression_values(
    answers: SymbolAnswers, tasks: RegressionTasks, other_tasks: RegressionTasks
) -> Values:
    """A model's answers to tasks and those of known learners; rates of descent are fitted to other
    tasks.
    """
    expected_B = answers.shares_BK @ bin_centres(tasks.bins)
    yield SQUARED_ERROR, "", (expected_B - tasks.answers_B).square()
    yield NATS, RIDGE, posterior_nats(tasks)
    for variant, predicted_B in known_predictions(tasks, other_tasks).items():
        yield SQUARED_ERROR, variant, (predicted_B - tasks.answers_B).square()
        yield ACCURACY, variant, nearest_bins(tasks.bins, predicted_B) == tasks.answer_bins_B
        yield SQUARED_DIFFERENCE, variant, (expected_B - predicted_B).square()


def _classification_values(
    language: ClassificationLanguage, questions: Sequence[AnsweredQuestion]
) -> Values:
    """What two simple learners of labels get right; nothing where there is no example."""
    episodes = [read_episode(language, question.source) for question in questions]
    if not episodes[0].values:
        return
    for variant, guess in (
        ("most frequent label", _frequent_label),
        ("nearest example", _nearest_label),
    ):
        guesses = [guess(language, episode) for episode in episodes]
        is_right = [one == own.answer for one, own in zip(guesses, questions, strict=True)]
        yield ACCURACY, variant, torch.tensor(is_right)


def _frequent_label(_: ClassificationLanguage, episode: Episode) -> str:
    """The label that most examples have; the first of equals."""
    return Counter(episode.values).most_common(1)[0][0]


def _nearest_label(language: ClassificationLanguage, episode: Episode) -> str:
    """The label of the example that lies nearest to the query."""
    query = input_numbers(language, episode.query)
    distances = [math.dist(input_numbers(language, x), query) for x in episode.inputs]
    return episode.values[distances.index(min(distances))]
