"""Dai's similarities: linear attention, where one step of descent is the in-context update."""

from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.probe.descent_similarity import (
    attention_map_similarity,
    attention_output_similarity,
    attention_rank_correlation,
    random_rank_correlation,
    random_update_similarity,
    recall_of_tuned,
    training_token_scores,
)

N, L, D, H, S = 23, 3, 7, 2, 11
RATE = 0.1


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tuned_weight(start: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
    """One step of gradient descent on ½ Σ ‖Wx - y‖²."""
    weight = start.clone().requires_grad_()
    loss = 0.5 * (inputs @ weight.T - targets).square().sum()
    (gradient,) = torch.autograd.grad(loss, weight)
    return start - RATE * gradient


def linear_attention(values: Tensor, keys: Tensor, queries: Tensor) -> Tensor:
    """Σ_i v_i (k_i · q): attention without softmax."""
    return queries @ keys.T @ values


def outputs_of_linear_attention() -> tuple[Tensor, Tensor, Tensor]:
    """Zero-shot, in context and tuned, [N, L, D], where the demonstrations' values are the errors
    of the weights before.
    """
    found: list[list[Tensor]] = [[], [], []]
    for layer in range(L):
        start, queries = normal(D, D, seed=layer), normal(N, D, seed=10 + layer)
        inputs, targets = normal(S, D, seed=20 + layer), normal(S, D, seed=30 + layer)
        values = RATE * (targets - inputs @ start.T)
        found[0].append(queries @ start.T)
        found[1].append(queries @ start.T + linear_attention(values, inputs, queries))
        found[2].append(queries @ tuned_weight(start, inputs, targets).T)
    zero_shot, in_context, tuned = (torch.stack(layers, 1) for layers in found)
    return zero_shot, in_context, tuned


def test_linear_attention_is_a_step_of_descent():
    zero_shot, in_context, tuned = outputs_of_linear_attention()
    torch.testing.assert_close(in_context, tuned)
    assert not torch.allclose(zero_shot, tuned)
    found = attention_output_similarity(zero_shot, in_context, tuned)
    assert found.shape == (L,)
    assert found.tolist() == pytest.approx([1] * L)


def test_a_step_uphill_is_opposed():
    zero_shot, in_context, tuned = outputs_of_linear_attention()
    small = zero_shot + 1e-5 * (in_context - zero_shot)
    uphill = zero_shot - 1e-5 * (tuned - zero_shot)
    found = attention_output_similarity(zero_shot, small, uphill)
    assert found.tolist() == pytest.approx([-1] * L, abs=1e-3)


def test_outputs_are_normalised_before_their_updates():
    """Updates that only lengthen an output are none; those that turn it are compared."""
    zero_shot, in_context, tuned = outputs_of_linear_attention()
    longer = attention_output_similarity(zero_shot, 3 * in_context, 0.5 * tuned)
    assert longer.tolist() == pytest.approx([1] * L)


def test_the_similarity_of_outputs_is_computed_by_hand():
    zero_shot = torch.tensor([1.0, 0.0]).expand(N, 1, 2)
    in_context = torch.tensor([0.0, 5.0]).expand(N, 1, 2)
    tuned = torch.tensor([-2.0, 0.0]).expand(N, 1, 2)
    found = attention_output_similarity(zero_shot, in_context, tuned)
    assert found.tolist() == pytest.approx([0.5**0.5])  # (-1, 1) against (-2, 0)


def test_a_random_update_is_not_similar():
    zero_shot, in_context, _ = outputs_of_linear_attention()
    found = random_update_similarity(zero_shot, in_context, seed=1)
    assert found.shape == (L,)
    assert found.abs().max().item() < 4 / (N * D) ** 0.5
    assert torch.equal(found, random_update_similarity(zero_shot, in_context, seed=1))
    assert not torch.equal(found, random_update_similarity(zero_shot, in_context, seed=2))


def test_attention_maps_are_compared_head_by_head():
    scores = normal(N, L, H, S)
    assert attention_map_similarity(scores, scores).tolist() == pytest.approx([1] * L)
    turned = scores * torch.tensor([1.0, -1.0])[:, None]
    assert attention_map_similarity(scores, turned).tolist() == pytest.approx([0] * L)


def test_the_similarity_of_maps_is_computed_by_hand():
    left = torch.tensor([3.0, 4.0, 0.0]).expand(N, 1, 1, 3)
    right = torch.tensor([1.0, 0.0, 0.0]).expand(N, 1, 1, 3)
    assert attention_map_similarity(left, right).tolist() == pytest.approx([0.6])


def test_keys_that_a_query_does_not_have_do_not_count():
    left, right = normal(N, L, H, S), normal(N, L, H, S, seed=2)
    padding = torch.zeros(N, L, H, 5)
    padded = attention_map_similarity(
        torch.cat([padding, left], -1), torch.cat([padding, right], -1)
    )
    torch.testing.assert_close(padded, attention_map_similarity(left, right))


def test_attention_to_training_tokens_is_the_product_of_queries():
    queries, training = normal(N, L, D), normal(L, S, D, seed=2)
    found = training_token_scores(queries, training)
    assert found.shape == (N, L, S)
    assert found[4, 1, 6].item() == pytest.approx((queries[4, 1] @ training[1, 6]).item())


def test_the_same_order_correlates_fully():
    scores = normal(N, L, S)
    assert attention_rank_correlation(scores, scores.exp()).tolist() == pytest.approx([1] * L)
    assert attention_rank_correlation(scores, -scores).tolist() == pytest.approx([-1] * L)


def test_the_correlation_of_ranks_counts_pairs():
    left, right = normal(N, 1, S), normal(N, 1, S, seed=2)
    taus = []
    for one, two in zip(left[:, 0], right[:, 0], strict=True):
        pairs = list(combinations(range(S), 2))
        agree = [((one[i] - one[j]) * (two[i] - two[j])).sign().item() for i, j in pairs]
        taus.append(sum(agree) / len(pairs))
    expected = sum(taus) / N
    assert attention_rank_correlation(left, right).tolist() == pytest.approx([expected])


def test_random_attention_does_not_correlate():
    found = random_rank_correlation(normal(N, L, 53), seed=1)
    assert found.abs().max().item() < 0.1


def test_recall_is_counted_over_what_tuning_corrects():
    zero_shot = torch.tensor([True] * 3 + [False] * 20)
    tuned = torch.tensor([False] * 3 + [True] * 8 + [False] * 12)
    in_context = torch.tensor([True] * 9 + [False] * 14)
    assert recall_of_tuned(zero_shot, in_context, tuned) == pytest.approx(6 / 8)


def test_there_is_no_recall_where_tuning_corrects_nothing():
    right = torch.ones(N, dtype=torch.bool)
    assert recall_of_tuned(right, right, right) is None


FEW = 19
ASKED: dict[str, Callable[[], object]] = {
    "outputs": lambda: attention_output_similarity(*[normal(FEW, L, D)] * 3),
    "random": lambda: random_update_similarity(normal(FEW, L, D), normal(FEW, L, D), 1),
    "maps": lambda: attention_map_similarity(normal(FEW, L, H, S), normal(FEW, L, H, S)),
    "ranks": lambda: attention_rank_correlation(normal(FEW, L, S), normal(FEW, L, S)),
    "random ranks": lambda: random_rank_correlation(normal(FEW, L, S), 1),
    "recall": lambda: recall_of_tuned(*[torch.ones(FEW, dtype=torch.bool)] * 3),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED.keys())
def test_few_examples_are_refused(ask):
    with pytest.raises(UnsupportedError, match=r"19 query examples, too few .* at least 20"):
        ask()
