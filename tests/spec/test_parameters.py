import pytest
import torch

from paribus.model import build
from paribus.model.positions import sinusoids
from paribus.spec import Architecture, load, parameters, resolve
from paribus.spec.parameters import position_note

V, D, T, H, E, F, S = (
    13,
    6,
    7,
    3,
    5,
    11,
    2,
)  # words, width, length, heads, head width, feed-forward, segments


def _table(**changes):
    given = {
        "n_vocab": V,
        "max_length": T,
        "d_model": D,
        "n_layers": 1,
        "attention": {"kind": "multi_head", "n_heads": H, "d_head": E},
        "feed_forward": {"kind": "dense", "d_ff": F},
        "norm": "rms",
        **changes,
    }
    return {
        name: (p.shape, p.role)
        for name, p in parameters(resolve(Architecture.model_validate(given))).items()
    }


PLAIN = {
    "embedding.weight": ((V, D), "word"),
    "stack.layers.0.attention_norm.weight": ((D,), "gain"),
    "stack.layers.0.attention.query.weight": ((H * E, D), "query"),
    "stack.layers.0.attention.key.weight": ((H * E, D), "inward"),
    "stack.layers.0.attention.value.weight": ((H * E, D), "inward"),
    "stack.layers.0.attention.output.weight": ((D, H * E), "residual"),
    "stack.layers.0.feed_forward_norm.weight": ((D,), "gain"),
    "stack.layers.0.feed_forward.up.weight": ((F, D), "inward"),
    "stack.layers.0.feed_forward.down.weight": ((D, F), "residual"),
    "stack.final_norm.weight": ((D,), "gain"),
}


def _added(**changes):
    return {name: entry for name, entry in _table(**changes).items() if PLAIN.get(name) != entry}


def _removed(**changes):
    return set(PLAIN) - set(_table(**changes))


def test_a_plain_model_has_these_parameters_in_this_order():
    assert _table() == PLAIN
    assert list(_table()) == list(PLAIN)


def test_grouped_heads_have_smaller_keys_and_values():
    attention = {"kind": "multi_head", "n_heads": H, "d_head": E, "n_kv_heads": 1}
    assert _added(attention=attention) == {
        "stack.layers.0.attention.key.weight": ((E, D), "inward"),
        "stack.layers.0.attention.value.weight": ((E, D), "inward"),
    }


def test_biases_and_qk_norms_are_as_wide_as_what_they_follow():
    attention = {"kind": "multi_head", "n_heads": H, "d_head": E, "bias": True, "qk_norm": True}
    added = _added(
        attention=attention, feed_forward={"kind": "dense", "d_ff": F, "bias": True, "gated": True}
    )
    here = "stack.layers.0"
    assert added == {
        f"{here}.attention.query.bias": ((H * E,), "bias"),
        f"{here}.attention.key.bias": ((H * E,), "bias"),
        f"{here}.attention.value.bias": ((H * E,), "bias"),
        f"{here}.attention.output.bias": ((D,), "bias"),
        f"{here}.attention.query_norm.weight": ((E,), "gain"),
        f"{here}.attention.key_norm.weight": ((E,), "gain"),
        f"{here}.feed_forward.gate.weight": ((F, D), "inward"),
        f"{here}.feed_forward.gate.bias": ((F,), "bias"),
        f"{here}.feed_forward.up.bias": ((F,), "bias"),
        f"{here}.feed_forward.down.bias": ((D,), "bias"),
    }


def test_a_qk_norm_of_fixed_gains_has_no_parameters():
    attention = {"kind": "multi_head", "n_heads": H, "d_head": E, "qk_norm": "fixed"}
    assert _added(attention=attention) == {}


def test_layer_norms_have_a_bias_unless_told_otherwise():
    assert _added(norm="layer") == {
        "stack.layers.0.attention_norm.bias": ((D,), "bias"),
        "stack.layers.0.feed_forward_norm.bias": ((D,), "bias"),
        "stack.final_norm.bias": ((D,), "bias"),
    }
    assert _added(norm={"kind": "layer", "bias": False}) == {}


def test_placement_decides_which_norms_there_are():
    assert _removed(placement="post") == {"stack.final_norm.weight"}
    assert _removed(placement="parallel") == {"stack.layers.0.feed_forward_norm.weight"}


@pytest.mark.parametrize(
    ("positions", "added"),
    [
        ("none", {}),
        ("sinusoidal", {}),
        ("rotary", {}),
        ("alibi", {}),
        ({"kind": "learned", "offset": 2}, {"stack.positions.weight": ((T + 2, D), "position")}),
        (
            {"kind": "relative_bias", "n_buckets": 8},
            {"stack.positions.weight": ((8, H), "relative")},
        ),
    ],
)
def test_positions_have_a_table_or_none(positions, added):
    attention = {"kind": "multi_head", "n_heads": H, "d_head": 4}
    plain = _table(attention=attention)
    table = _table(attention=attention, positions=positions)
    assert {name: entry for name, entry in table.items() if name not in plain} == added


def test_embeddings_and_head_have_what_is_asked():
    added = _added(
        embedding={"norm": True, "n_segments": S},
        head={"tied": False, "bias": True, "transform": "gelu"},
    )
    assert added == {
        "segments.weight": ((S, D), "position"),
        "stack.embedding_norm.weight": ((D,), "gain"),
        "head.transform.weight": ((D, D), "inward"),
        "head.transform.bias": ((D,), "bias"),
        "head.norm.weight": ((D,), "gain"),
        "head.weight": ((V, D), "head"),
        "head.bias": ((V,), "bias"),
    }


def test_latent_attention_has_its_own_matrices():
    attention = {
        "kind": "latent",
        "n_heads": H,
        "d_latent": 5,
        "d_content": 7,
        "d_rotary": 2,
        "d_value": 11,
    }
    here = "stack.layers.0.attention"
    added = _added(attention=attention, positions="rotary")
    assert added == {
        f"{here}.query.weight": ((H * 9, D), "inward"),
        f"{here}.latent.weight": ((5 + 2, D), "inward"),
        f"{here}.latent_norm.weight": ((5,), "gain"),
        f"{here}.key_value.weight": ((H * 18, 5), "inward"),
        f"{here}.output.weight": ((D, H * 11), "residual"),
    }
    more = _added(attention={**attention, "d_query_latent": 3}, positions="rotary")
    assert {name: entry for name, entry in more.items() if added.get(name) != entry} == {
        f"{here}.query_down.weight": ((3, D), "inward"),
        f"{here}.query_norm.weight": ((3,), "gain"),
        f"{here}.query.weight": ((H * 9, 3), "inward"),
    }


def test_experts_lie_in_one_tensor_each_and_a_token_uses_its_share():
    experts = {"kind": "experts", "n_experts": 5, "n_active": 2, "n_shared": 3, "d_expert": 11}
    here = "stack.layers.0.feed_forward"
    assert _added(feed_forward=experts) == {
        f"{here}.router.weight": ((5, D), "router"),
        f"{here}.gate": ((5, 11, D), "inward"),
        f"{here}.up": ((5, 11, D), "inward"),
        f"{here}.down": ((5, D, 11), "residual"),
        f"{here}.shared.gate.weight": ((33, D), "inward"),
        f"{here}.shared.up.weight": ((33, D), "inward"),
        f"{here}.shared.down.weight": ((D, 33), "residual"),
    }
    spec = Architecture.model_validate(
        {
            "n_vocab": V,
            "max_length": T,
            "d_model": D,
            "n_layers": 1,
            "feed_forward": experts,
            "attention": {"kind": "multi_head", "n_heads": H},
        }
    )
    shares = {name: p.share for name, p in parameters(resolve(spec)).items() if p.share != 1}
    assert shares == {f"{here}.gate": 0.4, f"{here}.up": 0.4, f"{here}.down": 0.4}


def test_an_encoder_has_blocks_of_its_own_or_shares_them():
    crossing = {
        "stack.layers.0.cross_norm.weight": ((D,), "gain"),
        "stack.layers.0.cross.query.weight": ((H * E, D), "query"),
        "stack.layers.0.cross.key.weight": ((H * E, D), "inward"),
        "stack.layers.0.cross.value.weight": ((H * E, D), "inward"),
        "stack.layers.0.cross.output.weight": ((D, H * E), "residual"),
    }
    own = {
        name.replace("stack", "encoder"): entry
        for name, entry in PLAIN.items()
        if name.startswith("stack.")
    }
    assert _added(encoder={"n_layers": 1}) == {**crossing, **own}
    final = {"encoder.final_norm.weight": ((D,), "gain")}
    assert _added(encoder={"n_layers": 1, "shared": True}) == {**crossing, **final}


def test_parallel_blocks_cross_attend_from_the_one_norm():
    added = _added(encoder={"n_layers": 1, "shared": True}, placement="parallel")
    assert "stack.layers.0.cross.query.weight" in added
    assert "stack.layers.0.cross_norm.weight" not in added


def test_a_parameter_counts_its_values():
    table = parameters(
        resolve(
            Architecture.model_validate(
                {
                    "n_vocab": V,
                    "max_length": T,
                    "d_model": D,
                    "n_layers": 1,
                    "attention": {"kind": "multi_head", "n_heads": H},
                }
            )
        )
    )
    assert table["embedding.weight"].count == V * D


@pytest.mark.parametrize(
    ("changes", "ratio"),
    [
        ({"init": {"kind": "normal", "std": 0.02}}, "35.4"),
        ({"init": {"kind": "mup", "std": 0.02}}, "35.4"),
        ({"init": {"kind": "fan_in", "gain": 0.05}}, "14.1"),
        ({"init": {"kind": "normal", "std": 0.02}, "embedding": {"scale": "sqrt_d_model"}}, None),
        ({"init": "fan_in"}, None),
        ({"positions": "learned"}, None),
    ],
)
def test_sinusoids_that_drown_embeddings_are_told(changes, ratio):
    architecture = load("gpt2", d_model=60, n_heads=2, changes={"positions": "sinusoidal"})
    architecture = load({**architecture.model_dump(mode="json"), **changes})
    note = position_note(architecture)
    if ratio is None:
        assert note is None
        return
    scale = "7.75" if changes["init"]["kind"] == "mup" else "'sqrt_d_model'"
    assert note == (
        f"positions are sinusoids of size 0.71, {ratio} times that of the embeddings they are added"
        f" to, {0.7071 / float(ratio):.2g} at the start; use embedding.scale = {scale}, or other"
        " positions"
    )
    # the start that the note speaks of, as it is drawn
    weight = build(architecture).embedding.weight.detach()
    size = sinusoids(torch.arange(97), 60, 10_000.0).square().mean().sqrt() / weight.std()
    assert float(size) == pytest.approx(float(ratio), rel=0.05)
