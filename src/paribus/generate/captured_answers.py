"""Answers that a CUDA device says on its own: a graph lets each row say a token and notes it.

The host replays it, sends draws ahead, and now and then looks whether all rows are finished. It
never waits for a token.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paribus.generate.captured_step import capture, copy_tensors, load_tensors
from paribus.generate.choosing import draw_uniforms
from paribus.generate.recording import Step
from paribus.generate.requests import TokenChooser
from paribus.generate.said_rows import SaidRows

AT_ONCE = 16  # tokens after which the host looks at the rows


class CapturedAnswers:
    """A graph, and the buffers of the rows that it knows. One answer at a time may use it."""

    def __init__(
        self,
        step: Step,
        tensors: Sequence[Tensor],
        rows: SaidRows,
        chooser: TokenChooser,
        seen_BV: Tensor | None,
        n_places: int,
    ):
        """`step` takes tokens [B, 1], then tensors like these; see `CapturedStep`. Rows of the
        same settings with at most `n_places` tokens may use it.
        """
        n_rows, device = len(rows.lengths_B), rows.lengths_B.device
        self._step, self._tensors, self._chooser = step, copy_tensors(tensors), chooser
        self._bar_V = chooser.bar_V.clone()
        self._ends, self._pad = rows.end_tokens, rows.pad
        self._token_B1 = torch.zeros(n_rows, 1, dtype=torch.int64, device=device)
        self._place_1 = torch.zeros(1, dtype=torch.int64, device=device)
        self._said_BT = torch.zeros(n_rows, n_places, dtype=torch.int64, device=device)
        self._draws_BT = torch.zeros(n_rows, n_places, dtype=torch.float64, device=device)
        self._lengths_B = torch.zeros(n_rows, dtype=torch.int64, device=device)
        self._limits_B = torch.full_like(self._lengths_B, n_places)
        self._is_finished_B = torch.zeros(n_rows, dtype=torch.bool, device=device)
        self._seen_BV = None if seen_BV is None else seen_BV.clone()
        self._tensors[0].zero_()  # what is written now is overwritten when rows come
        self._graph = capture(self._say)

    def run(
        self,
        tensors: Sequence[Tensor],
        rows: SaidRows,
        chooser: TokenChooser,
        seen_BV: Tensor | None,
    ) -> None:
        """Let rows that said something say the rest."""
        self._load(tensors, rows, chooser, seen_BV)
        first, n_places = rows.n_said, rows.n_places
        is_over: list[_Look] = []
        place = first
        while place < n_places:
            n_now = min(AT_ONCE, n_places - place)
            if chooser.choices.temperature_B is not None:
                drawn_BT = torch.from_numpy(
                    draw_uniforms(chooser.requests.streams, n_now, place)
                ).pin_memory()
                self._draws_BT[:, place : place + n_now].copy_(drawn_BT, non_blocking=True)
            for _ in range(n_now):
                self._graph.replay()
            place += n_now
            is_over.append(_Look(self._is_finished_B))
            if len(is_over) > 1 and is_over[-2].is_true():
                break
        rows.take(self._said_BT[:, first:place], self._lengths_B, self._is_finished_B)

    def _load(
        self,
        tensors: Sequence[Tensor],
        rows: SaidRows,
        chooser: TokenChooser,
        seen_BV: Tensor | None,
    ) -> None:
        load_tensors(self._tensors, tensors)
        self._bar_V.copy_(chooser.bar_V)
        self._token_B1.copy_(rows.said_BT[:, -1:])
        self._place_1.fill_(rows.n_said)
        self._lengths_B.copy_(rows.lengths_B)
        self._limits_B.copy_(rows.limits_B)
        self._is_finished_B.copy_(rows.is_finished_B)
        if seen_BV is not None and self._seen_BV is not None:
            self._seen_BV.copy_(seen_BV)

    def _say(self) -> None:
        """One token of each row. A row that is finished says padding."""
        logits_BV = self._step(self._token_B1, *self._tensors).float() + self._bar_V
        place_B1 = self._place_1.expand(len(self._token_B1), 1)
        draws_B = self._draws_BT.gather(1, place_B1)[:, 0]
        token_B = self._chooser.choose_by(logits_BV, draws_B, self._seen_BV)
        token_B = token_B.masked_fill(self._is_finished_B, self._pad)
        self._said_BT.scatter_(1, place_B1, token_B[:, None])
        if self._seen_BV is not None:
            self._seen_BV.scatter_(1, token_B[:, None], True)
        self._lengths_B.add_(~self._is_finished_B)
        for end in self._ends:
            self._is_finished_B.logical_or_(token_B == end)
        self._is_finished_B.logical_or_(self._lengths_B >= self._limits_B)
        self._token_B1.copy_(token_B[:, None])
        self._place_1.add_(1)


class _Look:
    """Whether all of some rows are finished, as the device finds it when it comes there."""

    def __init__(self, is_finished_B: Tensor):
        self._is_over = torch.empty(1, dtype=torch.bool, pin_memory=True)
        self._is_over.copy_(is_finished_B.all(), non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record()

    def is_true(self) -> bool:
        """Wait for the device and look."""
        self._event.synchronize()
        return bool(self._is_over)
