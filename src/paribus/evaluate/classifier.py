"""A linear classifier on `represent`: multinomial logistic regression on states that no longer
move.

It is fitted by full-batch L-BFGS in float64, so the same states always give the same classifier.
The weight of its L2 penalty is the one of a grid with the least nats on the validation split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import logsumexp

from paribus.corpus.tasks import LabelItem, TagItem
from paribus.errors import SpecError
from paribus.evaluate.label_answers import label_answers, label_text, tag_answers
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.represent import (
    n_truncated_tokens,
    permitted_poolings,
    represent,
    represent_words,
)
from paribus.record.task_answers import TaskAnswer
from paribus.spec.objectives import Pooling

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
L2_GRID = tuple(10.0**power for power in range(-5, 3))
MAX_ITERATIONS = 2000
TOLERANCE = 1e-9  # of the gradient, a nat an item


@dataclass(frozen=True, eq=False)
class LogisticRegression:
    """Logits of labels, linear in states that are standardised as the training ones."""

    mean_D: Floats
    scale_D: Floats
    weight_DK: Floats
    bias_K: Floats

    def nats(self, states_ND: NDArray[np.floating]) -> Floats:
        """-log p(label | state), [N, K]."""
        logits = (states_ND - self.mean_D) / self.scale_D @ self.weight_DK + self.bias_K
        return logsumexp(logits, axis=1, keepdims=True) - logits


def fit_logistic_regression(
    states_ND: NDArray[np.floating], labels_N: Numbers, n_labels: int, l2: float
) -> LogisticRegression:
    """The regression with the least mean nats plus l2 / 2 times the squared weights, without the
    bias.
    """
    states = states_ND.astype(np.float64)
    mean, scale = states.mean(0), states.std(0)
    scale[scale == 0] = 1.0  # a value that never changes says nothing
    states = (states - mean) / scale
    width, is_label_NK = states.shape[1], np.eye(n_labels)[labels_N]

    def loss(flat: Floats) -> tuple[float, Floats]:
        weight, bias = flat[: width * n_labels].reshape(width, n_labels), flat[width * n_labels :]
        logits = states @ weight + bias
        log_chances = logits - logsumexp(logits, axis=1, keepdims=True)
        value = -(log_chances * is_label_NK).sum(1).mean() + l2 / 2 * (weight**2).sum()
        slope = (np.exp(log_chances) - is_label_NK) / len(states)
        gradient = np.concatenate([(states.T @ slope + l2 * weight).ravel(), slope.sum(0)])
        return float(value), gradient

    start = np.zeros((width + 1) * n_labels)
    options = {"maxiter": MAX_ITERATIONS, "gtol": TOLERANCE, "ftol": 0.0}
    flat = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return LogisticRegression(
        mean_D=mean,
        scale_D=scale,
        weight_DK=flat[: width * n_labels].reshape(width, n_labels),
        bias_K=flat[width * n_labels :],
    )


@dataclass(frozen=True)
class LabelledTexts:
    """Texts to fit on, to choose by and to be judged on, and the names of their labels."""

    names: tuple[str, ...]
    train: Sequence[LabelItem]
    valid: Sequence[LabelItem]
    test: Sequence[LabelItem]


@dataclass(frozen=True)
class TaggedSentences:
    """Sentences to fit on, to choose by and to be judged on, and the names of their tags."""

    names: tuple[str, ...]
    train: Sequence[TagItem]
    valid: Sequence[TagItem]
    test: Sequence[TagItem]


@dataclass(frozen=True)
class Classification:
    """The answers to the test split, and what was chosen on the validation split."""

    answers: tuple[TaskAnswer, ...]
    pooling: Pooling | Literal["word"]  # `word` for tags
    l2: float
    valid_nats: float  # mean over validation items


def classify(
    asked_model: AskedModel, texts: LabelledTexts, pooling: Pooling = "mean"
) -> Classification:
    """One answer for each test text, by a linear classifier on its pooled states.

    SpecError where a held-out text has a label that no training text has.
    """
    labels = {
        "train": np.array([item.label for item in texts.train]),
        "valid": np.array([item.label for item in texts.valid]),
        "test": np.array([item.label for item in texts.test]),
    }
    _require_known_labels(labels, texts.names)
    states = {
        "train": represent(asked_model, list(map(label_text, texts.train)), pooling),
        "valid": represent(asked_model, list(map(label_text, texts.valid)), pooling),
    }
    model, l2, valid_nats = _choose_l2(states, labels, len(texts.names))
    test = list(map(label_text, texts.test))
    nats_NK = model.nats(represent(asked_model, test, pooling))
    n_truncated = n_truncated_tokens(asked_model, test)
    return Classification(
        answers=label_answers(texts.test, nats_NK, n_truncated),
        pooling=pooling,
        l2=l2,
        valid_nats=valid_nats,
    )


def classify_best_pooling(asked_model: AskedModel, texts: LabelledTexts) -> Classification:
    """The classification by the pooling with the least nats on the validation split, of those
    that the masks permit. It is secondary: what is chosen for each arm is not the same for all.
    """
    everything = list(map(label_text, (*texts.train, *texts.valid, *texts.test)))
    results = []
    for pooling in permitted_poolings(asked_model, everything):
        results.append(classify(asked_model, texts, pooling))
    return min(results, key=lambda one: one.valid_nats)


def classify_words(asked_model: AskedModel, sentences: TaggedSentences) -> Classification:
    """One answer for each test sentence, by a linear classifier on the state at the last token of
    each word.
    """
    labels = {
        "train": _all_tags(sentences.train),
        "valid": _all_tags(sentences.valid),
        "test": _all_tags(sentences.test),
    }
    names = sentences.names
    _require_known_labels(labels, names)
    states = {}
    for split, items in (("train", sentences.train), ("valid", sentences.valid)):
        states[split] = np.concatenate(represent_words(asked_model, [item.words for item in items]))
    model, l2, valid_nats = _choose_l2(states, labels, len(names))
    chosen: list[list[str]] = []
    for states_ND in represent_words(asked_model, [item.words for item in sentences.test]):
        chosen.append([names[number] for number in model.nats(states_ND).argmin(1)])
    return Classification(
        answers=tag_answers(sentences.test, names, chosen, [0] * len(chosen)),
        pooling="word",
        l2=l2,
        valid_nats=valid_nats,
    )


def _all_tags(items: Sequence[TagItem]) -> Numbers:
    tags: list[int] = []
    for item in items:
        tags += item.tags
    return np.array(tags, np.int64)


def _require_known_labels(labels: Mapping[str, Numbers], names: Sequence[str]) -> None:
    """SpecError where a split has no label, or one that the training split has not."""
    for split, numbers in labels.items():
        if not len(numbers):
            raise SpecError(f"split {split!r} has no item; give some")
        unknown = np.setdiff1d(numbers, labels["train"])
        if len(unknown):
            raise SpecError(
                f"split {split!r} has the label {names[unknown[0]]!r}, which no training item has;"
                " leave such items out, or train on some"
            )
    if len(np.unique(labels["train"])) < 2:
        raise SpecError(
            f"split 'train' has the label {names[labels['train'][0]]!r} alone; give items of two"
            " labels or more"
        )


def _choose_l2(
    states: Mapping[str, NDArray[np.floating]], labels: Mapping[str, Numbers], n_labels: int
) -> tuple[LogisticRegression, float, float]:
    """The regression of the grid with the least nats on the validation split, the most penalised
    of equals.
    """
    best: tuple[LogisticRegression, float, float] | None = None
    for l2 in reversed(L2_GRID):
        model = fit_logistic_regression(states["train"], labels["train"], n_labels, l2)
        nats_NK = model.nats(states["valid"])
        nats = float(nats_NK[np.arange(len(nats_NK)), labels["valid"]].mean())
        if best is None or nats < best[2]:
            best = (model, l2, nats)
    assert best is not None
    return best
