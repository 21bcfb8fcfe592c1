"""A step launched kernel by kernel, or replayed from a CUDA graph, so that the device never waits for launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from paribus.objectives import Problem

WARM = 3  # launched steps of one shape before it is captured: compiled, and its memory settled
MOST = 16  # shapes captured; the rest are launched

Out = TypeVar("Out")
Act = Callable[[Sequence[Problem]], Out]


@dataclass(frozen=True, eq=False)
class Captured(Generic[Out]):
    """A graph, the tensors it reads from and those it writes to."""

    graph: torch.cuda.CUDAGraph
    reads: list[Tensor]
    writes: Out


class Replay(Generic[Out]):
    """An act on problems brought to the device; it must keep what it changes in the same tensors, and ask nothing.

    The act is given with each call and not kept: whose it is would live as long as the graphs, and they with it.
    """

    def __init__(self, device: torch.device, captures: bool):
        self.device, self.captures = device, captures
        self.met: Counter[Hashable] = Counter()
        self.graphs: dict[Hashable, Captured[Out]] = {}
        self.pool = torch.cuda.graph_pool_handle() if captures else None  # one for all: no two graphs run at once

    def __call__(self, act: Act[Out], parts: Sequence[Problem]) -> Out:
        if not self.captures:
            return self._launched(act, parts)
        shape = _shape(parts)
        self.met[shape] += 1
        if shape not in self.graphs and (self.met[shape] <= WARM or len(self.graphs) == MOST):
            return self._launched(act, parts)
        if shape not in self.graphs:
            self.graphs[shape] = self._captured(act, parts)
        captured = self.graphs[shape]
        for held, given in zip(captured.reads, _tensors(parts), strict=True):
            held.copy_(given, non_blocking=True)
        captured.graph.replay()
        return captured.writes

    def _launched(self, act: Act[Out], parts: Sequence[Problem]) -> Out:
        return act([part.to(self.device) for part in parts])

    def _captured(self, act: Act[Out], parts: Sequence[Problem]) -> Captured[Out]:
        held = [part.mapped(lambda tensor: tensor.to(self.device, copy=True)) for part in parts]
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()  # what launched steps held is not held twice
        graph = torch.cuda.CUDAGraph()
        # Only calls of this thread count: another one is pinning the next problem meanwhile.
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            writes = act(held)
        return Captured(graph, _tensors(held), writes)


def _tensors(parts: Sequence[Problem]) -> list[Tensor]:
    found: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    for part in parts:
        part.mapped(keep)
    return found


def _shape(parts: Sequence[Problem]) -> Hashable:
    """What a captured step has fixed in it: sizes, and splits that are plain numbers."""
    batches = [batch for part in parts for batch in (part.inputs, part.inputs.source) if batch is not None]
    splits = [batch.layout.prefix for batch in batches if isinstance(batch.layout.prefix, int)]
    return tuple(tuple(tensor.shape) for tensor in _tensors(parts)), tuple(splits)
