"""Spans that tags mark, by hand, and F1 over them."""

import numpy as np
import pytest

from paribus.analyse.tag_spans import document_span_counts, span_counts, span_f1, tag_spans
from paribus.record import TaskAnswer

BY_HAND = [
    ("O O", set()),
    ("B-PER I-PER O", {(0, 2, "PER")}),
    ("B-PER B-PER", {(0, 1, "PER"), (1, 2, "PER")}),
    ("B-PER I-LOC", {(0, 1, "PER"), (1, 2, "LOC")}),  # I- of another kind begins a span
    ("O I-PER I-PER", {(1, 3, "PER")}),  # so does one that goes on with nothing
    ("I-PER O I-PER", {(0, 1, "PER"), (2, 3, "PER")}),
    ("B-PER ‹cut›", {(0, 1, "PER")}),
]


@pytest.mark.parametrize(("tags", "expected"), BY_HAND)
def test_the_spans_of_a_sentence(tags: str, expected: set[tuple[int, int, str]]) -> None:
    assert tag_spans(tags.split()) == expected


def answer(document: str, chosen: str, key: str) -> TaskAnswer:
    return TaskAnswer(item=key, document=document, score=0, count=1, chosen=chosen, key=key)


def test_a_span_is_right_as_a_whole_or_not_at_all() -> None:
    assert span_counts(answer("a", "B-PER I-PER O", "B-PER I-PER O")) == (1, 1, 1)
    assert span_counts(answer("a", "B-PER O O", "B-PER I-PER O")) == (0, 1, 1)
    assert span_counts(answer("a", "B-LOC I-LOC B-PER", "B-PER I-PER B-PER")) == (1, 2, 2)


def test_f1_is_over_all_spans_of_all_documents() -> None:
    answers = [
        answer("a", "B-PER I-PER O", "B-PER I-PER O"),
        answer("a", "O O B-LOC", "O O O"),
        answer("b", "O O O", "B-LOC O B-PER"),
    ]
    counts = document_span_counts(answers)
    assert counts.tolist() == [[1, 2, 1], [0, 0, 2]]
    # one right, of two that were given and three that there are
    assert float(span_f1(counts.sum(0))) == pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3))
    assert float(span_f1(np.zeros(3, np.int64))) == 0.0
