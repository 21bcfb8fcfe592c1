"""Sizes met: every way to make architectures equal, from 1M to 1B parameters, counted on models
that were built.
"""

import re
from typing import Any

import pytest

from paribus.design import SizeMatch, architecture_size, match_size
from paribus.design.matching.dials import make_dial, try_changes
from paribus.errors import SpecError
from paribus.model import build
from paribus.spec import Architecture, Dense, load
from paribus.spec.match import Match, MatchBy, Move

N_INPUT, N_TARGET = 24, 40
SIZES: dict[str, dict[str, int]] = {
    "1M": {"n_vocab": 1021, "max_length": 64, "d_model": 128, "n_layers": 4, "n_heads": 4},
    "10M": {"n_vocab": 8191, "max_length": 128, "d_model": 320, "n_layers": 6, "n_heads": 10},
    "124M": {"n_vocab": 50257, "max_length": 1024, "d_model": 768, "n_layers": 12, "n_heads": 12},
    "1B": {"n_vocab": 50257, "max_length": 1024, "d_model": 1792, "n_layers": 24, "n_heads": 28},
}
EXPERTS = {"kind": "experts", "n_experts": 8, "n_active": 2, "n_shared": 1, "n_dense_layers": 1}


def at_size(preset: str, sizes: dict[str, int], **changes: Any) -> Architecture:
    """A preset at these sizes with heads that fill its width, its encoder, if any, as deep as
    the stack.
    """
    d_head = sizes["d_model"] // sizes["n_heads"]
    depth = {} if load(preset).encoder is None else {"encoder.n_layers": sizes["n_layers"]}
    return load(preset, changes={**sizes, "attention.d_head": d_head, **depth, **changes})


def decoder_of_t5(sizes: dict[str, int]) -> Architecture:
    table = at_size("t5", sizes).model_dump()
    return load({**table, "encoder": None})


def met(
    arm: Architecture,
    baseline: Architecture,
    by: MatchBy,
    *moves: Move,
    times: float = 1.0,
    tolerance: float = 0.005,
) -> SizeMatch:
    match = Match(by=by, moves=moves, times=times, tolerance=tolerance)
    result = match_size(arm, baseline, match, N_INPUT, N_TARGET)
    (size,) = result.sizes
    assert abs(size.error) <= tolerance
    assert size.value == architecture_size(result.architecture, by, N_INPUT, N_TARGET)
    assert size.target == times * architecture_size(baseline, by, N_INPUT, N_TARGET)
    return result


def built(spec: Architecture, active: bool = False) -> int:
    """Parameters of the built model, or those a token uses: of routed experts, whose matrices
    are stacked, some.
    """
    experts = None if isinstance(spec.feed_forward, Dense) else spec.feed_forward
    total = 0
    for parameter in build(spec, device="meta").parameters():
        routed = active and experts is not None and parameter.ndim == 3
        total += (
            parameter.numel() * experts.n_active // experts.n_experts
            if routed
            else parameter.numel()
        )
    return total


def near(count: int, target: int) -> None:
    assert abs(count / target - 1) <= 0.005


sized = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def test_the_baselines_have_the_sizes_they_are_named_for() -> None:
    for name, sizes in SIZES.items():
        named = float(name[:-1]) * {"M": 1e6, "B": 1e9}[name[-1]]
        assert architecture_size(at_size("gpt2", sizes), "parameters", 1, 1) == pytest.approx(
            named, rel=0.1
        )


# From 1M to 1B


@sized
def test_a_decoder_meets_another(sizes: dict[str, int]) -> None:
    baseline = at_size("gpt2", sizes)
    swish = at_size("gpt2", sizes, **{"feed_forward.gated": True, "norm": "rms", "n_layers": 3})
    result = met(swish, baseline, "parameters", "depth", "d_ff")
    near(built(result.architecture), built(baseline))
    assert result.moved_fields.keys() <= {"n_layers", "feed_forward.d_ff"}


@sized
def test_a_prefix_decoder_meets_a_causal_one(sizes: dict[str, int]) -> None:
    baseline = at_size("gpt2", sizes)
    shallow = at_size("unilm", sizes, n_layers=sizes["n_layers"] // 2)
    result = met(shallow, baseline, "parameters", "width", "d_ff")
    near(built(result.architecture), built(baseline))
    assert result.architecture.d_model > sizes["d_model"]
    assert met(at_size("unilm", sizes), baseline, "training_flops", "d_ff").moved_fields == {}


@sized
def test_an_encoder_decoder_of_equal_flops_has_nearly_twice_the_parameters(
    sizes: dict[str, int],
) -> None:
    baseline = decoder_of_t5(sizes)
    result = met(at_size("t5", sizes), baseline, "training_flops", "d_ff")
    layers = "non_embedding_parameters"
    assert (
        1.9
        < architecture_size(result.architecture, layers, 1, 1)
        / architecture_size(baseline, layers, 1, 1)
        < 2.1
    )
    assert built(result.architecture) == architecture_size(result.architecture, "parameters", 1, 1)
    assert result.moved_fields.keys() == {"feed_forward.d_ff"}
    assert met(at_size("t5", sizes), baseline, "inference_flops", "d_ff").moved_fields.keys() == {
        "feed_forward.d_ff"
    }


@sized
def test_an_encoder_decoder_may_have_twice_the_parameters(sizes: dict[str, int]) -> None:
    baseline = decoder_of_t5(sizes)
    result = met(at_size("t5", sizes), baseline, "non_embedding_parameters", "d_ff", times=2.0)
    table = sizes["n_vocab"] * sizes["d_model"]
    near(built(result.architecture) - table, 2 * (built(baseline) - table))


@sized
def test_an_encoder_decoder_of_shared_blocks_meets_a_decoder(sizes: dict[str, int]) -> None:
    baseline = decoder_of_t5(sizes)
    result = met(at_size("encdec-shared", sizes), baseline, "parameters", "d_ff")
    near(built(result.architecture), built(baseline))


@sized
def test_an_encoder_decoder_of_half_the_layers_meets_a_decoder(sizes: dict[str, int]) -> None:
    baseline = decoder_of_t5(sizes)
    halved = at_size("t5", sizes | {"n_layers": sizes["n_layers"] // 2})
    near(built(met(halved, baseline, "parameters", "d_ff").architecture), built(baseline))
    result = met(at_size("t5", sizes), baseline, "parameters", "depth", "d_ff")
    near(built(result.architecture), built(baseline))
    assert result.architecture.encoder is not None
    assert result.architecture.n_layers == result.architecture.encoder.n_layers < sizes["n_layers"]


@sized
def test_mixed_heads_meet_an_encoder(sizes: dict[str, int]) -> None:
    baseline = at_size("bert", sizes)
    shallow = at_size("mixed-heads", sizes, n_layers=sizes["n_layers"] - 1)
    result = met(shallow, baseline, "parameters", "width", "d_ff")
    near(built(result.architecture), built(baseline))
    assert result.architecture.attention.n_heads % 2 == 0


@sized
@pytest.mark.parametrize("by", ["active_parameters", "parameters"])
def test_experts_meet_a_dense_model(sizes: dict[str, int], by: MatchBy) -> None:
    baseline = at_size("gpt2", sizes)
    result = met(at_size("gpt2", sizes, feed_forward=EXPERTS), baseline, by, "d_ff")
    near(built(result.architecture, active=by == "active_parameters"), built(baseline))
    assert result.moved_fields.keys() == {"feed_forward.d_ff", "feed_forward.d_expert"}
    old, new = result.moved_fields["feed_forward.d_ff"]
    assert old == 4 * sizes["d_model"]
    assert result.moved_fields["feed_forward.d_expert"] == (old, new)


# Published matches


@pytest.mark.parametrize(
    ("d_model", "n_layers", "published"),
    [(1024, 8, 3), (2048, 16, 7), (2560, 20, 9), (3072, 24, 10), (4096, 32, 14)],
)
def test_depth_alone_comes_to_the_layers_of_redllm(
    d_model: int, n_layers: int, published: int
) -> None:
    # Table of arXiv 2510.26622. Its feed-forward is not told; matrices of 8 d_model² in all give
    # its layers.
    sizes = {
        "n_vocab": 32000,
        "max_length": 2048,
        "d_model": d_model,
        "n_layers": n_layers,
        "n_heads": d_model // 128,
    }
    result = met(at_size("t5", sizes), decoder_of_t5(sizes), "parameters", "depth", tolerance=0.1)
    depth = (n_layers, published)
    assert result.moved_fields == {"n_layers": depth, "encoder.n_layers": depth}


def test_six_layers_twice_are_t5s_half_but_for_cross_attention() -> None:
    # T5's Table 2 calls 6+6 layers P, and so they are without the cross-attention's four matrices a
    # layer.
    halved, whole = at_size("t5", SIZES["124M"] | {"n_layers": 6}), decoder_of_t5(SIZES["124M"])
    layers = "non_embedding_parameters"
    cross = 6 * (4 * 768**2 + 768) + 768  # with its norm, and the final norm of a second stack
    assert architecture_size(halved, layers, 1, 1) - architecture_size(whole, layers, 1, 1) == cross


# How it moves


SMALL = SIZES["10M"]


def test_what_is_near_enough_stays_as_it_is() -> None:
    arm = at_size("gpt2", SMALL, **{"attention.bias": False})
    result = met(arm, at_size("gpt2", SMALL), "parameters", "depth", "d_ff")
    assert (result.moved_fields, result.architecture) == ({}, arm)


def test_nothing_made_equal_moves_nothing() -> None:
    arm = at_size("t5", SMALL)
    result = match_size(arm, at_size("gpt2", SMALL), Match(by="nothing"), 1, 1)
    assert (result.architecture, result.sizes, result.moved_fields) == (arm, (), {})


def test_stacks_of_two_depths_keep_their_ratio() -> None:
    arm = at_size("t5", SMALL, **{"n_layers": 2, "encoder.n_layers": 6})
    result = met(arm, decoder_of_t5(SMALL), "parameters", "depth", tolerance=0.21)
    assert result.moved_fields == {"n_layers": (2, 1), "encoder.n_layers": (6, 3)}


def test_masks_by_layer_keep_depths_they_can_divide() -> None:
    arm = at_size("gpt2", SMALL, mask="by_layer(full, full, causal)")
    result = met(arm, at_size("gpt2", SMALL, n_layers=11), "parameters", "depth", "d_ff")
    assert result.moved_fields["n_layers"] == (6, 12)


def test_width_keeps_head_size_groups_and_written_ratios() -> None:
    wired = {"attention.n_kv_heads": 5, "feed_forward.d_ff": 800}
    arm = at_size("gpt2", SMALL, **wired)
    result = met(arm, at_size("gpt2", SMALL, n_layers=9), "parameters", "width", tolerance=0.1)
    after = result.architecture
    assert result.moved_fields.keys() == {
        "d_model",
        "attention.n_heads",
        "attention.n_kv_heads",
        "feed_forward.d_ff",
    }
    d_model, n_heads = after.d_model, after.attention.n_heads
    assert d_model == 32 * n_heads
    assert result.moved_fields["attention.n_kv_heads"] == (5, n_heads // 2)
    assert result.moved_fields["feed_forward.d_ff"] == (800, d_model * 5 // 2)


def test_one_key_value_head_stays_one() -> None:
    arm = at_size("gpt2", SMALL, **{"attention.n_kv_heads": 1})
    result = met(arm, at_size("gpt2", SMALL, n_layers=9), "parameters", "width", tolerance=0.1)
    assert result.moved_fields.keys() == {"d_model", "attention.n_heads"}
    alone = at_size("gpt2", SMALL | {"n_heads": 1}, **{"attention.n_kv_heads": 1})
    assert make_dial(alone, "width").changes_for(3) == {
        "d_model": 960,
        "attention.n_heads": 3,
        "attention.n_kv_heads": 3,
    }


def test_latent_attention_grows_by_heads_of_one_shape() -> None:
    latent = {
        "kind": "latent",
        "n_heads": 10,
        "d_latent": 64,
        "d_content": 32,
        "d_rotary": 16,
        "d_value": 32,
    }
    table = at_size("gpt2", SMALL, positions="rotary").model_dump()
    arm = load({**table, "attention": latent})
    result = met(arm, at_size("gpt2", SMALL, n_layers=9), "parameters", "width", "d_ff")
    assert result.architecture.attention.n_heads * 32 == result.architecture.d_model
    assert result.architecture.attention.model_copy(update={"n_heads": 10}) == arm.attention


def test_experts_of_their_own_width_keep_its_ratio_to_the_dense_layers() -> None:
    arm = at_size("gpt2", SMALL, feed_forward=EXPERTS | {"d_expert": 100, "d_ff": 400})
    result = met(arm, at_size("gpt2", SMALL), "parameters", "d_ff")
    assert (
        result.moved_fields["feed_forward.d_ff"][1]
        == 4 * result.moved_fields["feed_forward.d_expert"][1]
    )


@pytest.mark.parametrize(
    ("tolerance", "d_ff"), [(0.05, 1088), (0.005, 1120), (0.0005, 1112), (0.0001, 1111)]
)
def test_feed_forward_widths_are_as_round_as_the_tolerance_lets_them(
    tolerance: float, d_ff: int
) -> None:
    arm, baseline = (
        at_size("gpt2", SMALL, **{"feed_forward.d_ff": width}) for width in (2000, 1111)
    )
    assert met(arm, baseline, "parameters", "d_ff", tolerance=tolerance).moved_fields == {
        "feed_forward.d_ff": (2000, d_ff)
    }


def test_depth_goes_on_to_a_neighbour_where_the_nearest_cannot_be_mended() -> None:
    # With so many heads and so little feed-forward, a layer too many leaves nothing to take away
    # for it.
    heavy = {"attention.n_heads": 60, "feed_forward.d_ff": 4}
    baseline = at_size("gpt2", SMALL, **heavy | {"n_layers": 4, "feed_forward.d_ff": 676})
    arm = at_size("gpt2", SMALL, **heavy | {"n_layers": 2})
    assert met(arm, baseline, "parameters", "depth", tolerance=0.06).moved_fields == {
        "n_layers": (2, 5)
    }
    result = met(arm, baseline, "parameters", "depth", "d_ff")
    assert result.moved_fields.keys() == {"n_layers", "feed_forward.d_ff"}
    assert result.moved_fields["n_layers"] == (2, 4)


# Refusals


def refusal(architecture: Architecture, baseline: Architecture, match: Match) -> str:
    with pytest.raises(SpecError) as caught:
        match_size(architecture, baseline, match, N_INPUT, N_TARGET)
    return str(caught.value)


def test_depth_alone_says_what_it_gets_to_on_both_sides() -> None:
    match = Match(by="parameters", moves=("depth",))
    message = refusal(load("t5"), load({**load("t5").model_dump(), "encoder": None}), match)
    assert (
        message
        == "match.moves is depth, but of the 109,628,544 parameters asked for there are 107,271,168"
        " (-2.15 %) with n_layers 12 → 5, encoder.n_layers 12 → 5 and 123,790,080 (+12.92 %)"
        " with n_layers 12 → 6, encoder.n_layers 12 → 6, where 0.5 % is near enough; let width"
        " or d_ff move too, or set match.tolerance to 0.022"
    )
    met(
        load("t5"),
        load({**load("t5").model_dump(), "encoder": None}),
        "parameters",
        "depth",
        tolerance=0.022,
    )


def test_heads_of_one_size_leave_steps_too_coarse() -> None:
    message = refusal(
        load("mixed-heads", n_layers=6), load("bert"), Match(by="parameters", moves=("width",))
    )
    assert "(-0.98 %) with d_model 768 → 1024, attention.n_heads 12 → 16 and " in message
    assert "(+21.22 %) with d_model 768 → 1152, attention.n_heads 12 → 18, where" in message
    assert message.endswith("; let depth or d_ff move too, or set match.tolerance to 0.01")


def test_a_size_below_the_smallest_is_refused() -> None:
    message = refusal(
        at_size("gpt2", SMALL),
        at_size("gpt2", SIZES["1M"]),
        Match(by="parameters", moves=("depth",)),
    )
    assert re.search(
        r"there are nothing less and [\d,]+ \(\+\d+\.\d\d %\) with n_layers 6 → 1, where", message
    )
    assert message.endswith("; let width or d_ff move too")


def test_a_size_above_the_largest_is_refused() -> None:
    match = Match(by="parameters", moves=("d_ff",), times=1000)
    message = refusal(at_size("gpt2", SIZES["1M"]), at_size("gpt2", SIZES["124M"]), match)
    assert (
        "with feed_forward.d_ff 512 → 10000000 and nothing more, where 0.5 % is near enough; let"
        " depth" in message
    )


def test_where_all_may_move_already_another_start_is_advised() -> None:
    match = Match(by="parameters", moves=("depth", "width", "d_ff"), times=1e-4)
    message = refusal(at_size("gpt2", SMALL), at_size("gpt2", SMALL), match)
    assert "attention.n_heads 10 → 1, feed_forward.d_ff 1280 → 1, where 0.5 %" in message
    assert message.endswith("; write the architecture nearer to it")


def test_a_tolerance_finer_than_one_channel_is_refused() -> None:
    match = Match(by="parameters", moves=("depth", "d_ff"), tolerance=1e-9)
    message = refusal(at_size("gpt2", SMALL, norm="rms"), at_size("gpt2", SMALL, n_layers=7), match)
    assert (
        "where 1e-07 % is near enough; let width move too, or set match.tolerance to 0.001"
        in message
    )


def test_the_deepest_is_as_deep_as_a_spec_may_be() -> None:
    spec = at_size("gpt2", SMALL)
    assert try_changes(spec, {"n_layers": make_dial(spec, "depth").maximum + 1}) is None
    twice = at_size("t5", SMALL, **{"encoder.n_layers": 3})
    assert make_dial(twice, "depth").changes_for(make_dial(twice, "depth").maximum) == {
        "n_layers": 4096,
        "encoder.n_layers": 2048,
    }
