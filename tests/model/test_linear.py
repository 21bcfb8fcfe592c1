import pytest
import torch
import torch.nn.functional as F

from paribus.model.linear import JoinedWeights, Linear, fused_linear


def drawn_linear(d_in: int, d_out: int, bias: bool) -> Linear:
    """A layer with weights of order one; it has none of its own before they are drawn."""
    layer = Linear(d_in, d_out, bias)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n_rows", [3, 67])
def test_layers_side_by_side_give_what_each_gives_alone_there_and_back(
    bias: bool, n_rows: int
) -> None:
    drawn = torch.Generator().manual_seed(n_rows)
    layers = [drawn_linear(5, width, bias) for width in (7, 3, 11)]
    rows = torch.randn(2, n_rows, 5, generator=drawn, requires_grad=True)
    upstream = torch.randn(2, n_rows, 21, generator=drawn)
    leaves = [rows, *(parameter for layer in layers for parameter in layer.parameters())]
    apart = torch.cat([F.linear(rows, layer.weight, layer.bias) for layer in layers], -1)
    together = fused_linear(rows, layers)
    torch.testing.assert_close(together, apart)
    with torch.no_grad():
        assert fused_linear(rows, layers).equal(together)
    for got, wanted in zip(
        torch.autograd.grad(together, leaves, upstream),
        torch.autograd.grad(apart, leaves, upstream),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_weights_that_are_joined_once_give_the_same_products(bias: bool) -> None:
    one, two = drawn_linear(5, 3, bias), drawn_linear(5, 4, bias)
    rows, weights = torch.randn(2, 7, 5), JoinedWeights()
    with torch.no_grad():
        expected = torch.cat([one(rows), two(rows)], -1)
        torch.testing.assert_close(weights.product(rows, (one, two)), expected)
        torch.testing.assert_close(weights.product(rows[:, :1], (one, two)), expected[:, :1])
        torch.testing.assert_close(weights.product(rows[:1, :1], (one, two)), expected[:1, :1])
        torch.testing.assert_close(weights.product(rows, (two,)), expected[..., 3:])


@pytest.mark.parametrize("n_rows", [1, 3])
def test_rows_times_a_table(n_rows: int) -> None:
    rows, table_VD, bias = torch.randn(n_rows, 5), torch.randn(11, 5), torch.randn(11)
    weights = JoinedWeights()
    torch.testing.assert_close(weights.table_product(rows, table_VD, None), rows @ table_VD.T)
    torch.testing.assert_close(
        weights.table_product(rows, table_VD, bias), rows @ table_VD.T + bias
    )
