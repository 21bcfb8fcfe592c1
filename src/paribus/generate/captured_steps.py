"""The next token of texts, again and again, by a step that is captured once as a graph: on CUDA.

A graph has buffers of its own, so one answer at a time uses it. Answers of the same shape use it
one after another.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from paribus.generate.model_steps import ModelSteps, model_steps, step_of
from paribus.generate.step_tensors import StepShape, StepTensors
from paribus.model import Transformer
from paribus.model.linear import JoinedWeights
from paribus.model.reading import Cache
from paribus.model.steady_pass import SteadyPass

MIN_SLOTS = 256
_N_WARM_UPS = 2  # kernels are compiled, and libraries take their memory

Graph = TypeVar("Graph")


class CapturedSteps:
    """Texts that grow by one token at a time. What is said of a text that was full is nonsense."""

    def __init__(self, model: Transformer, cache: Cache):
        self._model, self._weights, self._length = model, cache.weights, max(cache.lengths)
        self._release: Callable[[], object] | None = None
        self._n_slots = n_steady_slots(self._length + 1, model)
        self._tensors = steady_tensors(model, cache, self._n_slots)
        self._step = self._captured_step()

    def logits(self, token_B: Tensor) -> Tensor:
        """The logits of what follows a token that is read behind each text, [B, V]. The next call
        overwrites them.
        """
        if self._length == self._n_slots < self._model.spec.max_length:
            self._n_slots = n_steady_slots(self._length + 1, self._model)
            steady = self._tensors.steady.with_slots(self._n_slots)
            self._tensors = replace(self._tensors, steady=steady)
            self._step = self._captured_step()
        self._length += 1
        return self._step(token_B[:, None])

    def _captured_step(self) -> CapturedStep:
        """A captured step over the tensors of these texts, which are its own from now on."""
        tensors, release = self._tensors, self._release
        steps = model_steps(self._model, self._weights)
        step, self._release = take_graph(
            self,
            steps,
            ("step", *sized_shape(tensors)),
            lambda: CapturedStep(self._model, tensors, steps.weights),
        )
        self._tensors = tensors.unflatten(step.load(tensors.flat()))
        if release is not None:
            release()
        return step


class CapturedStep:
    """A step that one answer at a time may use: `load` its tensors, then call it for each token."""

    def __init__(self, model: Transformer, like: StepTensors, weights: JoinedWeights):
        """One for tensors like these."""
        self._tensors = copy_tensors(like.flat())
        self._token_B1 = torch.zeros_like(like.steady.place_B1)
        self._held, step = weights_held(model, weights), step_of(model, like, weights)
        self._logits_BV = torch.empty(0)

        def run() -> None:
            self._logits_BV = step(self._token_B1, *self._tensors)

        self._tensors[0].zero_()  # what is written now is overwritten by `load`
        self._graph = capture(run)

    def load(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Take over what these tensors hold: the tensors that the step changes from now on."""
        load_tensors(self._tensors, tensors)
        return self._tensors

    def __call__(self, token_B1: Tensor) -> Tensor:
        """The logits of what follows, [B, V], in a buffer that the next call overwrites."""
        self._token_B1.copy_(token_B1)
        self._graph.replay()
        return self._logits_BV


def capture(run: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """What a function does on the device, to be replayed. It is called some times before."""
    here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        for _ in range(_N_WARM_UPS):
            run()
    here.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    # Other threads may go on with work of their own.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        run()
    return graph


def take_graph(
    owner: object, steps: ModelSteps, shape: StepShape, make: Callable[[], Graph]
) -> tuple[Graph, Callable[[], object]]:
    """A graph that nobody else uses, and how to release it; the end of its owner does so, too."""
    graph = steps.take_graph(shape)
    if graph is None:
        graph = make()
    return graph, weakref.finalize(owner, steps.free_graph, shape, graph)


def steady_tensors(model: Transformer, cache: Cache, n_slots: int) -> StepTensors:
    """What a cache holds, in buffers of so many slots."""
    steady = SteadyPass.of(cache.stack, n_slots, model.spec.max_length)
    return StepTensors.of(steady, cache.source)


def n_steady_slots(length: int, model: Transformer) -> int:
    """Slots for texts of a length: a power of two, so that texts of other lengths have as many."""
    n_slots = MIN_SLOTS
    while n_slots < length:
        n_slots *= 2
    return min(n_slots, model.spec.max_length)


def sized_shape(tensors: StepTensors) -> StepShape:
    """What a graph depends on beside values."""
    return (*tensors.shape(), *(tuple(one.shape) for one in tensors.flat()))


def weights_held(model: Transformer, weights: JoinedWeights) -> object:
    """What a graph reads beside its buffers, and knows by its address alone."""
    return (weights, list(model.parameters()))


def copy_tensors(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies that lie in memory as they are read."""
    return [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors]


def load_tensors(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors into those that a graph knows."""
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)
