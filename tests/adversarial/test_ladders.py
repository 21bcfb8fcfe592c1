"""Ladders on which the factor is another one at each size, or none."""

import re
from typing import Any

import pytest

from paribus.errors import SpecError

LADDER = """
budget = "tokens_read"
match = "nothing"
[ladder]
sizes = [16, 32, 48]
tokens_per_parameter = [2, 8]
"""
EXPERTS = "{ kind = 'experts', n_experts = 4, n_active = 1, activation = 'gelu_tanh', gated = false"
# the factor; what the base has; what the other arm has, as TOML; what is said
FIXED = {
    "feed-forward": (
        "feed_forward.d_ff",
        None,
        "40",
        "feed_forward.d_ff is 40 at every size of the ladder, .* leave it out, so that it follows",
    ),
    "key heads": (
        "attention.n_kv_heads",
        None,
        "2",
        "n_kv_heads is 2 at every size of the ladder, .*; use 1, which is one for all heads",
    ),
    "experts": (
        "feed_forward",
        None,
        f"{EXPERTS}, d_expert = 32 }}",
        "d_expert is 32 at every size of the ladder",
    ),
}
HONEST = {
    "key heads": ("attention.n_kv_heads", None, "1"),
    "experts": ("feed_forward", None, f"{EXPERTS} }}"),
}


def _design(factor: str, base: str | None, other: str) -> str:
    own = "" if base is None else f"[base.architecture]\n{factor} = {base}\n"
    return (
        f'factor = "architecture.{factor}"\n{LADDER}{own}[arms.plain]\n[arms.other]\n'
        f"architecture.{factor} = {other}\n"
    )


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_width_on_a_ladder_is_refused(plan_design: Any, name: str) -> None:
    *design, said = FIXED[name]
    with pytest.raises(SpecError, match=said):
        plan_design(_design(*design))


@pytest.mark.parametrize("name", HONEST)
def test_a_factor_that_is_the_same_at_each_size_is_planned(plan_design: Any, name: str) -> None:
    assert [rung.size for rung in plan_design(_design(*HONEST[name])).rungs] == [16, 32, 48]


def test_a_width_that_a_match_moves_is_not_fixed(plan_design: Any) -> None:
    match = '{ by = "active_parameters", moves = ["d_ff"] }'
    *design, _ = FIXED["experts"]
    moved = _design(*design).replace('"nothing"', match)
    assert len(plan_design(moved).rungs) == 3


def test_arms_that_are_one_model_at_a_size_are_refused(plan_design: Any) -> None:
    """With heads of 8 dimensions, a model of width 8 has one, and so one for keys, too."""
    text = _design("attention.n_kv_heads", None, "1").replace("[16, 32, 48]", "[8, 16, 32]")
    said = "ladder at d_model 8: arms 'plain' and 'other' would be the same computation"
    with pytest.raises(SpecError, match=said):
        plan_design(text)


DEPTHS = _design("n_layers", None, "3").replace("sizes =", "depth = 'proportional'\nsizes =")


def test_layers_that_do_not_come_out_whole_are_refused(plan_design: Any) -> None:
    """2 layers and 3 at d_model 16: at 8 they would be 1 and 2, and at 24, 3 and 4."""
    for sizes, said in (
        ("[8, 16, 32]", "ladder at d_model 8: .*other would have 2 layers for 1.5,"),
        ("[16, 24, 32]", "ladder at d_model 24: .*other would have 4 layers for 4.5,"),
    ):
        with pytest.raises(SpecError, match=said):
            plan_design(DEPTHS.replace("[16, 32, 48]", sizes))
    assert len(plan_design(DEPTHS).rungs) == 3


def test_arms_that_rounding_makes_alike_are_refused(plan_design: Any) -> None:
    text = DEPTHS.replace("n_layers = 3", "n_layers = 1").replace("[16, 32, 48]", "[8, 16, 32]")
    said = "ladder at d_model 8: other and plain are the same model there; use sizes at which"
    with pytest.raises(SpecError, match=said):
        plan_design(text)


BATCHES = f"""
factor = "training.n_sequences"
{LADDER}[base.training]
n_steps = 1500
[arms.plain]
[arms.other]
training.n_sequences = 16
"""


def test_whole_steps_of_a_size_that_read_other_totals_are_refused(plan_design: Any) -> None:
    """Steps of 512 tokens and of 128: 20 and 82 are as near as they come to 10,481 tokens."""
    said = (
        "ladder at d_model 16: tokens_read is 10,240 in other and 10,496 in plain (-2.4%), as near"
        " to 10,481 as whole steps come; use fewer sequences a step, more tokens_per_parameter, or"
        " list 'tokens_read in all' under allow with a reason"
    )
    uneven = BATCHES.replace("[2, 8]", "[1.59, 8]")
    with pytest.raises(SpecError, match=re.escape(said)):
        plan_design(uneven)
    reason = 'allow = { tokens_read = "a few tokens do not matter here" }'
    assert len(plan_design(reason + uneven).rungs) == len(plan_design(BATCHES).rungs) == 3


LATENTS = """
[base.architecture]
positions = "none"
[base.architecture.attention]
kind = "latent"
n_heads = 2
d_latent = 8
d_content = 8
d_rotary = 0
d_value = 8
"""
SHARES = {
    "query latents": (
        "attention.d_query_latent",
        LATENTS,
        "",
        "12",
        "d_query_latent is 12 at every size of the ladder",
    ),
    "layers without experts": (
        "feed_forward.n_dense_layers",
        f"base.architecture.feed_forward = {EXPERTS} }}\nladder.depth = 'proportional'",
        "",
        "1",
        "n_dense_layers is 1 at every size of the ladder",
    ),
    "a number for a word": (
        "embedding.scale",
        "",
        "5.0",
        "'sqrt_d_model'",
        "embedding.scale is 'sqrt_d_model' in other and 5.0 in plain, so one grows with the width",
    ),
    "twice a width of the base": (
        "feed_forward.d_ff",
        "base.architecture.feed_forward.d_ff = 32",
        "",
        "64",
        r"other has 1\.5, 1\.33, 1\.25 × the weights of plain, .*d_ff is 64 and 32: let each",
    ),
    "one expert more, of a width of the base": (
        "feed_forward.n_shared",
        f"base.architecture.feed_forward = {EXPERTS}, d_expert = 32 }}",
        "",
        "1",
        r"d_expert is 32 and 32: let each follow d_model, match the sizes of the arms, or leave",
    ),
}


def _shares(name: str) -> str:
    factor, base, plain, other, _ = SHARES[name]
    own = f"architecture.{factor} = {plain}" if plain else ""
    text = f'factor = "architecture.{factor}"\n{base}\n[arms.plain]\n{own}\n[arms.other]\n'
    return text + f"architecture.{factor} = {other}\n"


@pytest.mark.parametrize("name", SHARES)
def test_another_share_of_the_model_at_each_size_is_refused(plan_design: Any, name: str) -> None:
    ladder = LADDER.replace("[ladder]", "").replace("tokens_per", "ladder.tokens_per")
    design = ladder.replace("sizes", "ladder.sizes") + _shares(name)
    with pytest.raises(SpecError, match=SHARES[name][-1]):
        plan_design(design)


@pytest.mark.parametrize(
    ("name", "sly", "honest"),
    [
        ("a number for a word", "5.0", "'rsqrt_d_model'"),
        ("one expert more, of a width of the base", ", d_expert = 32", ""),
    ],
)
def test_the_same_share_of_the_model_at_each_size_is_planned(
    plan_design: Any, name: str, sly: str, honest: str
) -> None:
    ladder = LADDER.replace("[ladder]", "").replace("tokens_per", "ladder.tokens_per")
    design = ladder.replace("sizes", "ladder.sizes") + _shares(name)
    assert len(plan_design(design.replace(sly, honest)).rungs) == 3


GATED = """
factor = "architecture.feed_forward.gated"
budget = "tokens_read"
match = { by = "non_embedding_parameters", moves = ["d_ff"], tolerance = 0.18 }
ladder = { sizes = [16, 24, 40], d_head = 8, tokens_per_parameter = [2, 8] }
base.architecture = { d_model = 24, attention = { n_heads = 3 } }
[arms.plain]
[arms.other]
architecture.feed_forward.gated = true
"""


def test_sizes_that_are_equal_at_one_size_alone_are_refused(plan_design: Any) -> None:
    said = (
        r"ladder at d_model 16: other against plain comes to 0\.8\d+ × the non embedding parameters"
        r" there and to an equal size as written, .*; use match.tolerance 0.02 or less, or leave"
    )
    with pytest.raises(SpecError, match=said):
        plan_design(GATED)
    assert len(plan_design(GATED.replace("0.18", "0.02")).rungs) == 3


ALTERNATE = """
factor = "FACTOR"
budget = "tokens_read"
match = "nothing"
ladder = { sizes = [32, 40, 48], depth = "proportional", tokens_per_parameter = [2, 8] }
base.architecture = { n_layers = 4, d_model = 32, attention = { n_heads = 4 } }
[arms.plain]
[arms.other]
architecture.mask = "alternate(prefix, causal)"
"""


def test_masks_of_other_shares_of_the_layers_at_each_size_are_refused(plan_design: Any) -> None:
    masks = ALTERNATE.replace("FACTOR", "architecture.mask")
    said = (
        "ladder: other has 4, 5, 6 layers at d_model 32, 40, 48, and other shares of them have"
        " each of its masks, .*; use sizes such as 16, 32, 48, .*, or depth = 'fixed'"
    )
    with pytest.raises(SpecError, match=said):
        plan_design(masks)
    for cure in (("[32, 40, 48]", "[16, 32, 48]"), ('"proportional"', '"fixed"')):
        assert len(plan_design(masks.replace(*cure)).rungs) == 3


def test_masks_that_alternate_in_both_arms_are_no_part_of_the_factor(plan_design: Any) -> None:
    text = ALTERNATE.replace("FACTOR", "architecture.norm").replace(
        "4, d_model", "4, MASK, d_model"
    )
    text = text.replace(
        "architecture.mask = ", "architecture.norm = { kind = 'rms', eps = 1e-5 } #"
    )
    assert len(plan_design(text.replace("MASK", "mask = 'alternate(prefix, causal)'")).rungs) == 3


def test_starts_that_grow_apart_with_the_width_are_refused(plan_design: Any) -> None:
    said = (
        r"architecture.init is 'fan_in' in other and 'normal' in plain; at d_model 16, 32, 48, .*"
        r" starts 12\.5, 8\.84, 7\.22 × as wide in other, .*; use inits that grow alike"
    )
    with pytest.raises(SpecError, match=said):
        plan_design(_design("init", "{ kind = 'normal', residual = false }", "{ kind = 'fan_in' }"))
    gains = "{ kind = 'fan_in' }", "{ kind = 'fan_in', gain = 0.5 }"
    assert len(plan_design(_design("init", *gains)).rungs) == 3
