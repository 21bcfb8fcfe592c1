"""A step of one token a text, captured once as a CUDA graph over buffers of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from paribus.generate.recording import Step

_N_WARM_UPS = 2  # kernels are compiled, and libraries take their memory


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


class CapturedStep:
    """A step that one answer at a time may use: `load` its tensors, then call it for each token."""

    def __init__(self, step: Step, tensors: Sequence[Tensor], held: object):
        """`step` takes tokens [B, 1], then tensors like these, of which the first holds the places
        of the tokens. `held` is what it reads beside them: a graph knows it by its address alone.
        """
        self._tensors = copy_tensors(tensors)
        self._token_B1, self._held = torch.zeros_like(tensors[0]), held
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


def copy_tensors(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies that lie in memory as they are read."""
    return [tensor.clone(memory_format=torch.contiguous_format) for tensor in tensors]


def load_tensors(own: Sequence[Tensor], given: Sequence[Tensor]) -> None:
    """Copy tensors into those that a graph knows."""
    for target, source in zip(own, given, strict=True):
        target.copy_(source)
