"""What rows of a batch have said so far, and which of them go on."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from paribus.generate.answer_batch import n_positions_read
from paribus.generate.requests import RowRequests
from paribus.objectives.framing import Ids, ItemLayout


class SaidRows:
    """Answers that grow together, in one buffer. A row that is finished says padding."""

    def __init__(
        self,
        layout: ItemLayout,
        inputs_BT: Tensor,
        lengths_B: Tensor | None,
        requests: RowRequests,
    ):
        device, n_rows = inputs_BT.device, len(inputs_BT)
        self._n_opening, self.n_said, self.pad = len(layout.opening), 0, layout.vocabulary.pad
        self.n_places = requests.n_tokens  # that the longest answer may have
        n_columns = self._n_opening + self.n_places
        self._buffer_BT = inputs_BT.new_full((n_rows, n_columns), self.pad)
        self._buffer_BT[:, : self._n_opening] = torch.tensor(layout.opening, device=device)
        self.ends, self._is_done = layout.end_tokens, requests.is_done
        self._end_tokens = torch.tensor(self.ends, device=device)
        n_read_B = n_positions_read(layout, inputs_BT, lengths_B, self._n_opening)
        asked_B = torch.tensor([one.n_tokens for one in requests.samplings], device=device)
        self.limits_B = torch.minimum(asked_B, layout.window + 1 - n_read_B)
        self._limits = sorted(set(self.limits_B.tolist()))
        self.is_finished_B = torch.zeros(n_rows, dtype=torch.bool, device=device)
        self._n_finished = 0
        self.lengths_B = torch.zeros(n_rows, dtype=torch.int64, device=device)

    @property
    def answer_BT(self) -> Tensor:
        """What opens each answer, and what it said."""
        return self._buffer_BT[:, : self._n_opening + self.n_said]

    @property
    def said_BT(self) -> Tensor:
        return self._buffer_BT[:, self._n_opening : self._n_opening + self.n_said]

    def all_finished(self) -> bool:
        """Does no row say anything more? Rows that are at their limit finish here."""
        if self._limits and self._limits[0] <= self.n_said:
            self._limits = [limit for limit in self._limits if limit > self.n_said]
            self._finish(self.limits_B <= self.n_said)
        return self._n_finished == len(self.is_finished_B)

    def say(self, token_B: Tensor) -> Tensor:
        """Let each row that goes on say its token: what was said, with padding."""
        if self._n_finished:
            token_B = torch.where(self.is_finished_B, self.pad, token_B)
            self.lengths_B += ~self.is_finished_B
        else:
            self.lengths_B += 1
        self._buffer_BT[:, self._n_opening + self.n_said] = token_B
        self.n_said += 1
        if self.ends:
            self._finish(torch.isin(token_B, self._end_tokens))
        if self._is_done is not None:
            self._finish(self._rows_done(self._is_done))
        return token_B

    def take(self, said_BT: Tensor, lengths_B: Tensor) -> None:
        """All rows are finished: what they said from the beginning, and how many tokens each."""
        self.n_said = int(lengths_B.max())
        columns = slice(self._n_opening, self._n_opening + self.n_said)
        self._buffer_BT[:, columns] = said_BT[:, : self.n_said]
        self.lengths_B = lengths_B.clone()
        self._finish(torch.ones_like(self.is_finished_B))

    def _finish(self, is_finished_B: Tensor) -> None:
        self.is_finished_B |= is_finished_B
        self._n_finished = int(self.is_finished_B.sum())

    def _rows_done(self, is_done: Callable[[int, Ids], bool]) -> Tensor:
        """Which of the rows that are not finished are done now."""
        done_rows = []
        for row, (tokens, was_finished) in enumerate(
            zip(self.said_BT.tolist(), self.is_finished_B.tolist(), strict=True)
        ):
            done_rows.append(not was_finished and is_done(row, tuple(tokens)))
        return torch.tensor(done_rows, device=self.said_BT.device)
