"""Contrasts and factorials: what can be taken apart into pairs of one factor is simple or an
interaction, and what cannot is compound.
"""

import re

import pytest

from paribus.errors import ConfoundError
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
        "prefix+none = 1, causal+none = -1, prefix+rotary = -2, causal+rotary = 2",
        "compound",
    ),
    "a simple effect": ("prefix+none = 1, causal+none = -1", "simple"),
    "a mean of simple effects": (
        "prefix+none = 1, causal+none = -1, prefix+rotary = 2, causal+rotary = -2",
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
    with pytest.raises(ConfoundError, match="contrasts: turns differs in 3 factors: "):
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
