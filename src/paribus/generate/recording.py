"""A function of tensors, recorded once as the operations that it does."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.jit import TracerWarning  # pyright: ignore[reportPrivateImportUsage]

Step = Callable[..., Tensor]


def record(
    step: Step, model: nn.Module, tensors: Sequence[Tensor], others: Sequence[Tensor]
) -> Step:
    """A step over tensors like these, as a program without Python.

    `step` takes tokens [B, 1], then `tensors`, of which the first holds the places of the tokens.
    It may change them in place. Those that are given here stay as they are. `others` may have other
    sizes: with them the recording is compared with the step.
    """
    other_B1 = torch.ones_like(others[0])
    expected = step(other_B1, *_one_place_earlier(others))  # first: it prepares weights
    with warnings.catch_warnings(), _without_gradients(model):
        warnings.simplefilter("ignore", TracerWarning)  # of what Python decides by a shape
        warnings.simplefilter("ignore", DeprecationWarning)
        example = (torch.zeros_like(tensors[0]), *_copies(tensors))
        traced = torch.jit.trace(step, example, check_trace=False)
    assert isinstance(traced, torch.jit.ScriptFunction)
    recorded = Recording(traced.graph)
    # What Python decides by a value is recorded as it was for one token at one place.
    found = recorded(other_B1, *_one_place_earlier(others))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3, equal_nan=True)
    return recorded


class Recording:
    """A program with the weights that it is given at each call. Torch frees no program, and so none
    may hold a weight.
    """

    def __init__(self, graph: torch.Graph):
        self._weights: list[Tensor] = []
        for node in list(graph.nodes()):
            weight = constant_tensor(node)
            if weight is not None:
                self._weights.append(weight.detach())
                node.output().replaceAllUsesWith(graph.addInput())
                node.destroy()
        self.program = torch._C._create_function_from_graph("step", graph)

    def __call__(self, *tensors: Tensor) -> Tensor:
        return self.program(*tensors, *self._weights)


def constant_tensor(node: torch.Node) -> Tensor | None:
    """The tensor that a node of a program holds, if it does."""
    if node.kind() != "prim::Constant":
        return None
    value = node.output().toIValue()
    return value if isinstance(value, Tensor) else None


def _copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.clone() for tensor in tensors]


def _one_place_earlier(tensors: Sequence[Tensor]) -> list[Tensor]:
    copies = _copies(tensors)
    copies[0].sub_(1).clamp_(min=0)
    return copies


@contextmanager
def _without_gradients(model: nn.Module) -> Iterator[None]:
    """A recording takes weights as they are, and refuses those that ask for a gradient."""
    asked = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in asked:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in asked:
            parameter.requires_grad_(True)
