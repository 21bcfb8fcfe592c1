"""One token of every row of an engine, by a step that is prepared once and replayed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paribus.generate.answer_steps import SLOTS_READ
from paribus.generate.captured_steps import capture, weights_held
from paribus.generate.model_steps import (
    MIN_TOKENS,
    can_prepare,
    is_recorded,
    recorded_step,
    step_of,
)
from paribus.generate.recording import Step
from paribus.generate.step_tensors import StepTensors
from paribus.model import Transformer
from paribus.model.cache import Keys
from paribus.model.steady_pass import SteadyPass
from paribus.model.text_rows import TextRows


class RowSteps:
    """Prepared steps over rows that texts join and leave. Its model does not train."""

    def __init__(self, model: Transformer, rows: TextRows):
        self._model, self._rows = model, rows
        self._is_captured = rows.device.type == "cuda"
        # rows free keys by themselves
        self._can_prepare = can_prepare(model, longest=0)
        if self._is_captured and model.encoder is not None:
            self._can_prepare = False  # sources have other sizes in every step
        self._n_asked = 0
        self._steps: dict[tuple[object, ...], Step] = {}
        self._graph: RowsGraph | None = None

    def logits(self, tokens: list[int]) -> Tensor | None:
        """The logits of what follows a token that is read behind the text of every row, [B, V].

        None where it must be read in another way: rows reuse slots, or so few steps were asked for
        that it does not pay to prepare one.
        """
        if not self._can_prepare or not self._rows.reserve_places():
            return None
        self._n_asked += 1
        if self._is_captured:
            logits_BV = self._captured_logits(tokens)
        else:
            logits_BV = self._recorded_logits(tokens)
        if logits_BV is not None:
            self._rows.take_places()
        return logits_BV

    def _recorded_logits(self, tokens: list[int]) -> Tensor | None:
        tensors = self._tensors()
        shape = tensors.shape()
        if shape not in self._steps:
            weights = self._rows.weights
            if self._n_asked <= MIN_TOKENS and not is_recorded(self._model, tensors, weights):
                return None
            self._steps[shape] = recorded_step(self._model, tensors, weights)
        return self._steps[shape](torch.tensor(tokens)[:, None], *tensors.flat())

    def _tensors(self) -> StepTensors:
        """What the rows hold, in as many slots as their texts need, up to a multiple."""
        rows = self._rows
        chosen = range(rows.n_rows)
        texts = rows.texts(chosen)
        n_slots = (max(texts.lengths) // SLOTS_READ + 1) * SLOTS_READ
        prefix = torch.tensor(texts.prefixes) if rows.has_prefix else 0
        steady = SteadyPass(
            place_B1=torch.tensor(texts.lengths)[:, None],
            layers=rows.first_slots(n_slots, rows.n_rows),
            prefix=prefix,
            longest=self._model.spec.max_length,
        )
        return StepTensors.of(steady, rows.source(chosen))

    def _captured_logits(self, tokens: list[int]) -> Tensor | None:
        if self._n_asked <= MIN_TOKENS:
            return None
        if self._graph is None or not self._graph.has_buffers_of_rows():
            self._graph = RowsGraph(self._model, self._rows)
        return self._graph.logits(tokens)


class RowsGraph:
    """A step over the buffers of rows, all that they have room for, captured as a CUDA graph.

    A row without a text reads something into its first slot. The text that joins it overwrites
    that.
    """

    def __init__(self, model: Transformer, rows: TextRows):
        self._rows, self._layers = rows, rows.all_slots()
        self._held, n_rows = weights_held(model, rows.weights), rows.n_row_capacity
        # token, place and prefix of each row
        self._numbers_3R = torch.zeros(3, n_rows, dtype=torch.int64, device=rows.device)
        own_3R = self._numbers_3R.clone()
        token_R1, place_R1 = own_3R[0][:, None], own_3R[1][:, None]
        prefix = own_3R[2] if rows.has_prefix else 0
        tensors = StepTensors(SteadyPass(place_R1, self._layers, prefix, model.spec.max_length))
        step, self._logits_RV = step_of(model, tensors, rows.weights), torch.empty(0)

        def run() -> None:
            own_3R.copy_(self._numbers_3R)
            self._logits_RV = step(token_R1, *tensors.flat())

        self._graph, self._run = None, run

    def has_buffers_of_rows(self) -> bool:
        """Are its buffers still those of the rows, in every layer?"""
        return _places(self._rows.all_slots()) == _places(self._layers)

    def logits(self, tokens: list[int]) -> Tensor:
        """The logits of what follows a token of every row, [B, V]."""
        texts = self._rows.texts(range(self._rows.n_rows))
        numbers_3B = torch.tensor([tokens, texts.lengths, texts.prefixes])
        self._numbers_3R.zero_()
        self._numbers_3R[:, : len(tokens)] = numbers_3B.to(self._numbers_3R.device)
        if self._graph is None:
            self._graph = capture(self._run)
        self._graph.replay()
        return self._logits_RV[: len(tokens)]


def _places(layers: Sequence[Keys]) -> list[tuple[int, tuple[int, ...]]]:
    """Where buffers lie, and how large they are."""
    return [(one.data_ptr(), tuple(one.shape)) for keys in layers for one in keys]
