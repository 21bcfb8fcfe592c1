"""Answers to texts with labels and to words with tags, and what they score together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.task_scores import macro_f1, matthews
from paribus.corpus.tasks import LabelItem, TagItem
from paribus.record.task_answers import TAG_SEPARATOR, TaskAnswer
from paribus.spec.corpus import TEXT_SEPARATOR


def label_text(item: LabelItem) -> str:
    """What a model reads of an item: a pair of texts is one text of two lines."""
    if item.second is None:
        return item.text
    return TEXT_SEPARATOR.join((item.text, item.second))


def label_answers(
    items: Sequence[LabelItem], nats_NK: NDArray[np.floating], n_truncated: Sequence[int]
) -> tuple[TaskAnswer, ...]:
    """An answer to each text: the likeliest label, the first of equals."""
    answers = []
    for item, nats_K, n_cut in zip(items, nats_NK, n_truncated, strict=True):
        chosen = int(nats_K.argmin())
        answer = TaskAnswer(
            item=item.name,
            document=item.document,
            score=float(chosen == item.label),
            count=1.0,
            chosen=chosen,
            key=item.label,
            option_nats=tuple(map(float, nats_K)),
            n_truncated_tokens=n_cut,
        )
        answers.append(answer)
    return tuple(answers)


def tag_answers(
    items: Sequence[TagItem],
    names: Sequence[str],
    chosen: Sequence[Sequence[str]],
    n_truncated: Sequence[int],
) -> tuple[TaskAnswer, ...]:
    """An answer to each sentence: how many of its words have the right tag; `names` are those of
    the tags by their numbers.
    """
    answers = []
    for item, tags, n_cut in zip(items, chosen, n_truncated, strict=True):
        keys = [names[number] for number in item.tags]
        n_right = sum(tag == key for tag, key in zip(tags, keys, strict=True))
        answer = TaskAnswer(
            item=item.name,
            document=item.document,
            score=float(n_right),
            count=float(len(keys)),
            chosen=TAG_SEPARATOR.join(tags),
            key=TAG_SEPARATOR.join(keys),
            n_truncated_tokens=n_cut,
        )
        answers.append(answer)
    return tuple(answers)


@dataclass(frozen=True)
class LabelScores:
    """What answers score together; the last two do not add up over items."""

    accuracy: float
    matthews: float
    macro_f1: float


def label_scores(answers: Sequence[TaskAnswer]) -> LabelScores:
    """Accuracy, Matthews' correlation and the mean F1 of the labels that occur, over texts or
    over words.
    """
    pairs: list[tuple[int | str, int | str]] = []
    for answer in answers:
        if isinstance(answer.key, str) and isinstance(answer.chosen, str):
            chosen, keys = (
                answer.chosen.split(TAG_SEPARATOR),
                answer.key.split(TAG_SEPARATOR),
            )
            pairs += zip(chosen, keys, strict=True)
        else:
            pairs.append((answer.chosen, answer.key))
    names = sorted({name for pair in pairs for name in pair}, key=str)
    numbers = {name: number for number, name in enumerate(names)}
    counts_KK = np.zeros((len(names), len(names)))  # [key, chosen]
    for chosen, key in pairs:
        counts_KK[numbers[key], numbers[chosen]] += 1
    return LabelScores(
        accuracy=float(np.trace(counts_KK) / counts_KK.sum()),
        matthews=float(matthews(counts_KK)),
        macro_f1=float(macro_f1(counts_KK)),
    )
