"""One token of every row of an engine, by a step that is recorded once and replayed."""

from __future__ import annotations

import torch
from torch import Tensor

from paribus.generate.answer_steps import (
    MIN_TOKENS,
    SLOTS_READ,
    StepTensors,
    can_record,
    is_recorded,
    recorded_step,
)
from paribus.generate.recording import Step
from paribus.model import Transformer
from paribus.model.steady_pass import SteadyPass
from paribus.model.text_rows import TextRows


class RowSteps:
    """Recorded steps over rows that texts join and leave. Its model does not train."""

    def __init__(self, model: Transformer, rows: TextRows):
        self._model, self._rows = model, rows
        self._can_record = can_record(model, longest=0)  # rows free keys by themselves
        self._n_asked = 0
        self._steps: dict[tuple[object, ...], Step] = {}

    def logits(self, tokens: list[int]) -> Tensor | None:
        """The logits of what follows a token that is read behind the text of every row, [B, V].

        None where it must be read in another way: rows reuse slots, or so few steps were asked for
        that a recording does not pay.
        """
        if not self._can_record or not self._rows.reserve_places():
            return None
        self._n_asked += 1
        tensors = self._tensors()
        shape = tensors.shape()
        if shape not in self._steps:
            if self._n_asked <= MIN_TOKENS and not self._is_recorded(tensors):
                return None
            self._steps[shape] = recorded_step(self._model, tensors, self._rows.weights)
        logits_BV = self._steps[shape](torch.tensor(tokens)[:, None], *tensors.flat())
        self._rows.take_places()
        return logits_BV

    def _is_recorded(self, tensors: StepTensors) -> bool:
        return is_recorded(self._model, tensors, self._rows.weights)

    def _tensors(self) -> StepTensors:
        """What the rows hold, in as many slots as their texts need, up to a multiple."""
        rows = self._rows
        chosen = range(rows.n_rows)
        texts = rows.texts(chosen)
        n_slots = (max(texts.lengths) // SLOTS_READ + 1) * SLOTS_READ
        prefix = torch.tensor(texts.prefixes) if rows.has_prefix else 0
        steady = SteadyPass(
            place_B1=torch.tensor(texts.lengths)[:, None],
            layers=rows.first_slots(n_slots),
            prefix=prefix,
            longest=self._model.spec.max_length,
        )
        return StepTensors.of(steady, rows.source(chosen))
