"""What the answers to a task come to: a score with its interval, also where it does not add up.

Items of one document are no independent evidence. Where each item stands for itself and is right or
wrong, the interval is Wilson's. Else documents are drawn again with replacement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from paribus.analyse.tag_spans import document_span_counts, span_f1
from paribus.record import TaskAnswer, TaskEvaluation
from paribus.spec.measure import POINTS, TASK_MEASURES

N_RESAMPLES = 1000
LEVEL = 0.95
SPAN_F1 = "span f1"
Confusion = NDArray[np.float64]  # [..., labels, labels]: key by chosen


def score_interval(evaluation: TaskEvaluation, level: float = LEVEL) -> tuple[float, float] | None:
    """The interval of the task's score; None where there is no way to draw it again from the
    record, as for BLEU of a whole corpus.
    """
    measure, answers = evaluation.head.measure, evaluation.answers
    if measure in CONFUSION_MEASURES:
        return _confusion_interval(evaluation, CONFUSION_MEASURES[measure], level)
    if measure == SPAN_F1:
        counts = document_span_counts(answers)
        return _percentiles(span_f1(counts[_draws(len(counts))].sum(1)), level)
    if measure in evaluation.head.summary:
        return None
    documents = {answer.document for answer in answers}
    is_binary = all(answer.score in (0.0, 1.0) and answer.count == 1.0 for answer in answers)
    is_share = TASK_MEASURES[measure].unit == POINTS
    if is_share and is_binary and len(documents) == len(answers):
        return wilson_interval(sum(answer.score for answer in answers), len(answers), level)
    sums = _document_sums(answers)
    draws = _draws(len(sums))
    totals = sums[draws].sum(1)
    return _percentiles(totals[:, 0] / totals[:, 1], level)


def wilson_interval(n_right: float, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval of a share."""
    z = float(ndtri((1 + level) / 2))
    share = n_right / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)
    return max(low, 0.0), min(high, 1.0)


def confusion_matrix(answers: Sequence[TaskAnswer], n_labels: int) -> Confusion:
    """How often each label was chosen for each key."""
    matrix = np.zeros((n_labels, n_labels))
    for answer in answers:
        matrix[int(answer.key), int(answer.chosen)] += 1
    return matrix


def matthews(confusion: Confusion) -> NDArray[np.float64]:
    """Matthews' correlation of keys and choices, also of more than two labels; 0 where either has
    one label alone.
    """
    total = confusion.sum((-1, -2))
    right = np.trace(confusion, axis1=-2, axis2=-1)
    keys, chosen = confusion.sum(-1), confusion.sum(-2)
    covariance = right * total - (keys * chosen).sum(-1)
    spread = (total**2 - (keys**2).sum(-1)) * (total**2 - (chosen**2).sum(-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 0, covariance / np.sqrt(spread), 0.0)


def macro_f1(confusion: Confusion) -> NDArray[np.float64]:
    """F1 of each label, averaged; 0 of a label that is neither key nor chosen."""
    right = np.diagonal(confusion, axis1=-2, axis2=-1)
    both = confusion.sum(-1) + confusion.sum(-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(both > 0, 2 * right / both, 0.0).mean(-1)


CONFUSION_MEASURES: dict[str, Callable[[Confusion], NDArray[np.float64]]] = {
    "matthews": matthews,
    "macro f1": macro_f1,
}


def label_measures(answers: Sequence[TaskAnswer], n_labels: int) -> dict[str, float]:
    """What the confusion matrix of answers says, by the name of each measure."""
    confusion = confusion_matrix(answers, n_labels)
    return {name: float(measure(confusion)) for name, measure in CONFUSION_MEASURES.items()}


def confusion_floors(
    answers: Sequence[TaskAnswer], measure: str, n_labels: int
) -> dict[str, float]:
    """What a measure of the confusion matrix gives to a uniform guess, and to the one label that
    scores best if it is always chosen.
    """
    own, keys = CONFUSION_MEASURES[measure], np.zeros(n_labels)
    for answer in answers:
        keys[int(answer.key)] += 1
    guesses = np.repeat(keys[:, None] / n_labels, n_labels, 1)
    always = np.zeros((n_labels, n_labels, n_labels))  # by the label that is always chosen
    for label in range(n_labels):
        always[label, :, label] = keys
    return {"uniform": float(own(guesses)), "majority": float(own(always).max())}


def _confusion_interval(
    evaluation: TaskEvaluation,
    measure: Callable[[Confusion], NDArray[np.float64]],
    level: float,
) -> tuple[float, float]:
    answers = evaluation.answers
    n_labels = len(evaluation.head.task["labels"])  # of which some may not occur
    matrices: dict[str, Confusion] = {}
    for answer in answers:
        matrix = matrices.setdefault(answer.document, np.zeros((n_labels, n_labels)))
        matrix[int(answer.key), int(answer.chosen)] += 1
    stacked = np.stack(list(matrices.values()))
    values = [float(measure(stacked[draw].sum(0))) for draw in _draws(len(stacked))]
    return _percentiles(np.array(values), level)


def _document_sums(answers: Sequence[TaskAnswer]) -> NDArray[np.float64]:
    """Score and count of each document, [documents, 2]."""
    sums: dict[str, list[float]] = {}
    for answer in answers:
        own = sums.setdefault(answer.document, [0.0, 0.0])
        own[0] += answer.score
        own[1] += answer.count
    return np.array(list(sums.values()))


def _draws(n_documents: int) -> NDArray[np.int64]:
    """Numbers of documents, drawn with replacement, always the same."""
    n_resamples = max(100, min(N_RESAMPLES, 2 * 10**7 // n_documents))
    return np.random.default_rng(0).integers(n_documents, size=(n_resamples, n_documents))


def _percentiles(values: NDArray[np.float64], level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
