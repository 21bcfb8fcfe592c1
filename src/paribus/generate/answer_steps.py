"""The next token of texts, again and again, by a step that is recorded once and replayed: on a CPU.

Answers share recordings, however long and however many they are.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from paribus.generate.model_steps import recorded_step
from paribus.generate.step_tensors import StepTensors
from paribus.model import Transformer
from paribus.model.reading import Cache
from paribus.model.steady_pass import SteadyPass

MIN_SLOTS = 256
SLOTS_READ = 64  # a step reads a multiple of so many slots


class AnswerSteps:
    """Texts that grow by one token at a time. What is said of a text that was full is nonsense."""

    def __init__(self, model: Transformer, cache: Cache):
        self._model, self._length = model, max(cache.lengths)
        steady = SteadyPass.of(cache.stack, self._n_slots(MIN_SLOTS), model.spec.max_length)
        self._tensors = StepTensors.of(steady, cache.source)
        self._read_slots()
        self._step = recorded_step(model, self._read, cache.weights)

    def logits(self, token_B: Tensor) -> Tensor:
        """The logits of what follows a token that is read behind each text: [B, V]."""
        if self._length == self._read.steady.n_slots < self._model.spec.max_length:
            self._read_slots()
        self._length += 1
        return self._step(token_B[:, None], *self._flat)

    def _read_slots(self) -> None:
        """Read as many slots as texts have, up to a multiple, in buffers that have room for them.
        What lies behind them costs nothing.
        """
        steady = self._tensors.steady
        if self._length == steady.n_slots:
            steady = steady.with_slots(self._n_slots(2 * self._length))
            self._tensors = replace(self._tensors, steady=steady)
        n_read = min(self._n_slots(SLOTS_READ), steady.n_slots)
        self._read = replace(self._tensors, steady=steady.first_slots(n_read))
        self._flat = self._read.flat()

    def _n_slots(self, multiple: int) -> int:
        """Slots for one token more, a multiple of a number if there are as many."""
        n_slots = (self._length // multiple + 1) * multiple
        return min(n_slots, self._model.spec.max_length)
