"""Answers summed: sums and counts, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paribus.record import Answer


@dataclass(frozen=True)
class AnswerTotals:
    """What a model's answers come to."""

    n_items: int
    n_documents: int
    n_tokens: int
    n_bytes: int
    nats_sum: float
    n_truncated: int  # items whose context did not fit
    n_truncated_tokens: int

    @property
    def bits_per_byte(self) -> float:
        return self.nats_sum / math.log(2) / self.n_bytes

    @property
    def nats_per_item(self) -> float:
        """Of an item, on average."""
        return self.nats_sum / self.n_items


def answer_totals(answers: Sequence[Answer]) -> AnswerTotals:
    """The sums of some answers, one or more."""
    assert answers
    documents = set[str]()
    n_tokens = n_bytes = n_truncated = n_truncated_tokens = 0
    for answer in answers:
        documents.add(answer.document or answer.item)
        n_tokens += answer.n_tokens
        n_bytes += answer.n_bytes
        n_truncated += answer.n_truncated_tokens > 0
        n_truncated_tokens += answer.n_truncated_tokens
    return AnswerTotals(
        n_items=len(answers),
        n_documents=len(documents),
        n_tokens=n_tokens,
        n_bytes=n_bytes,
        nats_sum=math.fsum(answer.nats for answer in answers),
        n_truncated=n_truncated,
        n_truncated_tokens=n_truncated_tokens,
    )
