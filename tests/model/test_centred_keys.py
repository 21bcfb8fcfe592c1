"""Centred keys: an operation that torch can differentiate and compile, at every length of the
prefix.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.model.kernels.centred_keys import centred_keys

SHAPES = [(3, 4, 16, 8), (1, 1, 5, 3), (2, 1, 1, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("beside_channels", [True, False])
def test_it_is_what_it_tells_the_compiler(shape: tuple[int, ...], beside_channels: bool) -> None:
    key = torch.randn(shape)
    if beside_channels:
        key = key.transpose(1, 2).contiguous().transpose(1, 2)
    torch.library.opcheck(torch.ops.paribus.centred.default, (key.requires_grad_(), 1))


def test_some_of_what_all_see_has_a_mean_of_zero() -> None:
    key = torch.randn(2, 3, 300, 5, dtype=torch.float64)
    torch.testing.assert_close(
        centred_keys(key, 200)[:, :, :200:6].mean(2), torch.zeros(2, 3, 5, dtype=torch.float64)
    )
    key = key[:, :, :9]
    torch.testing.assert_close(
        centred_keys(key, 4)[:, :, :4].mean(2), torch.zeros(2, 3, 5, dtype=torch.float64)
    )
    torch.testing.assert_close(centred_keys(key, 4).diff(dim=2), key.diff(dim=2))


def test_stacked_models_are_centred_each_by_itself() -> None:
    keys = torch.randn(2, 5, 3, 9, 4)
    together = torch.vmap(lambda key: centred_keys(key, 4), in_dims=1, out_dims=1)(keys)
    torch.testing.assert_close(
        together, torch.stack([centred_keys(key, 4) for key in keys.unbind(1)], 1)
    )


def both_sides(states_BTC: Tensor, prefix: int) -> Tensor:
    """As under a prefix: everyone over its keys, the rest over itself; each a call that wants
    its keys in memory.
    """
    query, key, value = (
        part.unflatten(-1, (2, 8)).transpose(1, 2) for part in states_BTC.chunk(3, -1)
    )
    key = centred_keys(key, prefix)
    out = F.scaled_dot_product_attention(query, key[:, :, :prefix], value[:, :, :prefix])
    rest = (part[:, :, prefix:] for part in (query, key, value))
    return torch.cat([out, F.scaled_dot_product_attention(*rest, is_causal=True)], 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")
def test_a_compiled_step_takes_a_prefix_of_any_length() -> None:
    fast = torch.compile(both_sides)
    for prefix in (4, 6, 8, 5):
        leaf = torch.randn(3, 12, 48, requires_grad=True)
        (told,) = torch.autograd.grad(both_sides(leaf, prefix).square().sum(), leaf)
        (got,) = torch.autograd.grad(fast(leaf, prefix).square().sum(), leaf)
        torch.testing.assert_close(got, told)
