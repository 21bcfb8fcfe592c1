"""The next token of texts, again and again, by a step that is prepared once and replayed.

A small model spends most of a step between its products, in Python. A step that was recorded, on a
CPU, or captured as a graph, on CUDA, has only the products. To prepare one takes as long as some
tens of tokens, so short answers do without. Answers of the same shape share it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary

from torch import Tensor

from paribus.generate.captured_step import CapturedStep
from paribus.generate.recording import Step, record
from paribus.generate.step_tensors import StepShape, StepTensors
from paribus.masks import frees_keys
from paribus.model import Transformer
from paribus.model.experts import RoutedExperts
from paribus.model.fused_step import can_fuse_step, fused_logits
from paribus.model.linear import JoinedWeights
from paribus.model.reading import Cache
from paribus.model.steady_pass import SteadyPass

MIN_TOKENS = 32  # that are still to be said, from which on it pays
MIN_SLOTS = 256
MAX_UNFREED_SLOTS = 1024  # of texts whose windows would free keys, which steady buffers do not
MAX_RECORDINGS = 8  # of one model
MAX_FREE = 4  # captured steps of a model that nobody uses; they hold buffers

_recordings: WeakKeyDictionary[Transformer, dict[StepShape, Step]] = WeakKeyDictionary()
_free: WeakKeyDictionary[Transformer, list[tuple[StepShape, CapturedStep]]] = WeakKeyDictionary()


def can_record(model: Transformer, longest: int) -> bool:
    """Can a step be prepared, and is it worth it, for texts that become so long?

    Not with experts: who computes depends on the token.
    """
    if any(isinstance(module, RoutedExperts) for module in model.modules()):
        return False
    if any(frees_keys(rule) for rule in model.spec.stack.masks):
        return longest <= MAX_UNFREED_SLOTS
    return True


class AnswerSteps:
    """Texts that grow by one token at a time. What is said of a text that was full is nonsense."""

    def __init__(self, model: Transformer, cache: Cache):
        self._model, self._weights, self._length = model, cache.weights, max(cache.lengths)
        self._release: Callable[[], object] | None = None  # the captured step, if there is one
        self._is_captured = model.embedding.weight.device.type == "cuda"
        steady = SteadyPass.of(cache.stack, self._n_slots(), model.spec.max_length)
        self._tensors = StepTensors.of(steady, cache.source)
        self._step = self._prepared_step()

    def logits(self, token_B: Tensor) -> Tensor:
        """The logits of what follows a token that is read behind each text: [B, V]. They are
        valid until the next call.
        """
        steady = self._tensors.steady
        if self._length == steady.n_slots < self._model.spec.max_length:
            self._tensors = replace(self._tensors, steady=steady.with_slots(self._n_slots()))
            self._step = self._prepared_step()
        self._length += 1
        return self._step(token_B[:, None])

    def _n_slots(self) -> int:
        """Powers of two, so that texts of other lengths have the same."""
        n_slots = MIN_SLOTS
        while n_slots <= self._length:
            n_slots *= 2
        return min(n_slots, self._model.spec.max_length)

    def _prepared_step(self) -> Callable[[Tensor], Tensor]:
        """One step over the tensors of these texts, as a function of the tokens."""
        if self._is_captured:
            captured, release = self._captured_step(), self._release
            self._tensors = self._tensors.unflatten(captured.load(self._tensors.flat()))
            self._release = weakref.finalize(
                self, _set_free, _free[self._model], self._shape(), captured
            )
            if release is not None:
                release()
            return captured
        recorded, tensors = self._recorded_step(), self._tensors.flat()
        return lambda token_B1: recorded(token_B1, *tensors)

    def _captured_step(self) -> CapturedStep:
        """A captured step that nobody else uses."""
        model, shape = self._model, self._shape()
        free = _free.setdefault(model, [])
        for number, (own_shape, _) in enumerate(free):
            if own_shape == shape:
                return free.pop(number)[1]
        step = _step_of(model, self._tensors, self._weights)
        held = (self._weights, list(model.parameters()))
        return CapturedStep(step, self._tensors.flat(), held)

    def _recorded_step(self) -> Step:
        """A recorded step over tensors like these, as a function of them."""
        shape = self._shape()
        recordings = _recordings.setdefault(self._model, {})
        if shape not in recordings:
            while len(recordings) >= MAX_RECORDINGS:
                recordings.pop(next(iter(recordings)))
            recordings[shape] = record(
                _step_of(self._model, self._tensors, self._weights),
                self._model,
                self._tensors.flat(),
            )
        return recordings[shape]

    def _shape(self) -> StepShape:
        """All that a prepared step depends on. It changes with every change of a weight."""
        versions = (parameter._version for parameter in self._model.parameters())
        return (*self._tensors.shape(), *versions)


def _set_free(
    free: list[tuple[StepShape, CapturedStep]], shape: StepShape, captured: CapturedStep
) -> None:
    """The latest are kept."""
    free.append((shape, captured))
    del free[:-MAX_FREE]


def _step_of(model: Transformer, like: StepTensors, weights: JoinedWeights) -> Step:
    """One step as a function of tensors alone."""
    is_fused = can_fuse_step(model, len(like.steady.place_B1))

    def step(token_B1: Tensor, *flat: Tensor) -> Tensor:
        tensors = like.unflatten(flat)
        if is_fused:
            return fused_logits(model, token_B1, tensors.steady, tensors.source, weights)
        states_B1D = model.step(token_B1, tensors.steady, tensors.source, weights)
        return model.logits(states_B1D[:, 0], weights)

    return step
