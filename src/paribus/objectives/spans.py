"""Which tokens are hidden: single ones, or spans of them, in fixed number so that all rows have one shape."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SpanPlan:
    """How a text of `n_text` tokens is cut: tokens hidden, and the number of spans they form."""

    n_text: int
    n_hidden: int
    n_spans: int

    @property
    def n_inputs(self) -> int:
        """What is read: the tokens left, and a sentinel a span."""
        return self.n_text - self.n_hidden + self.n_spans

    @property
    def n_targets(self) -> int:
        """What is answered: a sentinel before each span, the spans, and the end."""
        return self.n_hidden + self.n_spans + 1


def planned(n_text: int, rate: float, mean_span: float) -> SpanPlan:
    """T5's counts: a share of the tokens, in spans of that length on average, at least one of each kind left."""
    n_hidden = min(max(round(n_text * rate), 1), n_text - 1)
    n_spans = min(max(round(n_hidden / mean_span), 1), n_hidden, n_text - n_hidden)
    return SpanPlan(n_text, n_hidden, n_spans)


def hidden(plan: SpanPlan, draws: np.random.Generator) -> NDArray[np.bool_]:
    """Where tokens are hidden: kept and hidden runs in turn, beginning with a kept one, all lengths drawn evenly."""
    kept, gone = _runs(plan.n_text - plan.n_hidden, plan.n_spans, draws), _runs(plan.n_hidden, plan.n_spans, draws)
    lengths = np.stack([kept, gone], 1).ravel()
    return np.repeat(np.arange(2 * plan.n_spans) % 2 == 1, lengths)


def _runs(total: int, n: int, draws: np.random.Generator) -> Ints:
    """`total` cut into n parts of one or more, every way equally likely."""
    cuts = np.sort(draws.choice(total - 1, n - 1, replace=False)) + 1 if n > 1 else np.zeros(0, np.int64)
    return np.diff(np.concatenate([[0], cuts, [total]])).astype(np.int64)


def corrupted(tokens: Ints, gone: NDArray[np.bool_], sentinels: Ints, end: int) -> tuple[Ints, Ints]:
    """The text with each hidden span as its sentinel, and the answer: sentinel, span, …, end."""
    starts = gone & ~np.concatenate([[False], gone[:-1]])
    number = np.cumsum(starts) - 1
    read = np.where(starts, sentinels[number], tokens)[~gone | starts]
    first = np.flatnonzero(starts)
    spans = np.split(tokens[gone], np.cumsum([gone[a:b].sum() for a, b in itertools.pairwise(first)]))
    told = [part for place, span in enumerate(spans) for part in ([sentinels[place]], span)]
    return read, np.concatenate([*told, [end]])
