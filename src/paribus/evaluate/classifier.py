"""A linear classifier on `represent`: multinomial logistic regression on states that no longer
move.

It is fitted by full-batch L-BFGS in float64, so the same states always give the same classifier.
The weight of its L2 penalty is the one of a grid with the least nats on the validation split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from paribus.errors import SpecError
from paribus.evaluate.labelled_text import (
    LabelledText,
    TaggedText,
    label_answers,
    label_names,
    require_known_labels,
    tag_answers,
)
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.represent import (
    permitted_poolings,
    represent,
    represent_words,
    text_layout,
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
    flat = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return LogisticRegression(
        mean_D=mean,
        scale_D=scale,
        weight_DK=flat[: width * n_labels].reshape(width, n_labels),
        bias_K=flat[width * n_labels :],
    )


@dataclass(frozen=True)
class LabelledSplits:
    """Items to fit on, to choose by and to be judged on: all texts, or all sentences with
    tags.
    """

    train: Sequence[LabelledText] | Sequence[TaggedText]
    valid: Sequence[LabelledText] | Sequence[TaggedText]
    test: Sequence[LabelledText] | Sequence[TaggedText]


@dataclass(frozen=True)
class Classification:
    """The answers to the test split, and what was chosen on the validation split."""

    answers: tuple[TaskAnswer, ...]
    labels: tuple[str, ...]
    pooling: Pooling | Literal["word"]  # `word` for tags
    l2: float
    valid_nats: float  # mean over validation items


def classify(
    asked_model: AskedModel, splits: LabelledSplits, pooling: Pooling = "mean"
) -> Classification:
    """One answer for each test text, by a linear classifier on its pooled states.

    Labels are those of the training split; SpecError where another split has one more.
    """
    names = _names_of_labels(splits)
    states, labels = {}, {}
    for split in ("train", "valid"):
        items = _texts(splits, split)
        states[split] = represent(asked_model, [item.text for item in items], pooling)
        labels[split] = np.array([names.index(item.label) for item in items])
    model, l2, valid_nats = _choose_l2(states, labels, len(names))
    test = _texts(splits, "test")
    nats_NK = model.nats(represent(asked_model, [item.text for item in test], pooling))
    n_truncated = [_n_truncated(asked_model, item.text) for item in test]
    return Classification(
        answers=label_answers(test, names, nats_NK, n_truncated),
        labels=names,
        pooling=pooling,
        l2=l2,
        valid_nats=valid_nats,
    )


def classify_best_pooling(asked_model: AskedModel, splits: LabelledSplits) -> Classification:
    """The classification by the pooling with the least nats on the validation split, of those
    that the masks permit. It is secondary: what is chosen for each arm is not the same for all.
    """
    texts: list[str] = []
    for split in ("train", "valid", "test"):
        texts += [item.text for item in _texts(splits, split)]
    results = []
    for pooling in permitted_poolings(asked_model, texts):
        results.append(classify(asked_model, splits, pooling))
    return min(results, key=lambda one: one.valid_nats)


def classify_words(asked_model: AskedModel, splits: LabelledSplits) -> Classification:
    """One answer for each test sentence, by a linear classifier on the state at the last token of
    each word.
    """
    names = _names_of_labels(splits)
    states, labels = {}, {}
    for split in ("train", "valid"):
        items = _sentences(splits, split)
        words = represent_words(asked_model, [item.words for item in items])
        states[split] = np.concatenate(words)
        tags: list[int] = []
        for item in items:
            tags += map(names.index, item.tags)
        labels[split] = np.array(tags)
    model, l2, valid_nats = _choose_l2(states, labels, len(names))
    test = _sentences(splits, "test")
    chosen: list[list[int]] = []
    for words in represent_words(asked_model, [item.words for item in test]):
        chosen.append(model.nats(words).argmin(1).tolist())
    return Classification(
        answers=tag_answers(test, names, chosen),
        labels=names,
        pooling="word",
        l2=l2,
        valid_nats=valid_nats,
    )


def _names_of_labels(splits: LabelledSplits) -> tuple[str, ...]:
    names = label_names(splits.train)
    if len(names) < 2:
        there = ", ".join(map(repr, names)) or "none"
        raise SpecError(f"split 'train' has the labels {there}; give items of two labels or more")
    for split in ("valid", "test"):
        items = getattr(splits, split)
        if not items:
            raise SpecError(f"split {split!r} has no item; give some")
        require_known_labels(names, items, split)
    return names


def _texts(splits: LabelledSplits, split: str) -> list[LabelledText]:
    return [item for item in getattr(splits, split) if isinstance(item, LabelledText)]


def _sentences(splits: LabelledSplits, split: str) -> list[TaggedText]:
    return [item for item in getattr(splits, split) if isinstance(item, TaggedText)]


def _choose_l2(
    states: dict[str, NDArray[np.floating]], labels: dict[str, Numbers], n_labels: int
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


def _n_truncated(asked_model: AskedModel, text: str) -> int:
    return max(len(asked_model.tokenizer.encode(text)) - text_layout(asked_model).room, 0)
