import math

import pytest
import torch

from paribus.model.feed_forward import FeedForward, apply_activation

BY_FORMULA = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("name", BY_FORMULA)
def test_each_activation_is_its_formula(name):
    values = [-3.0, -1.1, -0.3, 0.0, 0.2, 0.7, 1.3, 2.9]
    expected = [BY_FORMULA[name](x) for x in values]
    assert apply_activation(torch.tensor(values), name).tolist() == pytest.approx(
        expected, abs=1e-6
    )


def test_the_two_gelus_are_not_the_same():
    values = torch.tensor([1.0])
    assert apply_activation(values, "gelu").item() != apply_activation(values, "gelu_tanh").item()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gated", [True, False])
def test_the_branch_is_down_of_the_activated_inside(gated, bias):
    torch.manual_seed(7)
    branch = FeedForward(5, 11, "silu", gated, bias)
    for parameter in branch.parameters():
        torch.nn.init.normal_(parameter)  # they have no values before they are drawn
    rows = torch.randn(2, 3, 5)

    def product(layer, x):
        return x @ layer.weight.T + (layer.bias if bias else 0.0)

    up = product(branch.up, rows)
    into = product(branch.gate, rows) if gated else up
    inside = into * torch.sigmoid(into) * (up if gated else 1.0)
    torch.testing.assert_close(branch(rows), product(branch.down, inside))
