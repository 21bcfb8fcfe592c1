"""What answers to choices are measured in: whether the right option is chosen, or how probable it
is.

Accuracy says nothing until the right option is the best one; the two others change with every
probability. Both are continuous measures of the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from paribus.corpus.tasks import ChoiceItem
from paribus.spec.tasks import ChoiceMeasure

Options = Sequence[Sequence[float]]  # of each item, one value for each option


@dataclass(frozen=True, eq=False)
class ScoredOptions:
    """The scores of all options by one normalisation, and what they choose."""

    scores_NO: NDArray[np.float64]  # -inf of an option that is not there
    right_N: NDArray[np.float64]  # 1, 0, or a share where options tie
    chosen_N: NDArray[np.int64]


def measure_choices(
    measure: ChoiceMeasure,
    scored: ScoredOptions,
    items: Sequence[ChoiceItem],
    nats: Options,
    n_bytes: Options,
) -> tuple[list[float], list[float]]:
    """What each item adds to the sum of a measure, and to its count."""
    keys = [item.key for item in items]
    ones = [1.0] * len(items)
    match measure:
        case "accuracy":
            return scored.right_N.tolist(), ones
        case "log loss":
            return log_loss_bits(scored.scores_NO, np.array(keys)).tolist(), ones
        case "bits per byte":
            bits = [own[key] / math.log(2) for own, key in zip(nats, keys, strict=True)]
            return bits, [float(own[key]) for own, key in zip(n_bytes, keys, strict=True)]


def log_loss_bits(scores_NO: NDArray[np.float64], keys_N: NDArray[np.int64]) -> NDArray[np.float64]:
    """−log₂ of the right option's share: exp(score) over the sum of exp(score) of all options.

    By the normalisation `sum`, the share is the probability of the right option, given that one of
    the options follows. A uniform guess among K options costs log₂ K.
    """
    right_N = scores_NO[np.arange(len(keys_N)), keys_N]
    with np.errstate(invalid="ignore"):  # where no option has any probability
        return (np.asarray(logsumexp(scores_NO, axis=1)) - right_N) / math.log(2)


def measure_floors(
    measure: ChoiceMeasure, items: Sequence[ChoiceItem], accuracy_floors: dict[str, float]
) -> dict[str, float]:
    """What needs no model, by a measure of choices: a uniform guess for log loss, nothing for the
    bits of a text.
    """
    match measure:
        case "accuracy":
            return accuracy_floors
        case "log loss":
            bits = [math.log2(len(item.options)) for item in items]
            return {"uniform": math.fsum(bits) / len(bits)}
        case "bits per byte":
            return {}
