"""Texts with labels and words with tags, and how answers to them are scored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from paribus.errors import SpecError
from paribus.record.task_answers import TaskAnswer
from paribus.spec.corpus import TEXT_SEPARATOR

TAG_SEPARATOR = " "  # between the tags of an answer


@dataclass(frozen=True)
class LabelledText:
    """A text, or a pair of them, and its label; texts of one document are no independent
    evidence.
    """

    name: str
    document: str
    texts: tuple[str, ...]
    label: str

    @property
    def text(self) -> str:
        """What a model reads: a pair is one text of two lines."""
        return TEXT_SEPARATOR.join(self.texts)


@dataclass(frozen=True)
class TaggedText:
    """A sentence given word by word, and a tag for each word."""

    name: str
    document: str
    words: tuple[str, ...]
    tags: tuple[str, ...]

    def __post_init__(self) -> None:
        assert len(self.words) == len(self.tags)


Labelled = Sequence[LabelledText] | Sequence[TaggedText]


def label_names(train: Labelled) -> tuple[str, ...]:
    """The labels or tags of training items, in the order of their names."""
    return tuple(sorted(set(_all_labels(train))))


def require_known_labels(names: Sequence[str], items: Labelled, split: str) -> None:
    """SpecError where a split has a label that the training split has not."""
    unknown = sorted(set(_all_labels(items)) - set(names))
    if unknown:
        raise SpecError(
            f"split {split!r} has the label {unknown[0]!r}, which no training item has (their"
            f" labels are {', '.join(map(repr, names))}); leave such items out, or train on some"
        )


def _all_labels(items: Labelled) -> Iterable[str]:
    for item in items:
        if isinstance(item, LabelledText):
            yield item.label
        else:
            yield from item.tags


def label_answers(
    items: Sequence[LabelledText],
    names: Sequence[str],
    nats_NK: NDArray[np.floating],
    n_truncated: Sequence[int],
) -> tuple[TaskAnswer, ...]:
    """An answer to each text: the likeliest label, the first of equals."""
    answers = []
    for item, nats_K, n_cut in zip(items, nats_NK, n_truncated, strict=True):
        chosen, key = int(nats_K.argmin()), names.index(item.label)
        answer = TaskAnswer(
            item=item.name,
            document=item.document,
            score=float(chosen == key),
            count=1.0,
            chosen=chosen,
            key=key,
            option_nats=tuple(map(float, nats_K)),
            n_truncated_tokens=n_cut,
        )
        answers.append(answer)
    return tuple(answers)


def tag_answers(
    items: Sequence[TaggedText], names: Sequence[str], chosen: Sequence[Sequence[int]]
) -> tuple[TaskAnswer, ...]:
    """An answer to each sentence: how many of its words have the right tag."""
    answers = []
    for item, numbers in zip(items, chosen, strict=True):
        tags = [names[number] for number in numbers]
        answer = TaskAnswer(
            item=item.name,
            document=item.document,
            score=float(sum(map(str.__eq__, tags, item.tags))),
            count=float(len(item.tags)),
            chosen=TAG_SEPARATOR.join(tags),
            key=TAG_SEPARATOR.join(item.tags),
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
        matthews=_matthews(counts_KK),
        macro_f1=_macro_f1(counts_KK),
    )


def _matthews(counts_KK: NDArray[np.float64]) -> float:
    """Gorodkin's correlation of several classes, which for two is Matthews'; 0 where one side has
    a single class.
    """
    n_all, n_right = counts_KK.sum(), np.trace(counts_KK)
    keys_K, chosen_K = counts_KK.sum(1), counts_KK.sum(0)
    above = n_right * n_all - keys_K @ chosen_K
    below = (n_all**2 - keys_K @ keys_K) * (n_all**2 - chosen_K @ chosen_K)
    if below == 0:
        return 0.0
    return float(above / math.sqrt(below))


def _macro_f1(counts_KK: NDArray[np.float64]) -> float:
    keys_K, chosen_K = counts_KK.sum(1), counts_KK.sum(0)
    return float((2 * np.diag(counts_KK) / (keys_K + chosen_K)).mean())
