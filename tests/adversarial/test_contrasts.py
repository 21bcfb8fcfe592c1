"""Contrasts and factorials: what can be taken apart into pairs of one factor is simple or an
interaction, and what cannot is compound.
"""

import re

import pytest

from paribus.errors import ConfoundError, SpecError
from paribus.record import JudgedDifference

FACTORIAL = """
baseline = "causal+rotary"
{}
[factors.mask]
path = "architecture.mask"
levels = ["causal", "prefix"]
[factors.positions]
path = "architecture.positions"
levels = ["rotary", "none"]
"""
# A level that bundles mask, dropout, decay and layers; and the same with the mask alone.
BUNDLE = """
baseline = "a+rotary"
match = "nothing"
budget = "tokens_read"
[factors.bundle.levels]
a = {}
b = { architecture = { mask = "prefix"MORE }DECAY }
[factors.positions]
path = "architecture.positions"
levels = ["rotary", "none"]
"""


def by_name(plan) -> dict[str, JudgedDifference]:
    return {one.contrast or f"{one.arm} against {one.against}": one for one in plan.judged}


def test_effects_of_two_factors_are_simple_and_their_interaction_is_named(plan_design) -> None:
    judged = by_name(plan_design(FACTORIAL.format("")))
    assert judged["mask from causal to prefix"].description == "differs in mask"
    assert judged["positions from rotary to none"].description == "differs in positions"
    both = judged["interaction of mask and positions"]
    assert (both.kind, set(both.factors)) == ("interaction", {"mask", "positions"})


def test_the_diagonal_of_a_factorial_is_refused_and_its_sides_are_not(plan_design) -> None:
    with pytest.raises(ConfoundError, match="differs in 2 factors: mask, positions; the effect"):
        plan_design(FACTORIAL.format('comparisons = [["prefix+none", "causal+rotary"]]'))
    sides = '[["prefix+none", "causal+none"], ["prefix+rotary", "causal+rotary"]]'
    judged = by_name(plan_design(FACTORIAL.format(f"comparisons = {sides}")))
    assert judged["prefix+none against causal+none"].factors == ("mask",)


@pytest.mark.parametrize("weight", ["1", "1e-10"])
def test_weights_count_by_their_shares(plan_design, weight: str) -> None:
    diagonal = f'contrasts = {{ x = {{ "prefix+none" = {weight}, "causal+rotary" = -{weight} }} }}'
    with pytest.raises(ConfoundError, match="x differs in 2 factors: mask, positions; the effect"):
        plan_design(FACTORIAL.format(diagonal))


@pytest.mark.parametrize("judge", ["", 'comparisons = [["b+none", "a+none"]]\n'])
def test_a_level_that_bundles_four_fields_counts_each_by_itself(plan_design, judge: str) -> None:
    """Also in main effects, which are in the family where nothing else is written."""
    decay = ", training = { optimizer = { decay = 0.3 } }"
    sly = BUNDLE.replace("MORE", ", dropout = 0.1, n_layers = 4").replace("DECAY", decay)
    with pytest.raises(ConfoundError) as caught:
        plan_design(judge + sly)
    assert "differs in 4 factors: " in str(caught.value)
    for name in ("mask", "dropout", "n_layers", "optimizer.decay"):
        assert name in str(caught.value)
    honest = BUNDLE.replace("MORE", "").replace("DECAY", "")
    assert {one.kind for one in plan_design(judge + honest).judged} <= {"simple", "interaction"}


CONTRASTS = {
    "a pair under another name": ("prefix+none = 1, causal+rotary = -1", "compound"),
    "both diagonals, weighted": (
        "prefix+none = 0.5, prefix+rotary = 0.5, causal+rotary = -1",
        "compound",
    ),
    "one effect counted up, and twice down": (
        "prefix+none = 0.25, causal+none = -0.25, prefix+rotary = -0.75, causal+rotary = 0.75",
        "compound",
    ),
    "a simple effect": ("prefix+none = 1, causal+none = -1", "simple"),
    "a mean of simple effects": (
        "prefix+none = 0.25, causal+none = -0.25, prefix+rotary = 0.75, causal+rotary = -0.75",
        "simple",
    ),
    "a difference of simple effects": (
        "prefix+none = 1, causal+none = -1, prefix+rotary = -1, causal+rotary = 1",
        "interaction",
    ),
}


@pytest.mark.parametrize("name", CONTRASTS)
def test_a_contrast_is_taken_apart(plan_design, name: str) -> None:
    weights, kind = CONTRASTS[name]
    quoted = re.sub(r"([\w+]+) =", r'"\1" =', weights)
    design = FACTORIAL.format(f'contrasts = {{ "own" = {{ {quoted} }} }}\nREASON')
    meant = 'compound = { own = "it is what the paper computes" }'
    if kind == "compound":
        with pytest.raises(ConfoundError, match="contrasts: own differs in 2 factors: "):
            plan_design(design.replace("REASON", ""))
        one = by_name(plan_design(design.replace("REASON", meant)))["own"]
        assert one.reason == "it is what the paper computes"
    else:
        one = by_name(plan_design(design.replace("REASON", "")))["own"]
    assert one.kind == kind


def test_a_difference_of_effects_between_places_that_differ_in_two_is_compound(plan_design) -> None:
    """An interaction with mask or with norm: it cannot say with which."""
    design = """
    factor = ["architecture.mask", "architecture.dropout", "architecture.positions"]
    contrasts = { turns = { c = 1, b = -1, a = -1, plain = 1 } }
    REASON
    [arms.plain]
    [arms.a]
    architecture.positions = "none"
    [arms.b]
    architecture.mask = "prefix"
    architecture.dropout = 0.1
    [arms.c]
    architecture.mask = "prefix"
    architecture.dropout = 0.1
    architecture.positions = "none"
    """
    said = "contrasts: turns is the interaction of positions with mask and dropout together; judge"
    with pytest.raises(ConfoundError, match=said):
        plan_design(design.replace("REASON", ""))
    simple = design.replace("architecture.dropout = 0.1", "").replace("REASON", "")
    assert by_name(plan_design(simple))["turns"].kind == "interaction"


def test_weights_that_cannot_be_taken_apart_are_said_to_be_the_reason(plan_design) -> None:
    """The arm "c" is the baseline under another name, so no pair of it differs in a factor."""
    design = """
    factor = "architecture.positions"
    baseline = "a"
    contrasts = { "pos" = { b = 0.01, a = -1.01, c = 1 } }
    [arms.a]
    [arms.b]
    architecture.positions = "none"
    [arms.c]
    """
    with pytest.raises(
        ConfoundError,
        match="pos differs in positions, and its weights cannot be taken apart into pairs that",
    ):
        plan_design(design)


# Arms "a" and "b" in one place, "c" and "d" in another, where the effect is counted the other way.
TWO_PLACES = """
factor = ["architecture.dropout", "architecture.positions", "architecture.mask"]
baseline = "b"
contrasts = {{ "effect of it" = {{ a = 0.5, b = -0.5, c = -0.5, d = 0.5 }} }}
[arms.b]
{b}
[arms.a]
{a}
[arms.d]
architecture.positions = "none"
{d}
[arms.c]
architecture.positions = "none"
{c}
"""
DROPOUT, MASK = "architecture.dropout = {}", 'architecture.mask = "{}"'


@pytest.mark.parametrize(
    ("field", "levels", "honest"),
    [
        (DROPOUT, (0.1, 0.3, 0.100000001, 0.300000001), (0.1, 0.3, 0.4, 0.2)),
        (
            MASK,
            ("causal", "prefix", "by_head(causal, causal)", "by_head(prefix, prefix)"),
            ("causal", "prefix", "by_head(prefix, prefix)", "by_head(causal, causal)"),
        ),
        (
            MASK,
            ("causal", "causal & window(9)", "causal & window(8)", "causal & window(4)"),
            ("causal", "causal & window(9)", "causal & window(4)", "causal & window(8)"),
        ),
    ],
)
def test_a_difference_of_effects_between_two_places_is_no_effect_whatever_its_levels_are_called(
    plan_design, field: str, levels: tuple, honest: tuple
) -> None:
    sly = dict(zip("badc", map(field.format, levels), strict=True))
    with pytest.raises(ConfoundError, match="contrasts: effect of it differs in "):
        plan_design(TWO_PLACES.format(**sly))
    plain = dict(zip("badc", map(field.format, honest), strict=True))
    assert by_name(plan_design(TWO_PLACES.format(**plain)))["effect of it"].kind == "simple"


ONE_PLACE = """
factor = ["architecture.dropout", "architecture.mask"]
baseline = "b"
contrasts = {{ "own" = {{ {} }} }}
[arms.b]
architecture.dropout = 0.1
[arms.a]
architecture.dropout = 0.3
[arms.d]
architecture.dropout = 0.1001
[arms.c]
architecture.dropout = 0.3001
[arms.prefix]
architecture = {{ dropout = 0.1, mask = "prefix" }}
[arms.prefix-a]
architecture = {{ dropout = 0.3, mask = "prefix" }}
"""


@pytest.mark.parametrize(
    "sly", ["c = -0.5, d = 0.5, a = 0.5, b = -0.5", "c = 0.5, b = 0.5, a = -1"]
)
def test_levels_that_count_up_lie_on_one_side_of_those_that_count_down(plan_design, sly) -> None:
    with pytest.raises(ConfoundError, match="pairs that differ in that alone, in one direction"):
        plan_design(ONE_PLACE.format(sly))
    one = by_name(plan_design(ONE_PLACE.format("a = 0.5, c = 0.5, b = -0.5, d = -0.5")))["own"]
    assert (one.description, one.notes) == ("differs in dropout", ())


@pytest.mark.parametrize(
    ("sly", "said", "honest"),
    [
        (
            "a = 3, b = -3",
            r"own has weights above 0 that add up to 3, so that its gain is 3 × .* add up to 1, and"
            r' those below to -1, such as \{ "a" = 1, "b" = -1 \}',
            "a = 1, b = -1",
        ),
        ("a = 1e-3, b = -1e-3", "its gain is 0.001 × what the margin is for", "a = 1, b = -1"),
        (
            "prefix-a = 9, prefix = -9, a = -9, b = 9",
            'add up to 18, .* add up to 2, as in a 2 × 2, .* such as { "prefix-a" = 1, ',
            "prefix-a = 0.5, prefix = -0.5, a = -0.5, b = 0.5",
        ),
    ],
)
def test_the_weights_of_a_contrast_make_its_gain_what_the_margin_is_for(
    plan_design, sly: str, said: str, honest: str
) -> None:
    with pytest.raises(SpecError, match=said):
        plan_design(ONE_PLACE.format(sly))
    plan_design(ONE_PLACE.format(honest))


def test_an_arm_that_a_contrast_hardly_counts_is_named(plan_design) -> None:
    sly = plan_design(ONE_PLACE.format("a = 0.001, c = 0.999, b = -1"))
    assert by_name(sly)["own"].description == (
        "differs in dropout; hardly counts a, by 0.001 beside 0.999 of c"
    )
    honest = plan_design(ONE_PLACE.format("a = 0.3, c = 0.7, b = -1"))
    assert by_name(honest)["own"].description == "differs in dropout"


@pytest.mark.parametrize("name", ["a against b", "A  vs. B", "a beats b"])
def test_a_contrast_has_no_name_that_reads_like_a_pair(plan_design, name: str) -> None:
    design = ONE_PLACE.format("b = 1, a = -1")
    with pytest.raises(SpecError, match="reads like the pair a against b; call it something else"):
        plan_design(design.replace('"own"', f'"{name}"'))
    plan_design(design.replace('"own"', '"gain of b"'))


def test_a_contrast_has_no_name_of_an_effect_that_is_shown_anyhow(plan_design) -> None:
    own = '{ "prefix+none" = 1, "causal+none" = -1 }'
    design = 'contrasts = { "NAME" = ' + own + " }"
    with pytest.raises(SpecError, match="has the name of an effect that every 2 × 2 shows"):
        plan_design(FACTORIAL.format(design.replace("NAME", "mask from causal to prefix")))
    plan_design(FACTORIAL.format(design.replace("NAME", "mask without positions")))


SIZES = """
factor = ["architecture.mask", "architecture.d_model", "architecture.attention.n_heads"]
match = "nothing"
budget = "tokens_read"
{}
[arms.plain]
[arms.prefix]
architecture.mask = "prefix"
[arms."plain 32"]
architecture = {{ d_model = 32, attention = {{ n_heads = 4 }} }}
[arms."prefix 32"]
architecture = {{ mask = "prefix", d_model = 32, attention = {{ n_heads = 4 }} }}
"""


def test_a_contrast_of_equal_sizes_says_nothing_of_sizes(plan_design) -> None:
    mean = '{ own = { prefix = 0.5, "prefix 32" = 0.5, plain = -0.5, "plain 32" = -0.5 } }'
    one = by_name(plan_design(SIZES.format(f"contrasts = {mean}")))["own"]
    assert one.description == "differs in mask"
    widths = '{ own = { "plain 32" = 1, plain = -1 } }'
    reason = 'compound = { own = "heads keep their size" }'
    one = by_name(plan_design(SIZES.format(f"contrasts = {widths}\n{reason}")))["own"]
    assert "× the parameters" in one.description


def test_an_interaction_with_several_fields_together_is_said_to_be_so(plan_design) -> None:
    turns = 'contrasts = { own = { "prefix 32" = 1, prefix = -1, "plain 32" = -1, plain = 1 } }'
    said = "own is the interaction of mask with d_model and attention.n_heads together"
    with pytest.raises(ConfoundError, match=said):
        plan_design(SIZES.format(turns))
    reason = 'compound = { own = "heads keep their size" }'
    one = by_name(plan_design(SIZES.format(f"{turns}\n{reason}")))["own"]
    assert one.is_compound
    assert f"own {one.description}" == said
