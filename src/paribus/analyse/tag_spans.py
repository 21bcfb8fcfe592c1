"""Spans that tags mark: B- begins one, I- goes on with it; F1 over those that are right as a whole.

A tag I- that goes on with nothing begins a span, as in CoNLL's own scoring.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from paribus.record.task_answers import TAG_SEPARATOR, TaskAnswer

Span = tuple[int, int, str]  # first word, the word after the last, and what it is
BEGIN, INSIDE, OUTSIDE = "B-", "I-", "O"


def tag_spans(tags: Sequence[str]) -> set[Span]:
    """The spans of a sentence. A tag that begins with neither B- nor I- is outside of all."""
    spans: set[Span] = set()
    start, kind = 0, ""
    for place, tag in enumerate([*tags, OUTSIDE]):
        goes_on = bool(kind) and tag == INSIDE + kind
        if goes_on:
            continue
        if kind:
            spans.add((start, place, kind))
        start, kind = place, ""
        if tag.startswith((BEGIN, INSIDE)):
            kind = tag[len(BEGIN) :]
    return spans


def span_counts(answer: TaskAnswer) -> tuple[int, int, int]:
    """Spans of an answer that are right, that were given, and that there are."""
    given = tag_spans(str(answer.chosen).split(TAG_SEPARATOR))
    there = tag_spans(str(answer.key).split(TAG_SEPARATOR))
    return len(given & there), len(given), len(there)


def span_f1(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """F1 of counts, [..., 3]; 0 where there is no span at all."""
    right, both = counts[..., 0], counts[..., 1] + counts[..., 2]
    return np.where(both > 0, 2 * right / np.maximum(both, 1), 0.0)


def document_span_counts(answers: Sequence[TaskAnswer]) -> NDArray[np.int64]:
    """The counts of each document, [documents, 3]."""
    sums: dict[str, NDArray[np.int64]] = {}
    for answer in answers:
        own = sums.setdefault(answer.document, np.zeros(3, np.int64))
        own += np.array(span_counts(answer))
    return np.stack(list(sums.values()))
