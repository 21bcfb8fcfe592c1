"""Bhojanapalli et al. 2020 (arXiv 2002.07028), Theorem 1: a head as large as the sequence can give
any positive attention; a smaller one cannot. Here a row of attention is a query; there, a column.
"""

import math

import pytest
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import parse_rule
from paribus.model.attention import AttentionContext, MultiHeadAttention
from paribus.model.forward import Forward
from paribus.model.kernels import AttentionMask
from paribus.model.positions import Rotation, rotary_cos_sin
from paribus.spec import MultiHead, RMSNorm, RotaryPositions

N = 7  # tokens
# one row a query: the second looks more at the first key than at itself
COUNTER_EXAMPLE = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=torch.float64)
MASKS = ["full", "causal", "prefix", "window(3)", "by_head(causal, full)", "reverse"]


class Recorder:
    """Keeps what it sees, by place."""

    def __init__(self):
        self.values: dict[str, Tensor] = {}

    def wants(self, name: str, layer: int) -> bool:
        return True

    def see(self, name: str, layer: int, value: Tensor) -> None:
        self.values[name] = value


def random(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def random_attention(seed: int, sd: float = 1.0) -> Tensor:
    return (sd * random(N, N, seed=seed)).softmax(1)


def attention_of(d_model: int, n_heads: int, d_head: int, **given: object) -> MultiHeadAttention:
    sizes = {"n_heads": n_heads, "n_kv_heads": n_heads, "d_head": d_head}
    spec = MultiHead.model_validate({**sizes, "score_scale": d_head**-0.5, **given})
    attention = MultiHeadAttention(d_model, spec, RMSNorm()).double()
    with torch.no_grad():
        for number, parameter in enumerate(attention.parameters()):
            parameter.copy_(0.5 * random(*parameter.shape, seed=number))
    return attention


def observe(
    attention: MultiHeadAttention, states_TD: Tensor, mask: str = "full", is_rotary: bool = False
) -> tuple[Tensor, Tensor]:
    """Scores before the mask and probabilities of every head, [H, T, S]."""
    length, recorder, rotation = len(states_TD), Recorder(), None
    layout = BatchLayout(1, length, prefix=3)
    rule, n_heads = parse_rule(mask), attention.spec.n_heads
    visible = AttentionMask.of(rule, layout, layout, n_heads, torch.device("cpu"))
    if is_rotary:
        turns = rotary_cos_sin(torch.arange(length), attention.d_head, RotaryPositions().theta)
        rotation = Rotation(*turns)
    context = AttentionContext(visible, rotation, None)
    attention(states_TD[None], context, Forward(observer=recorder))
    values = recorder.values
    return values["stack.attention_scores"][0], values["stack.attention_weights"][0]


def set_scores(head: MultiHeadAttention, states_TD: Tensor, scores_TS: Tensor) -> None:
    """Give a head these scores of its first d_head keys, and 0 of others: keys are unit vectors."""
    inverse_DT = torch.linalg.pinv(states_TD)
    width = min(head.d_head, len(states_TD))
    query_TE = torch.zeros(len(states_TD), head.d_head, dtype=torch.float64)
    key_TE = torch.zeros_like(query_TE)
    query_TE[:, :width] = scores_TS[:, :width] / head.scale
    key_TE[:width, :width] = torch.eye(width)
    with torch.no_grad():
        head.query.weight.copy_((inverse_DT @ query_TE).T)
        head.key.weight.copy_((inverse_DT @ key_TE).T)


def fit(head: MultiHeadAttention, states_TD: Tensor, wanted_TS: Tensor) -> Tensor:
    """The probabilities of a head whose queries and keys were trained towards `wanted`."""
    optimizer = torch.optim.Adam([head.query.weight, head.key.weight], lr=0.05)
    for _ in range(400):
        weights_TS = observe(head, states_TD)[1][0]
        loss = (wanted_TS * (wanted_TS.log() - weights_TS.log())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return observe(head, states_TD)[1][0].detach()


def centred_log(weights_TS: Tensor) -> Tensor:
    """Log-probabilities less the mean of each query: all of the scores that softmax looks at."""
    logs_TS = weights_TS.log()
    return logs_TS - logs_TS.mean(1, keepdim=True)


# The theorem


@pytest.mark.parametrize("d_head", [N, N + 4])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_a_head_as_large_as_the_sequence_gives_any_positive_attention(d_head, mask):
    states_TD = random(N, N + 4, seed=5)
    visible_TS = torch.ones(N, N).tril() if mask == "causal" else torch.ones(N, N)
    wanted_TS = visible_TS * random_attention(11)
    wanted_TS = wanted_TS / wanted_TS.sum(1, keepdim=True)
    scores_TS = torch.where(visible_TS > 0, wanted_TS, 1.0).log()
    head = attention_of(N + 4, 1, d_head)
    set_scores(head, states_TD, scores_TS + random(N, 1, seed=13))  # softmax sees no offset
    torch.testing.assert_close(observe(head, states_TD, mask)[1][0], wanted_TS)


def test_one_channel_less_is_enough_where_the_model_is_wide():
    # Softmax sees no constant of a query, so one key may have no scores at all.
    states_TD, wanted_TS = random(N, N + 4, seed=5), random_attention(11)
    head = attention_of(N + 4, 1, N - 1)
    set_scores(head, states_TD, (wanted_TS / wanted_TS[:, -1:]).log())
    torch.testing.assert_close(observe(head, states_TD)[1][0], wanted_TS)


# The counter-example


@pytest.mark.parametrize("weight", [-30.0, -1.0, 0.0, 0.2, 5.0])
def test_the_counter_example_is_out_of_reach_of_one_channel(weight):
    # Tokens 1 and 0: the second query is 0, so all of its scores are 0, whatever the weights.
    states_TD, head = torch.tensor([[1.0], [0.0]], dtype=torch.float64), attention_of(1, 1, 1)
    with torch.no_grad():
        head.query.weight.fill_(weight)
        head.key.weight.fill_(1.0)
    weights_TS = observe(head, states_TD)[1][0]
    assert weights_TS[1].tolist() == [0.5, 0.5]
    assert (weights_TS - COUNTER_EXAMPLE).abs().max() >= 0.25


def test_training_does_not_reach_the_counter_example_with_one_channel_and_does_with_two():
    narrow, wide = torch.tensor([[1.0], [0.0]], dtype=torch.float64), torch.eye(2).double()
    stuck_TS = fit(attention_of(1, 1, 1), narrow, COUNTER_EXAMPLE)
    assert (stuck_TS - COUNTER_EXAMPLE).abs().max().item() == pytest.approx(0.25)
    reached_TS = fit(attention_of(2, 1, 2), wide, COUNTER_EXAMPLE)
    torch.testing.assert_close(reached_TS, COUNTER_EXAMPLE, atol=1e-4, rtol=0)


def test_the_counter_example_holds_for_its_own_tokens_and_not_for_all():
    # Tokens 0 and 1 have it, at a weight of −ln 3: the theorem says that some tokens do not.
    states_TD, head = torch.tensor([[0.0], [1.0]], dtype=torch.float64), attention_of(1, 1, 1)
    with torch.no_grad():
        head.query.weight.fill_(-math.log(3))
        head.key.weight.fill_(1.0)
    torch.testing.assert_close(observe(head, states_TD)[1][0], COUNTER_EXAMPLE)


def test_training_a_small_head_stays_above_the_bound_of_its_rank():
    # Of all scores of rank ≤ 3, none is nearer to ln P than its singular values from the fourth on.
    d_head, wanted_TS = 3, random_attention(11, sd=2.0)
    beyond = torch.linalg.svdvals(centred_log(wanted_TS))[d_head:]
    bound = beyond.square().sum().sqrt()
    assert bound > 1
    states_TD = torch.eye(N, dtype=torch.float64)
    small_TS = fit(attention_of(N, 1, d_head), states_TD, wanted_TS)
    large_TS = fit(attention_of(N, 1, N - 1), states_TD, wanted_TS)
    assert (centred_log(small_TS) - centred_log(wanted_TS)).norm() >= bound
    assert (centred_log(large_TS) - centred_log(wanted_TS)).norm() < 0.1 * bound


# Scores and masks


@pytest.mark.parametrize("qk_norm", [False, True, "fixed"])
@pytest.mark.parametrize("is_rotary", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_scores_before_the_mask_have_at_most_the_rank_of_a_head(mask, is_rotary, qk_norm):
    n_heads, d_head, length, d_model = 2, 4, 13, 17
    attention = attention_of(d_model, n_heads, d_head, qk_norm=qk_norm)
    scores, weights = observe(attention, random(length, d_model, seed=5), mask, is_rotary)
    # rotation is in float32
    assert torch.linalg.matrix_rank(scores, rtol=1e-5).tolist() == [d_head] * n_heads
    # ... which does not bound that of attention: softmax and the mask lift it
    assert torch.linalg.matrix_rank(weights, rtol=1e-5).min() > d_head
    if mask == "causal":
        assert torch.linalg.det(weights).min() > 0
