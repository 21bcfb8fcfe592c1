"""A step of one token a text, captured once as a CUDA graph over buffers of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paribus.generate.recording import Step

_N_WARM_UPS = 2  # kernels are compiled, and libraries take their memory


class CapturedStep:
    """A step that one answer at a time may use: `load` its tensors, then call it for each token."""

    def __init__(self, step: Step, tensors: Sequence[Tensor], held: object):
        """`step` takes tokens [B, 1], then tensors like these, of which the first holds the places
        of the tokens. `held` is what it reads beside them: a graph knows it by its address alone.
        """
        self.tensors = [torch.empty_like(tensor).copy_(tensor) for tensor in tensors]
        self._token_B1, self._held = torch.zeros_like(self.tensors[0]), held
        self._graph = torch.cuda.CUDAGraph()
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            for _ in range(_N_WARM_UPS):
                self.tensors[0].zero_()  # what is written now is overwritten by `load`
                step(self._token_B1, *self.tensors)
        here.wait_stream(aside)
        # Other threads may go on with work of their own.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._logits_BV = step(self._token_B1, *self.tensors)

    def load(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Take over what these tensors hold: the tensors that the step changes from now on."""
        for own, given in zip(self.tensors, tensors, strict=True):
            own.copy_(given)
        return self.tensors

    def __call__(self, token_B1: Tensor) -> Tensor:
        """The logits of what follows, [B, V], in a buffer that the next call overwrites."""
        self._token_B1.copy_(token_B1)
        self._graph.replay()
        return self._logits_BV
