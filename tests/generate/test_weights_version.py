"""The version of weights changes with them, whoever changes them."""

import pytest
import torch
from tiny_model import tiny_architecture

from paribus.generate.weights_version import weights_version
from paribus.model import build

NAME = "stack.layers.0.attention.query.weight"


def test_weights_that_stay_have_one_version() -> None:
    model = build(tiny_architecture("gpt2"))
    assert weights_version(model) == weights_version(model)


@pytest.mark.parametrize("fused", [True, False])
def test_a_step_of_an_optimizer_is_another_version(fused: bool) -> None:
    model = build(tiny_architecture("gpt2"))
    before = weights_version(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=fused)
    model(torch.arange(6).view(1, 6)).logits_BTV.square().sum().backward()
    optimizer.step()
    assert weights_version(model) != before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_one_number_that_changes_behind_the_back_of_torch_is_another_version(
    dtype: torch.dtype,
) -> None:
    model = build(tiny_architecture("gpt2")).to(dtype)
    before = weights_version(model)
    model.get_parameter(NAME).data[-1, -1] *= 1.5
    assert weights_version(model) != before


def test_weights_of_an_odd_number_of_bytes_are_counted_to_their_end() -> None:
    model = torch.nn.Linear(3, 1, dtype=torch.bfloat16)
    seen = set()
    for number in range(1000):
        model.weight.data[0, 2] = number / 1024
        seen.add(weights_version(model))
    assert len(seen) == len({float(torch.tensor(n / 1024).bfloat16()) for n in range(1000)})
