"""What a task scores without a model: a guess, the most frequent answer, and length alone.

A score says something where it lies above the highest of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

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


def tie_score(scores: NDArray[np.float64], key: int) -> tuple[float, int]:
    """1, or a share where several options are the best; 0 if the right one is not among them. And
    the first of the best.
    """
    best = scores == scores.max()
    if not best[key]:
        return 0.0, int(best.argmax())
    return float(1 / best.sum()), int(best.argmax())


def option_scores(
    nats: NDArray[np.float64],
    tokens: Sequence[int],
    n_bytes: Sequence[int],
    unconditional_nats: NDArray[np.float64],
    normalisation: Normalisation,
) -> NDArray[np.float64]:
    """The score of each option; the highest is chosen."""
    match normalisation:
        case "sum":
            return -nats
        case "token":
            return -nats / np.array(tokens)
        case "byte":
            return -nats / np.array(n_bytes)
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
    total = 0.0
    for item, own_tokens, own_bytes in zip(items, tokens, n_bytes, strict=True):
        nats = np.array(own_tokens, np.float64)
        scores = option_scores(nats, own_tokens, own_bytes, nats, normalisation)
        total += tie_score(scores, item.key)[0]
    return total / len(items)
