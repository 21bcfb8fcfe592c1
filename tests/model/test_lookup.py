"""Rows of a table, tokens to experts and back: the same answers and gradients as torch's own,
in a fixed order.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.model.lookup import inverse_permutation, look_up, row_sums
from paribus.model.routing import (
    _one_hot,
    _PermuteTokens,
    _UnpermuteOutputs,
    chosen_scores,
    multi_hot,
    permute_tokens,
    unpermute_outputs,
)
from paribus.train.determinism import deterministic_algorithms


def test_a_lookup_is_an_embedding() -> None:
    table, places = torch.randn(7, 5, requires_grad=True), torch.tensor([[0, 3, 3], [6, 0, 3]])
    grad = torch.randn(2, 3, 5)
    assert look_up(places, table).equal(F.embedding(places, table))
    (mine,), (true,) = (
        torch.autograd.grad(read(places, table), (table,), grad) for read in (look_up, F.embedding)
    )
    assert mine.equal(true)


def test_the_inverse_of_an_order_puts_everything_back() -> None:
    order = torch.tensor([3, 0, 2, 1])
    assert inverse_permutation(order).tolist() == [1, 3, 2, 0]


def routed() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Five tokens of three channels, each with two of seven experts: tokens, experts, order and
    places.
    """
    tokens = torch.randn(5, 3, requires_grad=True)
    experts = torch.tensor([[6, 0], [2, 6], [0, 1], [6, 2], [4, 0]])
    order = experts.flatten().argsort(stable=True)
    return tokens, experts, order, inverse_permutation(order)


def test_what_is_sent_in_order_is_what_is_selected() -> None:
    tokens, _, order, places = routed()
    grad = torch.randn(10, 3)
    plain, ours = (
        permute_tokens(tokens, order, places, 2),
        _PermuteTokens.apply(tokens, order, places, 2),
    )
    assert isinstance(ours, Tensor)
    assert ours.equal(plain)
    (true,), (mine,) = (torch.autograd.grad(one, (tokens,), grad) for one in (plain, ours))
    torch.testing.assert_close(mine, true)


def test_what_is_returned_in_order_is_what_is_selected() -> None:
    _, _, order, places = routed()
    answers, grad = torch.randn(10, 3, requires_grad=True), torch.randn(10, 3)
    plain, ours = (
        unpermute_outputs(answers, order, places),
        _UnpermuteOutputs.apply(answers, order, places),
    )
    assert isinstance(ours, Tensor)
    assert ours.equal(plain)
    (true,), (mine,) = (torch.autograd.grad(one, (answers,), grad) for one in (plain, ours))
    assert mine.equal(true)


def test_picks_and_marks_are_those_of_a_comparison() -> None:
    _, experts, _, _ = routed()
    scores = torch.rand(5, 7)
    hot = _one_hot(experts, 7)
    assert chosen_scores(scores, experts).equal(torch.where(hot, scores[:, None], 0.0).sum(-1))
    assert multi_hot(scores, experts).equal(hot.any(-2).float())


SHAPES = [
    (37, 23, 7),
    (37, 23, 160),
    (4096, 256, 8192),
    (2, 768, 5000),
    (32, 12, 70000),
    (40000, 40, 9000),
]


@pytest.mark.gpu
@pytest.mark.parametrize(("n_rows", "width", "n_read"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_rows_are_exact_and_repeat(
    n_rows: int, width: int, n_read: int, dtype: torch.dtype
) -> None:
    draw = torch.Generator().manual_seed(1)
    # few rows are read by many
    places = (torch.rand(n_read, generator=draw) ** 3 * n_rows).long().cuda()
    grads = torch.randn(n_read, width, generator=draw).to("cuda", dtype)
    exact = torch.zeros(n_rows, width, device="cuda", dtype=torch.float64).index_add_(
        0, places, grads.double()
    )
    mine = row_sums(grads, places, n_rows)
    assert mine.dtype == dtype
    torch.testing.assert_close(
        mine.double(), exact, rtol=1e-5 if dtype == torch.float32 else 0.01, atol=1e-3
    )
    assert all(row_sums(grads, places, n_rows).equal(mine) for _ in range(5))


@pytest.mark.gpu
def test_on_cuda_the_gradient_of_a_lookup_is_ours_where_determinism_is_asked() -> None:
    table, places = (
        torch.randn(50, 24, device="cuda", requires_grad=True),
        torch.randint(50, (40, 30), device="cuda"),
    )
    with deterministic_algorithms(True):
        read = look_up(places, table)
        assert "LookUp" in type(read.grad_fn).__name__
        (mine,) = torch.autograd.grad(read.sum(), (table,))
    counts = torch.bincount(places.flatten(), minlength=50).float()
    assert mine.equal(counts[:, None].expand(-1, 24))
    assert "LookUp" not in type(look_up(places, table).grad_fn).__name__


@pytest.mark.gpu
def test_on_cuda_an_order_is_inverted_by_our_kernel() -> None:
    order = torch.randperm(5003, device="cuda")
    assert inverse_permutation(order).equal(order.argsort())
