"""Which tokens are hidden: single ones, or spans of them, in fixed number so that all rows have one shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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


@dataclass(frozen=True, eq=False)
class Holes:
    """Where tokens are hidden, where each span of them begins, and the number of the last span begun."""

    gone_BT: Tensor
    starts_BT: Tensor
    number_BT: Tensor

    @staticmethod
    def of(gone_BT: Tensor) -> Holes:
        starts_BT = gone_BT.clone()
        starts_BT[:, 1:] &= ~gone_BT[:, :-1]
        return Holes(gone_BT, starts_BT, starts_BT.cumsum(1) - 1)


def holes(plan: SpanPlan, rows: Iterable[np.random.Generator]) -> Holes:
    """Kept and hidden runs in turn, beginning with a kept one, all lengths drawn evenly; a generator a row."""
    n_kept, n_cuts = plan.n_text - plan.n_hidden, plan.n_spans - 1
    drawn = [(_cuts(n_kept, n_cuts, draws), _cuts(plan.n_hidden, n_cuts, draws)) for draws in rows]
    kept, hidden = (np.stack(cuts) for cuts in zip(*drawn, strict=True))
    lengths = np.stack([_runs(kept, n_kept), _runs(hidden, plan.n_hidden)], 2).ravel()
    gone = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(len(drawn), plan.n_text)
    return Holes.of(torch.from_numpy(gone))


def _cuts(total: int, n: int, draws: np.random.Generator) -> Ints:
    """Where `total` is cut n times, in any order: every way equally likely that leaves no part empty."""
    return draws.choice(total - 1, n, replace=False) + 1 if n else np.zeros(0, np.int64)


def _runs(cuts_BN: Ints, total: int) -> Ints:
    """The lengths of the parts."""
    return np.diff(np.sort(cuts_BN), prepend=0, append=total).astype(np.int64, copy=False)


def corrupted(hole: Holes, values_BT: Tensor, signs_BT: Tensor, end_B: Tensor) -> tuple[Tensor, Tensor]:
    """What is read, a sign for each span; and what is answered: sign, span, …, end."""
    n_rows = len(values_BT)
    read_BT = torch.where(hole.starts_BT, signs_BT, values_BT)
    read_BS = read_BT[~hole.gone_BT | hole.starts_BT].reshape(n_rows, -1)
    told_BT2 = torch.stack([signs_BT, values_BT], 2)
    told_BM = told_BT2[torch.stack([hole.starts_BT, hole.gone_BT], 2)].reshape(n_rows, -1)
    return read_BS, torch.cat([told_BM, end_B[:, None]], 1)
