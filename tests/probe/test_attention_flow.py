"""How far, how widely and where attention looks: on planted attention."""

from math import log

import pytest
import torch
from torch import Tensor

from paribus.masks import SequenceLayout, parse_rule
from paribus.probe.attention_flow import (
    attention_distance,
    attention_entropy,
    first_token_share,
    key_shares,
    reached_shares,
    received_attention,
    self_share,
    sink,
    uniform_attention,
)

T = 13


def causal(n: int = T) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def attention_to(keys: Tensor) -> Tensor:
    """Every query looks at one key alone."""
    return torch.nn.functional.one_hot(keys, T).double()


def test_a_head_that_looks_at_itself():
    weights = attention_to(torch.arange(T))
    assert attention_distance(weights).tolist() == [0] * T
    assert attention_entropy(weights).tolist() == [0] * T
    assert self_share(weights).tolist() == [1] * T
    assert first_token_share(weights).tolist() == [1] + [0] * (T - 1)


def test_a_head_that_looks_back_by_three():
    weights = attention_to((torch.arange(T) - 3).clamp(min=0))
    assert attention_distance(weights).tolist() == [0, 1, 2] + [3] * (T - 3)
    assert self_share(weights).tolist() == [1] + [0] * (T - 1)


def test_distance_does_not_know_a_direction():
    ahead = attention_to((torch.arange(T) + 2).clamp(max=T - 1))
    assert attention_distance(ahead).tolist() == [2] * (T - 2) + [1, 0]


def test_uniform_causal_attention_is_known():
    weights = uniform_attention(causal())
    expected = torch.arange(T).double() / 2
    torch.testing.assert_close(attention_distance(weights), expected)
    assert attention_entropy(weights).tolist() == pytest.approx([log(t + 1) for t in range(T)])
    assert self_share(weights).tolist() == pytest.approx([1 / (t + 1) for t in range(T)])
    assert first_token_share(weights).tolist() == pytest.approx([1 / (t + 1) for t in range(T)])


@pytest.mark.parametrize("place", [0, 5])
def test_a_planted_sink_is_found(place):
    weights = 0.3 * uniform_attention(causal())
    weights[place:, place] += 0.7
    weights[:place] /= 0.3
    position, share = sink(weights)
    assert position.item() == place
    assert share.item() == pytest.approx(weights[:, place].mean().item())
    assert received_attention(weights, causal())[place].item() > 0.7


def test_the_mask_alone_makes_the_first_key_the_most_attended():
    uniform = uniform_attention(causal())
    position, share = sink(uniform)
    assert position.item() == 0
    assert share.item() == pytest.approx(sum(1 / (t + 1) for t in range(T)) / T)


def test_key_shares_sum_to_one():
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(2, 3, T, 7, generator=generator).softmax(-1)
    shares = key_shares(weights)
    assert shares.shape == (2, 3, 7)
    torch.testing.assert_close(shares.sum(-1), torch.ones(2, 3))


def test_padded_queries_do_not_count_for_a_sink():
    weights = attention_to(torch.tensor([0] * 3 + [9] * (T - 3)))
    real = torch.arange(T) < 3
    assert sink(weights)[0].item() == 9
    position, share = sink(weights, real)
    assert (position.item(), share.item()) == (0, 1)


def test_attention_received_is_counted_over_those_who_see():
    received = received_attention(uniform_attention(causal(3)), causal(3))
    assert received.tolist() == pytest.approx([(1 + 1 / 2 + 1 / 3) / 3, (1 / 2 + 1 / 3) / 2, 1 / 3])
    nobody = torch.tensor([[True, False], [True, False]])
    assert received_attention(uniform_attention(nobody), nobody)[1].isnan()


def test_a_query_that_sees_nothing_attends_to_nothing():
    assert uniform_attention(torch.tensor([[False, False]])).tolist() == [[0, 0]]


def test_windows_reach_farther_with_every_layer():
    """Three keys a layer, self included: two steps back more with each."""
    rule = parse_rule("causal & window(3)")
    found = reached_shares([rule] * 3, SequenceLayout(T))
    for depth, share in enumerate(found, start=1):
        pairs = sum(min(t, 2 * depth) + 1 for t in range(T))
        assert share == pytest.approx(pairs / T**2)


def test_causal_attention_reaches_all_that_it_ever_will_in_one_layer():
    found = reached_shares([parse_rule("causal")] * 3, SequenceLayout(T))
    assert found == [pytest.approx((T + 1) / (2 * T))] * 3


def test_leading_dimensions_are_kept():
    weights = uniform_attention(causal()).expand(2, 3, T, T)
    for measure in (attention_distance, attention_entropy, first_token_share, self_share):
        assert measure(weights).shape == (2, 3, T)
