import math

import numpy as np
import pytest
import torch

from paribus.errors import SpecError
from paribus.model import build
from paribus.model.initialise import initial_values
from paribus.runtime import torch_generator
from paribus.spec import Parameter, load, parameters, parse_architecture, resolve

SMALL = {
    "n_vocab": 101,
    "max_length": 53,
    "d_model": 48,
    "n_layers": 3,
    "positions": "learned",
    "attention": {"kind": "multi_head", "n_heads": 3, "bias": True},
    "head": {"tied": False, "bias": True},
    "feed_forward": {
        "kind": "experts",
        "n_experts": 5,
        "n_active": 2,
        "d_expert": 29,
        "router": {"bias_rate": 0.01},
    },
}


def _deviations(**changes):
    spec = resolve(parse_architecture({**SMALL, **changes}))
    model = build(parse_architecture({**SMALL, **changes}), seed=7)
    return {
        name: (
            parameters(spec)[name].role,
            tensor.shape,
            tensor.std(correction=0).item(),
            tensor.mean().item(),
        )
        for name, tensor in model.named_parameters()
    }


def _holds(actual, expected, count):
    return abs(actual - expected) < 5 * expected / math.sqrt(2 * count)


@pytest.mark.parametrize("residual", [True, False])
def test_normal_starts_draw_every_matrix_alike_but_those_into_the_residual(residual):
    for name, (role, shape, deviation, mean) in _deviations(
        init={"kind": "normal", "std": 0.3, "residual": residual}
    ).items():
        if role in ("gain", "bias"):
            assert (deviation, mean) == (0.0, 1.0 if role == "gain" else 0.0), name
        else:
            expected = 0.3 / math.sqrt(2 * 3) if role == "residual" and residual else 0.3
            assert _holds(deviation, expected, shape.numel()), name
            assert abs(mean) < 5 * expected / math.sqrt(shape.numel()), name


def test_queries_of_fixed_gain_do_not_make_up_for_the_scale_of_scores():
    def drawn(**given):
        attention = {"kind": "multi_head", "n_heads": 3, **given}
        spec = parse_architecture({**SMALL, "init": "fan_in", "attention": attention})
        return build(spec, seed=7).get_parameter("stack.layers.0.attention.query.weight")

    assert torch.equal(drawn(qk_norm="fixed", score_scale=1.0), drawn(qk_norm="fixed"))
    for learned in ({}, {"qk_norm": True}):
        torch.testing.assert_close(drawn(score_scale=1.0, **learned), drawn(**learned) / 4)


def test_fan_in_starts_divide_by_the_root_of_the_inputs_but_not_in_tables():
    seen = set()
    for name, (role, shape, deviation, _) in _deviations(
        init={"kind": "fan_in", "gain": 0.5}
    ).items():
        seen.add(role)
        if role in ("word", "position"):
            assert _holds(deviation, 0.5, shape.numel()), name
        elif role not in ("gain", "bias"):
            assert _holds(deviation, 0.5 / math.sqrt(shape[-1]), shape.numel()), name
    assert seen == {
        "word",
        "position",
        "query",
        "inward",
        "residual",
        "router",
        "gain",
        "bias",
        "head",
    }


def test_mup_starts_scale_with_the_inputs_but_not_in_tables():
    seen = set()
    own = {"kind": "mup", "std": 0.5}
    attention = {"kind": "multi_head", "n_heads": 3}
    for name, (role, shape, deviation, _) in _deviations(init=own, attention=attention).items():
        seen.add(role)
        n_inputs = shape[-1]
        match role:
            case "word" | "position" | "relative":
                assert _holds(deviation, 0.5, shape.numel()), name
            case "query":
                assert deviation == 0, name
            case "router" | "head":
                assert _holds(deviation, 8 / n_inputs, shape.numel()), name
            case "inward" | "residual":
                assert _holds(deviation, n_inputs**-0.5, shape.numel()), name
    assert {"word", "query", "router", "head", "inward", "residual"} <= seen


def test_scores_start_at_one_size_whatever_their_scale():
    """T5 has no scale and draws its queries 1/√d_head smaller; its relative bias starts at
    1/√d_model.
    """
    spec = load("t5", d_model=256, n_heads=4, n_layers=1, changes={"encoder.n_layers": 1})
    weights = dict(build(spec).named_parameters())
    query, bias = (
        weights["stack.layers.0.attention.query.weight"],
        weights["stack.positions.weight"],
    )
    assert _holds(query.std(), 256**-0.5 * 64**-0.5, query.numel())
    assert _holds(bias.std(), 256**-0.5, bias.numel())
    assert _holds(weights["stack.layers.0.attention.key.weight"].std(), 256**-0.5, query.numel())


def test_only_gpt2_starts_its_residuals_smaller():
    for preset, share in (("gpt2", 8**-0.5), ("bert", 1.0), ("llama", 1.0), ("gpt1", 1.0)):
        spec = load(preset, d_model=128, n_layers=4, n_heads=4)
        output = dict(build(spec).named_parameters())["stack.layers.0.attention.output.weight"]
        assert _holds(output.std(), 0.02 * share, output.numel()), preset


@pytest.mark.parametrize("seed", [np.int64(3), np.int32(3), True + 2])
def test_a_seed_is_its_number_whatever_its_type(seed):
    spec = load("gpt2", d_model=8, n_heads=2, n_layers=1, n_vocab=11, max_length=5)
    assert torch.equal(
        build(spec, seed=seed).embedding.weight, build(spec, seed=3).embedding.weight
    )


@pytest.mark.parametrize("seed", [1.0, "x", None])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(SpecError, match=r"seed is .*; use a whole number"):
        build(load("gpt2"), seed=seed)


def test_build_wants_an_architecture():
    with pytest.raises(
        SpecError, match=r"build was given 'gpt2' \(str\); give what pb.load returns"
    ):
        build("gpt2")


def test_selection_biases_start_at_zero():
    model = build(parse_architecture(SMALL))
    buffers = dict(model.named_buffers())
    assert len(buffers) == 3
    assert all(torch.equal(buffer, torch.zeros(5)) for buffer in buffers.values())


def test_a_parameter_is_drawn_from_the_stream_of_its_name():
    spec = resolve(parse_architecture({**SMALL, "init": {"kind": "normal", "std": 0.25}}))
    expected = torch.randn(5, 7, generator=torch_generator(3, "start", "some.name")) * 0.25
    assert torch.equal(
        initial_values("some.name", Parameter((5, 7), "inward"), spec, seed=3), expected
    )
    assert not torch.equal(
        initial_values("other.name", Parameter((5, 7), "inward"), spec, seed=3), expected
    )
    assert not torch.equal(
        initial_values("some.name", Parameter((5, 7), "inward"), spec, seed=5), expected
    )


def test_parameters_of_one_name_shape_and_distribution_start_equal_in_other_models():
    left = dict(
        build(
            parse_architecture({**SMALL, "init": {"kind": "normal", "residual": False}}), seed=3
        ).named_parameters()
    )
    other = {
        **SMALL,
        "mask": "full",
        "n_layers": 2,
        "norm": "rms",
        "placement": "post",
        "positions": "none",
        "init": {"kind": "normal", "residual": False},
        "encoder": {"n_layers": 2},
    }
    right = dict(build(parse_architecture(other), seed=3).named_parameters())
    common = [name for name in left if name in right and "bias" not in name and "norm" not in name]
    assert len(common) == 2 + 2 * 8
    assert all(torch.equal(left[name], right[name]) for name in common)
