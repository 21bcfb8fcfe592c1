import math

import pytest
import torch

from paribus.batch import BatchLayout
from paribus.masks import parse_rule
from paribus.model.attention import AttentionContext, LatentAttention, MultiHeadAttention
from paribus.model.forward import Forward
from paribus.model.kernels import AttentionMask
from paribus.model.positions import Rotation, rotary_cos_sin
from paribus.spec import Latent, LayerNorm, MultiHead, RMSNorm

CPU = torch.device("cpu")
B, T, D = 2, 5, 7


def _filled(module):
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return module


def _multi_head(norm=None, **given):
    filled = {"n_heads": 6, "n_kv_heads": 6, "d_head": 4, "score_scale": 0.5, **given}
    return _filled(MultiHeadAttention(D, MultiHead(**filled), norm or LayerNorm()))


def _sight(mask="causal", keys=None, n_heads=6, turn=None, bias=None, kernel="auto"):
    layout = BatchLayout(B, T)
    view = AttentionMask.of(parse_rule(mask), layout, keys or layout, n_heads, CPU)
    return AttentionContext(view, turn, bias), Forward(kernel=kernel)


def _hidden(length=T, seed=5):
    return torch.randn(B, length, D, generator=torch.Generator().manual_seed(seed))


def _turn(width):
    """Position p turns pair i by p · 10^(-i)."""
    angles = torch.arange(T)[:, None] * 10.0 ** -torch.arange(width // 2)
    return Rotation(angles.cos(), angles.sin())


def _rotated(vector, position):
    half = len(vector) // 2
    out = [0.0] * len(vector)
    for i in range(half):
        angle = position * 10.0**-i
        x, y = vector[i], vector[i + half]
        out[i] = x * math.cos(angle) - y * math.sin(angle)
        out[i + half] = y * math.cos(angle) + x * math.sin(angle)
    return torch.stack(out)


def _attended(queries, keys, values, scale, sees):
    """One head of one sequence, query by query: softmax over the visible keys alone."""
    out = []
    for t, query in enumerate(queries):
        seen = [s for s in range(len(keys)) if sees(t, s)]
        weights = torch.stack([query @ keys[s] * scale for s in seen]).softmax(0)
        out.append(sum(weight * values[s] for weight, s in zip(weights, seen, strict=True)))
    return torch.stack(out)


def _linear(layer, x):
    return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)


def _plainly(attention, hidden, sees, source=None, norm=None, rotary=False):
    spec, read_from = attention.spec, hidden if source is None else source
    e, per_group = spec.d_head, spec.n_heads // spec.n_kv_heads
    out = []
    for b in range(B):
        heads = []
        for h in range(spec.n_heads):
            g = h // per_group
            queries = _linear(attention.query, hidden[b])[:, h * e : (h + 1) * e]
            keys = _linear(attention.key, read_from[b])[:, g * e : (g + 1) * e]
            values = _linear(attention.value, read_from[b])[:, g * e : (g + 1) * e]
            if norm is not None:
                queries, keys = (
                    norm(queries, attention.query_norm.weight),
                    norm(keys, attention.key_norm.weight),
                )
            if rotary:
                queries = torch.stack([_rotated(query, t) for t, query in enumerate(queries)])
                keys = torch.stack([_rotated(key, t) for t, key in enumerate(keys)])
            heads.append(_attended(queries, keys, values, spec.score_scale, sees))
        out.append(_linear(attention.output, torch.cat(heads, -1)))
    return torch.stack(out)


def _causal(t, s):
    return s <= t


@pytest.mark.parametrize("kernel", ["auto", "dense", "masked", "fused"])
@pytest.mark.parametrize("n_kv_heads", [6, 3, 2, 1])
def test_multi_grouped_and_multi_query_heads_equal_the_formula(n_kv_heads, kernel):
    attention = _multi_head(n_kv_heads=n_kv_heads, bias=True)
    out = attention(_hidden(), *_sight(kernel=kernel))
    torch.testing.assert_close(out, _plainly(attention, _hidden(), _causal), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scale", [0.5, 1.0, 0.125])
def test_scores_are_scaled_as_the_spec_says(scale):
    attention = _multi_head(score_scale=scale)
    out = attention(_hidden(), *_sight("window(2)"))
    expected = _plainly(attention, _hidden(), lambda t, s: t - 2 < s <= t)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


def test_an_odd_head_width_apart_from_the_models():
    attention = _multi_head(d_head=5, n_heads=3, n_kv_heads=3)
    out = attention(_hidden(), *_sight("full", n_heads=3))
    torch.testing.assert_close(
        out, _plainly(attention, _hidden(), lambda t, s: True), atol=1e-5, rtol=1e-5
    )


def test_groups_of_heads_see_by_their_own_rule():
    attention = _multi_head(n_kv_heads=2)
    out = attention(_hidden(), *_sight("by_head(causal, reverse)", kernel="dense"))
    whole = _hidden()
    parts = [
        _plainly_heads(attention, whole, heads, sees)
        for heads, sees in ((range(3), _causal), (range(3, 6), lambda t, s: s >= t))
    ]
    torch.testing.assert_close(
        out, _linear(attention.output, torch.cat(parts, -1)), atol=1e-5, rtol=1e-5
    )


def _plainly_heads(attention, hidden, heads, sees):
    e, per_group = attention.spec.d_head, attention.spec.n_heads // attention.spec.n_kv_heads
    rows = []
    for b in range(B):
        query, key, value = (
            _linear(layer, hidden[b]).split(e, -1)
            for layer in (attention.query, attention.key, attention.value)
        )
        rows.append(
            torch.cat(
                [
                    _attended(query[h], key[h // per_group], value[h // per_group], 0.5, sees)
                    for h in heads
                ],
                -1,
            )
        )
    return torch.stack(rows)


def test_qk_norm_brings_each_heads_queries_and_keys_to_unit_scale():
    def rms(rows, gain):
        return rows / (rows.square().mean(-1, keepdim=True) + 0.01).sqrt() * gain

    attention = _multi_head(norm=RMSNorm(eps=0.01), qk_norm=True, n_kv_heads=3)
    out = attention(_hidden(), *_sight())
    torch.testing.assert_close(
        out, _plainly(attention, _hidden(), _causal, norm=rms), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("norm", [LayerNorm(), RMSNorm()])
def test_fixed_gains_leave_the_size_of_the_scores_to_their_scale(norm):
    # Queries and keys of length √d_head: seven times the weights are the same attention.
    attention = _multi_head(norm=norm, qk_norm="fixed", bias=False)
    names = dict(attention.named_parameters())
    assert not [name for name in names if "norm" in name]
    before = attention(_hidden(), *_sight())
    with torch.no_grad():
        attention.query.weight.mul_(7.0)
        attention.key.weight.mul_(7.0)
    torch.testing.assert_close(attention(_hidden(), *_sight()), before, atol=1e-3, rtol=1e-3)
    attention.scale *= 2
    assert not torch.allclose(attention(_hidden(), *_sight()), before, atol=1e-2)


def test_fixed_gains_are_learned_gains_of_one():
    fixed = _multi_head(norm=RMSNorm(), qk_norm="fixed", n_kv_heads=3)
    learned = _multi_head(norm=RMSNorm(), qk_norm=True, n_kv_heads=3)
    learned.load_state_dict(fixed.state_dict(), strict=False)
    with torch.no_grad():
        learned.query_norm.weight.fill_(1.0)
        learned.key_norm.weight.fill_(1.0)
    torch.testing.assert_close(fixed(_hidden(), *_sight()), learned(_hidden(), *_sight()))


def test_queries_and_keys_are_turned_and_values_are_not():
    attention = _multi_head(n_kv_heads=2)
    out = attention(_hidden(), *_sight(turn=_turn(4)))
    torch.testing.assert_close(
        out, _plainly(attention, _hidden(), _causal, rotary=True), atol=1e-5, rtol=1e-5
    )


def test_keys_and_values_may_come_from_another_sequence():
    attention = _multi_head(n_kv_heads=3)
    source = _hidden(length=3, seed=11)
    out = attention(_hidden(), *_sight("full", keys=BatchLayout(B, 3)), source)
    expected = _plainly(attention, _hidden(), lambda t, s: True, source)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["dense", "masked", "auto"])
def test_a_bias_is_added_to_scaled_scores(kernel):
    # A bias of −1e4 everywhere but on oneself leaves each position its own value.
    attention = _multi_head()
    bias = torch.full((1, 6, T, T), -1e4).masked_fill(torch.eye(T).bool(), 0.0)
    out = attention(_hidden(), *_sight("full", bias=bias, kernel=kernel))
    expected = _linear(attention.output, _linear(attention.value, _hidden()))
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


# Latent attention


def _latent(norm=None, **given):
    filled = {
        "n_heads": 3,
        "d_latent": 5,
        "d_query_latent": 11,
        "d_content": 7,
        "d_rotary": 4,
        "d_value": 13,
        **given,
    }
    return _filled(LatentAttention(D, Latent(**filled), norm or RMSNorm(eps=0.01)))


def _latent_plainly(attention, hidden, sees):
    spec = attention.spec

    def rms(rows, gain):
        return rows / (rows.square().mean(-1, keepdim=True) + 0.01).sqrt() * gain

    c, r, v = spec.d_content, spec.d_rotary, spec.d_value
    out = []
    for b in range(B):
        x = hidden[b]
        x_query = (
            rms(x @ attention.query_down.weight.T, attention.query_norm.weight)
            if spec.d_query_latent
            else x
        )
        queries = (x_query @ attention.query.weight.T).split(c + r, -1)
        down = x @ attention.latent.weight.T
        latent, rotary = (
            rms(down[:, : spec.d_latent], attention.latent_norm.weight),
            down[:, spec.d_latent :],
        )
        unfolded = (latent @ attention.key_value.weight.T).split(c + v, -1)
        heads = []
        for h in range(spec.n_heads):
            turned_queries = [
                torch.cat([q[:c], _rotated(q[c:], t)]) if r else q for t, q in enumerate(queries[h])
            ]
            keys = [
                torch.cat([u[:c], _rotated(rotary[t], t)]) if r else u[:c]
                for t, u in enumerate(unfolded[h])
            ]
            values = unfolded[h][:, c:]
            heads.append(_attended(turned_queries, keys, values, (c + r) ** -0.5, sees))
        out.append(torch.cat(heads, -1) @ attention.output.weight.T)
    return torch.stack(out)


@pytest.mark.parametrize("kernel", ["auto", "dense", "masked"])
@pytest.mark.parametrize("d_query_latent", [11, None])
@pytest.mark.parametrize("d_rotary", [4, 0])
def test_latent_attention_equals_the_formula(d_rotary, d_query_latent, kernel):
    attention = _latent(d_rotary=d_rotary, d_query_latent=d_query_latent)
    turn = _turn(4) if d_rotary else None
    for mask, sees in (("causal", _causal), ("window(2)", lambda t, s: t - 2 < s <= t)):
        out = attention(_hidden(), *_sight(mask, n_heads=3, turn=turn, kernel=kernel))
        torch.testing.assert_close(
            out, _latent_plainly(attention, _hidden(), sees), atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize("mask", ["causal", "window(3)", "by_head(causal, window(2))"])
@pytest.mark.parametrize("d_rotary", [0, 4])
@pytest.mark.parametrize("n_queries", [1, 2])
def test_latents_that_do_not_unfold_give_the_same(mask, d_rotary, n_queries):
    attention = _latent(d_rotary=d_rotary, n_heads=6).double()
    hidden, n_keys = _hidden(11).double(), 11
    keys = BatchLayout(B, n_keys)
    rule, last = parse_rule(mask), BatchLayout(B, n_queries, start=n_keys - n_queries)
    turn = None
    if d_rotary:
        turn = Rotation(*rotary_cos_sin(torch.arange(n_keys - n_queries, n_keys), d_rotary, 10.0))
    context = AttentionContext(AttentionMask.of(rule, last, keys, 6, CPU), turn, None)
    query = torch.randn(B, 6, n_queries, attention.d_query, dtype=torch.float64)
    latents = (hidden[:, None, :, : attention.spec.d_latent], hidden[:, None, :, :d_rotary])
    found = attention._attend_to_latents(query, latents, context, Forward())
    expected = attention._attend_to_heads(query, latents, context, Forward())
    torch.testing.assert_close(found, expected)


def test_latents_unfold_for_a_prompt_and_not_for_a_token():
    attention = _latent(d_latent=32)
    assert not attention._is_absorbed(64, 64)
    assert attention._is_absorbed(1, 64)
