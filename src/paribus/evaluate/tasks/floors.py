"""What a task scores without a model: a guess, the most frequent answer, and length alone.

A score says something where it lies above the highest of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

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
    """Every token equally likely: nats are in proportion to tokens, after any context."""
    nats = padded_options(tokens, math.inf)
    keys = np.array([item.key for item in items])
    alone = padded_options(tokens, 0.0)  # such an option is never chosen
    scores = option_scores(
        nats, padded_options(tokens, 1.0), padded_options(n_bytes, 1.0), alone, normalisation
    )
    return float(choose_options(scores, keys)[0].mean())
