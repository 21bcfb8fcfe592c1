"""Bhojanapalli et al. 2020 (arXiv 2002.07028), Theorem 1: a head as large as the sequence can give
any positive attention; a smaller one cannot. Here a row of attention is a query; there, a column.
"""

import math

import pytest
import torch
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import parse_rule
from paribus.model import attention as attention_module
from paribus.model.attention import AttentionContext, MultiHeadAttention
from paribus.model.forward import Forward
from paribus.model.kernels import AttentionMask, attend
from paribus.model.positions import Rotation, rotary_cos_sin
from paribus.spec import MultiHead, RMSNorm, RotaryPositions

N = 7  # tokens
# one row a query: the second looks more at the first key than at itself
COUNTER_EXAMPLE = torch.tensor([[0.5, 0.5], [0.75, 0.25]], dtype=torch.float64)
MASKS = ["full", "causal", "prefix", "window(3)", "by_head(causal, full)", "reverse"]


def random(*shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def one_head(d_model: int, d_head: int) -> MultiHeadAttention:
    spec = MultiHead(n_heads=1, n_kv_heads=1, d_head=d_head, score_scale=d_head**-0.5)
    head = MultiHeadAttention(d_model, spec, RMSNorm()).double()
    with torch.no_grad():
        for number, parameter in enumerate(head.parameters()):
            parameter.copy_(0.3 * random(*parameter.shape, seed=number))
    return head


def context(mask: str, length: int, n_heads: int = 1) -> tuple[AttentionContext, Forward]:
    layout = BatchLayout(1, length, prefix_B=torch.tensor([3]))
    seen = AttentionMask.of(parse_rule(mask), layout, layout, n_heads, torch.device("cpu"))
    return AttentionContext(seen, None, None), Forward(kernel="dense")


def attention_of(head: MultiHeadAttention, states_TD: Tensor, mask: str = "full") -> Tensor:
    """The probabilities of a head, from its own kernel: values that tell the first d_head keys
    apart, and what is left of 1 for one key more.
    """
    length, d_model = states_TD.shape
    shown = min(head.d_head, length)
    apart_TE = torch.zeros(length, head.d_head, dtype=torch.float64)
    apart_TE[:shown, :shown] = torch.eye(shown)
    with torch.no_grad():
        head.value.weight.copy_((torch.linalg.pinv(states_TD) @ apart_TE).T)
        head.output.weight.copy_(torch.eye(d_model, head.d_head))
    out_TD = head(states_TD[None], *context(mask, length))[0]
    weights_TS = out_TD[:, :shown]
    if shown == length:
        return weights_TS
    assert shown == length - 1
    return torch.cat([weights_TS, 1 - weights_TS.sum(1, keepdim=True)], 1)


def set_scores(head: MultiHeadAttention, states_TD: Tensor, scores_TS: Tensor) -> None:
    """Give a head these scores on these states, if its size allows: keys are unit vectors."""
    size, inverse_DT = head.d_head, torch.linalg.pinv(states_TD)
    query_TE = torch.zeros(len(states_TD), size, dtype=torch.float64)
    key_TE = torch.zeros_like(query_TE)
    width = min(size, len(states_TD))
    query_TE[:, :width] = scores_TS[:, :width] / head.scale
    key_TE[:width, :width] = torch.eye(width)
    with torch.no_grad():
        head.query.weight.copy_((inverse_DT @ query_TE).T)
        head.key.weight.copy_((inverse_DT @ key_TE).T)


def centred(scores_TS: Tensor) -> Tensor:
    """Scores less the mean of each query: all of them that softmax looks at."""
    return scores_TS - scores_TS.mean(1, keepdim=True)


def fit_attention(head: MultiHeadAttention, states_TD: Tensor, wanted_TS: Tensor) -> Tensor:
    """The log-probabilities of a head after its queries and keys were trained towards `wanted`."""
    moved = [head.query.weight, head.key.weight]
    optimizer = torch.optim.Adam(moved, lr=0.05)
    for _ in range(400):
        log_weights_TS = _log_attention(head, states_TD)
        loss = (wanted_TS * (wanted_TS.log() - log_weights_TS)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return _log_attention(head, states_TD).detach()


def _log_attention(head: MultiHeadAttention, states_TD: Tensor) -> Tensor:
    query_TE, key_TE = states_TD @ head.query.weight.T, states_TD @ head.key.weight.T
    return (head.scale * query_TE @ key_TE.T).log_softmax(1)


# The theorem


@pytest.mark.parametrize("d_head", [N, N + 4])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_a_head_as_large_as_the_sequence_gives_any_positive_attention(d_head, mask):
    states_TD = random(N, N + 4, seed=5)
    visible_TS = torch.ones(N, N).tril() if mask == "causal" else torch.ones(N, N)
    wanted_TS = visible_TS * random(N, N, seed=11).exp()
    wanted_TS = wanted_TS / wanted_TS.sum(1, keepdim=True)
    scores_TS = torch.where(visible_TS > 0, wanted_TS, 1.0).log()
    head = one_head(N + 4, d_head)
    set_scores(head, states_TD, scores_TS + random(N, 1, seed=13))  # softmax sees no offset
    torch.testing.assert_close(attention_of(head, states_TD, mask), wanted_TS)


def test_one_channel_less_is_enough_where_the_model_is_wide():
    # Softmax sees no constant of a query, so one key may have no scores at all.
    states_TD, wanted_TS = random(N, N + 4, seed=5), random(N, N, seed=11).softmax(1)
    head = one_head(N + 4, N - 1)
    set_scores(head, states_TD, (wanted_TS / wanted_TS[:, -1:]).log())
    torch.testing.assert_close(attention_of(head, states_TD), wanted_TS)


# The counter-example


@pytest.mark.parametrize("weight", [-30.0, -1.0, 0.0, 0.2, 5.0])
def test_the_counter_example_is_out_of_reach_of_one_channel(weight):
    # Tokens 1 and 0: the second query is 0, so all of its scores are 0.
    states_TD = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    head = one_head(1, 1)
    with torch.no_grad():
        head.query.weight.fill_(weight)
        head.key.weight.fill_(1.0)
    got_TS = attention_of(head, states_TD)
    torch.testing.assert_close(got_TS[1], torch.tensor([0.5, 0.5], dtype=torch.float64))
    assert (got_TS - COUNTER_EXAMPLE).abs().max() >= 0.25


def test_training_does_not_reach_the_counter_example_with_one_channel_and_does_with_two():
    narrow = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    stuck_TS = fit_attention(one_head(1, 1), narrow, COUNTER_EXAMPLE).exp()
    assert (stuck_TS - COUNTER_EXAMPLE).abs().max().item() == pytest.approx(0.25)
    wide = torch.eye(2, dtype=torch.float64)
    reached_TS = fit_attention(one_head(2, 2), wide, COUNTER_EXAMPLE).exp()
    torch.testing.assert_close(reached_TS, COUNTER_EXAMPLE, atol=1e-4, rtol=0)


def test_the_counter_example_holds_for_its_own_tokens_and_not_for_all():
    # Tokens 0 and 1 have it, at a weight of −ln 3: the theorem says that some tokens do not.
    states_TD = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    head = one_head(1, 1)
    with torch.no_grad():
        head.query.weight.fill_(-math.log(3))
        head.key.weight.fill_(1.0)
    torch.testing.assert_close(attention_of(head, states_TD), COUNTER_EXAMPLE)


def test_training_a_small_head_stays_above_the_bound_of_its_rank():
    # Of all scores of rank ≤ 3, none is nearer to ln P than its singular values from the fourth on.
    d_head, wanted_TS = 3, (2 * random(N, N, seed=11)).softmax(1)
    beyond = torch.linalg.svdvals(centred(wanted_TS.log()))[d_head:]
    bound = beyond.square().sum().sqrt()
    assert bound > 1
    states_TD = torch.eye(N, dtype=torch.float64)
    small_TS = fit_attention(one_head(N, d_head), states_TD, wanted_TS)
    assert (centred(small_TS) - centred(wanted_TS.log())).norm() >= bound
    large_TS = fit_attention(one_head(N, N - 1), states_TD, wanted_TS)
    assert (centred(large_TS) - centred(wanted_TS.log())).norm() < 0.1 * bound


# Scores and masks


@pytest.mark.parametrize("qk_norm", [False, True, "fixed"])
@pytest.mark.parametrize("positions", ["none", "rotary"])
@pytest.mark.parametrize("mask", MASKS)
def test_scores_before_the_mask_have_at_most_the_rank_of_a_head(
    mask, positions, qk_norm, monkeypatch
):
    recorded = []

    def note_scores(query, key, value, seen, change, kernel):
        recorded.append((change.scale * query @ key.transpose(-1, -2), seen.dense_mask))
        return attend(query, key, value, seen, change, kernel)

    monkeypatch.setattr(attention_module, "attend", note_scores)
    n_heads, d_head, length = 2, 4, 13
    spec = MultiHead(n_heads=2, n_kv_heads=2, d_head=4, score_scale=0.5, qk_norm=qk_norm)
    module = MultiHeadAttention(17, spec, RMSNorm()).double()
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(0.5 * random(*parameter.shape, seed=number))
    seen, forward = context(mask, length, n_heads)
    if positions == "rotary":
        turns = rotary_cos_sin(torch.arange(length)[None], d_head, RotaryPositions().theta)
        seen = AttentionContext(seen.mask, Rotation(*turns), None)
    module(random(1, length, 17, seed=5), seen, forward)
    ((scores_BHTS, visible),) = recorded
    assert torch.linalg.matrix_rank(scores_BHTS[0]).tolist() == [d_head] * n_heads
    weights_BHTS = scores_BHTS.masked_fill(~visible, -math.inf).softmax(-1)
    # ... which says nothing of attention: softmax lifts it
    assert torch.linalg.matrix_rank(weights_BHTS[0]).min() > d_head
    if mask == "causal":
        assert torch.linalg.det(weights_BHTS[0]).min() > 0
