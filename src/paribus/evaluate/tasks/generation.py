"""Generation: what a model says after a source, greedily, compared with the references."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.tasks import GenerationItem
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks.arms import TaskArm, asked_model_arm
from paribus.evaluate.tasks.protocols import longest_answer
from paribus.evaluate.tasks.target_scores import target_scores
from paribus.evaluate.tasks.text_measures import (
    CORPUS_MEASURES,
    TEXT_MEASURES,
    corpus_score,
    is_installed,
    text_measure,
)
from paribus.generate import Sampling, generate_answers
from paribus.objectives.framing import Ids, lay_item
from paribus.record import TaskAnswer
from paribus.spec.tasks import GenerationMeasure, GenerationTask

MAX_BATCH_POSITIONS = 2**14  # of contexts and answers that are generated together
BITS_PER_BYTE: GenerationMeasure = "bits per byte"
_CONSTANT_MEASURES: tuple[GenerationMeasure, ...] = (
    "exact match",
    "normalised match",
    "reward",
    "f1",
)


@dataclass(frozen=True)
class GenerationAnswers:
    """The answers to all items by the primary measure, other measures of them, and the floors."""

    answers: tuple[TaskAnswer, ...]
    summary: dict[str, float]
    floors: dict[str, float]


def ask_generation(
    asked_model: AskedModel, task: GenerationTask, items: Sequence[GenerationItem]
) -> GenerationAnswers:
    """What a model says to each item, and how surprised it is by the first reference."""
    arm = asked_model_arm(asked_model)
    nats = _reference_nats(asked_model, arm, items)
    texts: list[str] = []
    if task.measure != BITS_PER_BYTE:
        texts = [_answer_part(task, text) for text in _generate(asked_model, arm, task, items)]
    return _measure_texts(task, items, texts, nats)


def remeasure_generation(
    task: GenerationTask, items: Sequence[GenerationItem], answers: Sequence[TaskAnswer]
) -> GenerationAnswers:
    """Answers that a model gave to these items, scored by another measure. A measure of texts needs
    answers that have texts.
    """
    nats = np.array([answer.option_nats[0] for answer in answers])
    return _measure_texts(task, items, [str(answer.chosen) for answer in answers], nats)


def _measure_texts(
    task: GenerationTask,
    items: Sequence[GenerationItem],
    texts: Sequence[str],
    nats: NDArray[np.float64],
) -> GenerationAnswers:
    references = []
    for item in items:
        references.append([_answer_part(task, reference) for reference in item.references])
    answers = _answers(task, items, texts, references, nats)
    n_bytes = sum(len(item.references[0].encode()) for item in items)
    summary: dict[str, float] = {}
    if task.measure != BITS_PER_BYTE:
        summary = _summary(task.measure, texts, references)
        summary[BITS_PER_BYTE] = float(nats.sum()) / math.log(2) / n_bytes
    return GenerationAnswers(answers, summary, _floors(task.measure, references))


def _answers(
    task: GenerationTask,
    items: Sequence[GenerationItem],
    texts: Sequence[str],
    references: Sequence[Sequence[str]],
    nats: NDArray[np.float64],
) -> tuple[TaskAnswer, ...]:
    answers: list[TaskAnswer] = []
    if task.measure == BITS_PER_BYTE:
        for item, own_nats in zip(items, nats.tolist(), strict=True):
            n_bytes = len(item.references[0].encode())
            answers.append(_answer(item, own_nats / math.log(2), float(n_bytes), "", own_nats))
        return tuple(answers)
    measure = text_measure(task.measure)
    for item, text, own, own_nats in zip(items, texts, references, nats.tolist(), strict=True):
        answers.append(_answer(item, measure(text, own), 1.0, text, own_nats))
    return tuple(answers)


def _answer(item: GenerationItem, score: float, count: float, text: str, nats: float) -> TaskAnswer:
    return TaskAnswer(
        item=item.name,
        document=item.document,
        score=score,
        count=count,
        chosen=text,
        key="\n".join(item.references),
        option_nats=(nats,),
        option_bytes=(len(item.references[0].encode()),),
    )


def _reference_nats(
    asked_model: AskedModel, arm: TaskArm, items: Sequence[GenerationItem]
) -> NDArray[np.float64]:
    contexts = arm.encode_contexts([item.source for item in items])
    targets = arm.encode_targets([item.references[0] for item in items])
    laid = []
    for item, context, target in zip(items, contexts, targets, strict=True):
        laid.append(lay_item(arm.layout, item.name, context, target))
    return target_scores(asked_model.model, arm.layout, laid).nats


def _generate(
    asked_model: AskedModel, arm: TaskArm, task: GenerationTask, items: Sequence[GenerationItem]
) -> list[str]:
    """The text of each answer, cut where the task says that it ends."""
    contexts = arm.encode_contexts([item.source for item in items])
    n_tokens = longest_answer(arm, task, items)
    texts = [""] * len(items)
    for numbers in _batches(contexts, n_tokens):
        answers = generate_answers(
            asked_model.model,
            arm.layout,
            [contexts[number] for number in numbers],
            Sampling(n_tokens),
            lambda tokens: _has_stop(task, arm.tokenizer.decode(tokens)),
        )
        for number, answer in zip(numbers, answers, strict=True):
            texts[number] = cut_answer(task, arm.tokenizer.decode(answer.tokens))
    return texts


def _batches(contexts: Sequence[Ids], n_tokens: int) -> Iterator[list[int]]:
    """Numbers of contexts of about one length, as many as fit together."""
    batch: list[int] = []
    for number in sorted(range(len(contexts)), key=lambda number: len(contexts[number])):
        length = len(contexts[number]) + n_tokens
        if batch and length * (len(batch) + 1) > MAX_BATCH_POSITIONS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _has_stop(task: GenerationTask, text: str) -> bool:
    if any(stop in text for stop in task.stop):
        return True
    return task.n_words is not None and len(text.split()) > task.n_words


def cut_answer(task: GenerationTask, text: str) -> str:
    """What a task counts of a text that was generated."""
    for stop in task.stop:
        text = text.partition(stop)[0]
    words = text.split()
    if task.n_words is not None and len(words) > task.n_words:
        return " ".join(words[: task.n_words])
    return text


def _answer_part(task: GenerationTask, text: str) -> str:
    """What is compared of a text: all of it, or what follows the last mark of an answer."""
    if not task.answer_after:
        return text
    return text.rpartition(task.answer_after)[2]


def _summary(
    primary: GenerationMeasure, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """The other measures that can be taken here; BLEU and chrF of all texts at once."""
    summary: dict[str, float] = {}
    for measure in TEXT_MEASURES:
        if measure != primary and is_installed(measure):
            one = text_measure(measure)
            scores = [one(text, own) for text, own in zip(texts, references, strict=True)]
            summary[measure] = math.fsum(scores) / len(scores)
    for measure in CORPUS_MEASURES:
        if measure == primary or is_installed(measure):
            summary[measure] = corpus_score(measure, texts, references)
    return summary


def _floors(measure: GenerationMeasure, references: Sequence[Sequence[str]]) -> dict[str, float]:
    """What the most frequent reference scores as the answer to every item."""
    if measure not in _CONSTANT_MEASURES:
        return {}
    one = text_measure(measure)
    counts = Counter(own[0] for own in references)
    constant = counts.most_common(1)[0][0]
    return {"majority": math.fsum(one(constant, own) for own in references) / len(references)}
