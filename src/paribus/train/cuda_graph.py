"""A step launched kernel by kernel, or replayed from a CUDA graph, so that the device never
waits for launches.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from paribus.objectives import Problem
from paribus.train.compile_clock import CompileClock
from paribus.train.compile_turns import CompileTurns

WARMUP_STEPS = (
    3  # launched steps of one shape before it is captured: compiled, and its memory settled
)
MAX_GRAPHS = 16  # shapes captured; the rest are launched

Out = TypeVar("Out")
StepFunction = Callable[[Sequence[Problem]], Out]


@dataclass(frozen=True, eq=False)
class CapturedGraph(Generic[Out]):
    """A graph, the tensors it reads from and those it writes to."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    outputs: Out


class CUDAGraphRunner(Generic[Out]):
    """An act on problems brought to the device; it must keep what it changes in the same
    tensors, and ask nothing.

    The act is given with each call and not kept: whose it is would live as long as the graphs, and
    they with it.
    """

    def __init__(self, device: torch.device, captures: bool, turns: CompileTurns):
        self.device, self.captures, self.turns = device, captures, turns
        self.clock = CompileClock()
        self.n_calls: Counter[Hashable] = Counter()
        self.graphs: dict[Hashable, CapturedGraph[Out]] = {}
        self.has_collected = False
        # one for all: no two graphs run at once
        self.pool = torch.cuda.graph_pool_handle() if captures else None

    def __call__(self, function: StepFunction[Out], micro_batches: Sequence[Problem]) -> Out:
        if not self.captures:
            with self.clock.count_if_compiling():
                return self._launch(function, micro_batches)
        shape = _graph_key(micro_batches)
        self.n_calls[shape] += 1
        if shape not in self.graphs and (
            self.n_calls[shape] <= WARMUP_STEPS or len(self.graphs) == MAX_GRAPHS
        ):
            return self._launch_in_turn(function, micro_batches)
        if shape not in self.graphs:
            self.graphs[shape] = self._capture(function, micro_batches)
        captured = self.graphs[shape]
        for place, tensor in zip(captured.inputs, _tensors(micro_batches), strict=True):
            place.copy_(tensor, non_blocking=True)
        captured.graph.replay()
        return captured.outputs

    def _launch_in_turn(self, function: StepFunction[Out], micro_batches: Sequence[Problem]) -> Out:
        with ExitStack() as turn:
            with self.clock.count_wait():
                turn.enter_context(self.turns.take(code_key(micro_batches)))
            with self.clock.count_if_compiling():
                return self._launch(function, micro_batches)

    def _launch(self, function: StepFunction[Out], micro_batches: Sequence[Problem]) -> Out:
        return function([problem.to(self.device) for problem in micro_batches])

    def _capture(
        self, function: StepFunction[Out], micro_batches: Sequence[Problem]
    ) -> CapturedGraph[Out]:
        inputs: list[Problem] = []
        for problem in micro_batches:
            inputs.append(problem.map_tensors(lambda tensor: tensor.to(self.device, copy=True)))
        torch.cuda.synchronize(self.device)
        with self.clock.count():
            self._collect_garbage()
            torch.cuda.empty_cache()  # what launched steps held is not held twice
            graph = torch.cuda.CUDAGraph()
            # Only calls of this thread count: another one is pinning the next problem meanwhile.
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                outputs = function(inputs)
        return CapturedGraph(graph, _tensors(inputs), outputs)

    def _collect_garbage(self) -> None:
        """An autograd graph that only waits for the garbage collector was made on another stream,
        which can invalidate a capture.

        Where torch's compiler is loaded, a look at all objects takes as long as dozens of steps. So
        later looks leave out what was there at the first, for as long as this runner lives.
        """
        gc.collect()
        if not self.has_collected:
            self.has_collected = True
            gc.freeze()
            weakref.finalize(self, gc.unfreeze)


def _tensors(micro_batches: Sequence[Problem]) -> list[Tensor]:
    tensors: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    for problem in micro_batches:
        problem.map_tensors(collect)
    return tensors


def code_key(micro_batches: Sequence[Problem]) -> Hashable:
    """What compiled code has fixed in it: which tensors are read, and their sizes. It serves every
    split. Pairs are laid out with more tensors than running text, and have code of their own.
    """
    read: list[Hashable] = []
    for problem in micro_batches:
        for batch in (problem.inputs, problem.inputs.source):
            if batch is not None:
                read += [_tensor_sizes(batch), _tensor_sizes(batch.layout)]
    return tuple(read)


def _tensor_sizes(owner: object) -> Hashable:
    sizes = {
        name: tensor.shape for name, tensor in vars(owner).items() if isinstance(tensor, Tensor)
    }
    return tuple((name, tuple(size)) for name, size in sorted(sizes.items()))


def _graph_key(micro_batches: Sequence[Problem]) -> Hashable:
    """What a captured step has fixed in it: sizes, and splits that are plain numbers."""
    splits: list[int] = []
    for problem in micro_batches:
        for batch in (problem.inputs, problem.inputs.source):
            if batch is not None and isinstance(batch.layout.prefix, int):
                splits.append(batch.layout.prefix)
    return tuple(tuple(tensor.shape) for tensor in _tensors(micro_batches)), tuple(splits)
