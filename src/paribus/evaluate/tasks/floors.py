"""What a task scores without a model: a guess, the most frequent answer, and length alone.

A score says something where it lies above the highest of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.task_scores import Confusion
from paribus.corpus.tasks import ChoiceItem
from paribus.spec.tasks import Normalisation

Counts = Sequence[tuple[int, ...]]  # of each item, one for each option


def choice_floors(
    items: Sequence[ChoiceItem], tokens: Counts, n_bytes: Counts, normalisation: Normalisation
) -> dict[str, float]:
    """The accuracy of a uniform guess, of the most frequent right answer, and of length alone."""
    return {
        "uniform": _uniform(items),
        "majority": _majority(items),
        "length": _length(items, tokens, n_bytes, normalisation),
    }


def label_floors(
    items: Sequence[ChoiceItem],
    tokens: Counts,
    n_bytes: Counts,
    normalisation: Normalisation,
    measure: Callable[[Confusion], NDArray[np.float64]],
) -> dict[str, float]:
    """The floors by a measure of keys and choices: a guess, the most frequent label, length alone.

    All items have the same options, as labels in words do. Where options tie, each is chosen in
    part.
    """
    n_labels = len(items[0].options)
    keys = np.array([item.key for item in items])
    n_items = np.bincount(keys, minlength=n_labels).astype(np.float64)
    constant = np.zeros((n_labels, n_labels))
    constant[:, n_items.argmax()] = n_items
    scores = _length_scores(tokens, n_bytes, normalisation)
    is_best = scores == scores.max(1, keepdims=True)
    by_length = np.zeros((n_labels, n_labels))
    np.add.at(by_length, keys, is_best / is_best.sum(1, keepdims=True))
    uniform = np.repeat(n_items[:, None] / n_labels, n_labels, axis=1)
    confusions = {"uniform": uniform, "majority": constant, "length": by_length}
    return {name: float(measure(confusion)) for name, confusion in confusions.items()}


def padded_options(values: Sequence[Sequence[float]], padding: float) -> NDArray[np.float64]:
    """Values of the options of each item, [items, options]; items with fewer are padded."""
    lengths = np.array([len(own) for own in values])
    is_real = np.arange(lengths.max()) < lengths[:, None]
    matrix = np.full(is_real.shape, padding)
    matrix[is_real] = np.fromiter(chain.from_iterable(values), np.float64)
    return matrix


def choose_options(
    scores_NO: NDArray[np.float64], keys_N: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Of each item 1, or a share where several options are the best, or 0 where the right one is
    not among them; and the first of the best.
    """
    is_best = scores_NO == scores_NO.max(1, keepdims=True)
    right_N = is_best[np.arange(len(keys_N)), keys_N] / is_best.sum(1)
    return right_N, is_best.argmax(1)


def option_scores(
    nats: NDArray[np.float64],
    tokens: NDArray[np.float64],
    n_bytes: NDArray[np.float64],
    unconditional_nats: NDArray[np.float64],
    normalisation: Normalisation,
) -> NDArray[np.float64]:
    """The score of each option; the highest is chosen."""
    match normalisation:
        case "sum":
            return -nats
        case "token":
            return -nats / tokens
        case "byte":
            return -nats / n_bytes
        case "unconditional":
            return unconditional_nats - nats


def _uniform(items: Sequence[ChoiceItem]) -> float:
    return float(np.mean([1 / len(item.options) for item in items]))


def _majority(items: Sequence[ChoiceItem]) -> float:
    """Always the same text where it is an option, else a guess; the best of the texts that at
    least half of the items have. Where there is none, a guess.
    """
    gains: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for item in items:
        for number, option in enumerate(item.options):
            gains[option] += float(number == item.key) - 1 / len(item.options)
            counts[option] += 1
    frequent = [gain for option, gain in gains.items() if 2 * counts[option] >= len(items)]
    return _uniform(items) + max([0.0, *frequent]) / len(items)


def _length(
    items: Sequence[ChoiceItem], tokens: Counts, n_bytes: Counts, normalisation: Normalisation
) -> float:
    keys = np.array([item.key for item in items])
    return float(choose_options(_length_scores(tokens, n_bytes, normalisation), keys)[0].mean())


def _length_scores(
    tokens: Counts, n_bytes: Counts, normalisation: Normalisation
) -> NDArray[np.float64]:
    """Every token equally likely: nats are in proportion to tokens, after any context."""
    nats = padded_options(tokens, math.inf)  # an option that is not there is never chosen
    alone = padded_options(tokens, 0.0)
    return option_scores(
        nats, padded_options(tokens, 1.0), padded_options(n_bytes, 1.0), alone, normalisation
    )
