"""A recording does what it was made of, and lets go of weights."""

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

from paribus.generate.recording import Recording, Step, constant_tensor, record


def linear_step(layer: nn.Linear, steps: list[int] | None = None) -> Step:
    def step(token_B1: Tensor, place_B1: Tensor, rows_BI: Tensor) -> Tensor:
        if steps is not None:
            steps.append(1)
        place_B1.add_(1)
        return layer(rows_BI) + token_B1 * place_B1

    return step


def tensors_of(n_rows: int) -> list[Tensor]:
    return [torch.arange(3, 3 + n_rows)[:, None], torch.randn(n_rows, 5)]


@torch.no_grad()
def test_a_recording_serves_other_sizes_without_python() -> None:
    layer, steps = nn.Linear(5, 2), []
    recorded = record(linear_step(layer, steps), layer, tensors_of(2), tensors_of(3))
    n_before, (place_B1, rows_BI) = len(steps), tensors_of(7)
    found = recorded(torch.full((7, 1), 4), place_B1, rows_BI)
    torch.testing.assert_close(found, layer(rows_BI) + 4 * torch.arange(4, 11)[:, None])
    assert place_B1[:, 0].tolist() == list(range(4, 11))
    assert len(steps) == n_before
    assert all(parameter.requires_grad for parameter in layer.parameters())


@torch.no_grad()
def test_a_step_that_python_decides_by_a_size_is_refused() -> None:
    layer = nn.Linear(5, 2)

    def step(token_B1: Tensor, place_B1: Tensor, rows_BI: Tensor) -> Tensor:
        return layer(rows_BI) * (1 if len(rows_BI) == 2 else 9) + place_B1 + token_B1

    with pytest.raises(AssertionError, match="not close"):
        record(step, layer, tensors_of(2), tensors_of(3))


@torch.no_grad()
def test_weights_go_when_a_recording_goes() -> None:
    layer = nn.Linear(5, 2)
    recorded = record(linear_step(layer), layer, tensors_of(2), tensors_of(3))
    assert isinstance(recorded, Recording)
    nodes = list(recorded.program.graph.nodes())
    assert nodes
    assert all(constant_tensor(node) is None for node in nodes)
    model = weakref.ref(layer)
    del layer, recorded, nodes
    gc.collect()
    assert model() is None
