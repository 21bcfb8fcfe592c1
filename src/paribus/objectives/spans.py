"""Which tokens are hidden: single ones, or spans of them, in fixed number so that all rows have
one shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IntArray = NDArray[np.int64]


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


def plan_spans(n_text: int, rate: float, mean_span: float) -> SpanPlan:
    """T5's counts: a share of the tokens, in spans of that length on average, at least one of
    each kind left.
    """
    n_hidden = min(max(round(n_text * rate), 1), n_text - 1)
    n_spans = min(max(round(n_hidden / mean_span), 1), n_hidden, n_text - n_hidden)
    return SpanPlan(n_text, n_hidden, n_spans)


@dataclass(frozen=True, eq=False)
class HiddenSpans:
    """Where tokens are hidden, where each span of them begins, and the number of the last span
    begun.
    """

    hidden_BT: Tensor
    starts_BT: Tensor
    span_numbers_BT: Tensor

    @staticmethod
    def of(hidden_BT: Tensor) -> HiddenSpans:
        starts_BT = hidden_BT.clone()
        starts_BT[:, 1:] &= ~hidden_BT[:, :-1]
        return HiddenSpans(hidden_BT, starts_BT, starts_BT.cumsum(1) - 1)


def draw_spans(plan: SpanPlan, generators: Iterable[np.random.Generator]) -> HiddenSpans:
    """Kept and hidden runs in turn, beginning with a kept one, all lengths drawn evenly; a
    generator a row.
    """
    n_kept, n_cuts = plan.n_text - plan.n_hidden, plan.n_spans - 1
    cuts_by_row = [
        (_draw_cuts(n_kept, n_cuts, draws), _draw_cuts(plan.n_hidden, n_cuts, draws))
        for draws in generators
    ]
    kept_cuts, hidden_cuts = (np.stack(cuts) for cuts in zip(*cuts_by_row, strict=True))
    lengths = np.stack(
        [_run_lengths(kept_cuts, n_kept), _run_lengths(hidden_cuts, plan.n_hidden)], 2
    ).ravel()
    is_hidden = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(
        len(cuts_by_row), plan.n_text
    )
    return HiddenSpans.of(torch.from_numpy(is_hidden))


def _draw_cuts(total: int, n_cuts: int, generator: np.random.Generator) -> IntArray:
    """Where `total` is cut n times, in any order: every way equally likely that leaves no part
    empty.
    """
    if n_cuts:
        return generator.choice(total - 1, n_cuts, replace=False) + 1
    return np.zeros(0, np.int64)


def _run_lengths(cuts_BN: IntArray, total: int) -> IntArray:
    """The lengths of the parts."""
    return np.diff(np.sort(cuts_BN), prepend=0, append=total).astype(np.int64, copy=False)


def corrupt_spans(
    spans: HiddenSpans, values_BT: Tensor, sentinels_BT: Tensor, eos_B: Tensor
) -> tuple[Tensor, Tensor]:
    """The source, with a sentinel for each span; and the target: sentinel, span, …, eos."""
    n_rows = len(values_BT)
    marked_text_BT = torch.where(spans.starts_BT, sentinels_BT, values_BT)
    source_BS = marked_text_BT[~spans.hidden_BT | spans.starts_BT].reshape(n_rows, -1)
    pairs_BT2 = torch.stack([sentinels_BT, values_BT], 2)
    target_BM = pairs_BT2[torch.stack([spans.starts_BT, spans.hidden_BT], 2)].reshape(n_rows, -1)
    return source_BS, torch.cat([target_BM, eos_B[:, None]], 1)
