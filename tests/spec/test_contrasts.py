"""Contrasts as a design writes them: obeyed, or refused by name."""

import tomllib
from typing import Any

import pytest
from factorial_design import complaint, factorial
from trained_study import design_table

from paribus.report.toml_text import design_toml
from paribus.spec.contrasts import default_contrasts, two_by_two_levels
from paribus.spec.design import (
    compared_pairs,
    control_arm,
    control_length,
    control_margin,
    declared_contrasts,
    judged_pairs,
    n_judged,
)
from paribus.spec.design_reading import load_design

GAP = {"gap": {"reverse": 1, "causal": -0.5, "full": -0.5}}
TWO = {
    "mask": {"levels": {name: {"architecture": {"mask": name}} for name in ("full", "causal")}},
    "positions": {"path": "architecture.positions", "levels": ["rotary", "none"]},
}


def test_written_contrasts_are_the_family_with_the_pairs_that_are_written() -> None:
    design = load_design(design_table({"contrasts": GAP}))
    assert declared_contrasts(design) == {"gap": {"reverse": 1.0, "causal": -0.5, "full": -0.5}}
    assert (n_judged(load_design(design_table())), n_judged(design)) == (2, 1)
    assert judged_pairs(design) == ()
    pairs = {"comparisons": [["causal", "reverse"]]}
    assert n_judged(load_design(design_table({"contrasts": GAP} | pairs))) == 2


def test_default_contrasts_are_those_of_two_factors_of_two_levels() -> None:
    design = load_design(
        factorial({"factors": TWO, "baseline": "causal+none", "contrasts": "default"})
    )
    found = declared_contrasts(design)
    assert list(found) == [
        "mask from causal to full",
        "positions from none to rotary",
        "interaction of mask and positions",
    ]
    assert found["mask from causal to full"] == {
        "full+rotary": 0.5,
        "full+none": 0.5,
        "causal+rotary": -0.5,
        "causal+none": -0.5,
    }
    assert found["interaction of mask and positions"] == {
        "full+rotary": 1,
        "full+none": -1,
        "causal+rotary": -1,
        "causal+none": 1,
    }
    assert n_judged(design) == 3
    nothing = load_design(factorial({"factors": TWO, "baseline": "causal+none"}))
    assert (declared_contrasts(nothing), judged_pairs(nothing)) == (found, ())
    pair = [["full+none", "causal+none"]]
    written = load_design(
        factorial({"factors": TWO, "baseline": "causal+none", "comparisons": pair})
    )
    assert (n_judged(written), declared_contrasts(written)) == (1, {})


def test_four_arms_that_are_no_two_by_two_have_no_default() -> None:
    odd = {
        "a": {"p": "0", "q": "0"},
        "b": {"p": "0", "q": "1"},
        "c": {"p": "0", "q": "2"},
        "d": {"p": "1", "q": "0"},
    }
    assert two_by_two_levels(odd, "a") is None
    assert default_contrasts(odd, "a") == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"gap": {"revers": 1, "causal": -1}},
            "contrasts.gap has 'revers', which is not an arm; did you mean 'reverse'?",
        ),
        (
            {"gap": {"reverse": 1, "causal": -0.9}},
            "contrasts.gap has weights that add up to 0.1; let them add up to 0",
        ),
        (
            {"gap": {"reverse": 1}},
            "contrasts.gap has only 1 of the arms; weigh two or more against each other",
        ),
        ({"gap": {}}, "contrasts.gap has only 0 of the arms; weigh two or more"),
        (
            {"gap": {"reverse": 0, "causal": 0}},
            "contrasts.gap gives 'reverse' the weight 0; leave it out",
        ),
        (
            {"gap": {"reverse": float("nan"), "causal": -1}},
            "contrasts has gap.reverse = nan; write a number up to 1000",
        ),
        (
            {"gap": {"reverse": float("inf"), "causal": -1}},
            "contrasts has gap.reverse = inf; write a number up to 1000",
        ),
        ({"gap": {"reverse": 10**400, "causal": -1}}, "; write a number up to 1000, as 1 or -0.5"),
        (
            {"gap": {"reverse": "1", "causal": -1}},
            "contrasts has gap.reverse = '1'; write a number up to 1000",
        ),
        (
            {"gap": {"reverse": True, "causal": -1}},
            "contrasts has gap.reverse = True; write a number up to 1000",
        ),
        (
            {"gap": 3},
            "contrasts has gap = 3; write weights by arm that add up to 0, as in { gap = ",
        ),
        ({}, "contrasts is an empty table; name at least one, as in { gap = "),
        (
            [["reverse", "causal"]],
            "contrasts is [['reverse', 'causal']]; write weights by arm that add up to 0",
        ),
        ("defualt", "contrasts is 'defualt'; write weights by arm that add up to 0, as in"),
        ("default", "and this design has 3 arms and no factors; write the contrasts out"),
        (
            {"full": {"reverse": 1, "causal": -1}},
            "contrasts.full has the name of an arm; call it something else",
        ),
        (
            {"a/b": {"reverse": 1, "causal": -1}},
            "contrasts has 'a/b', which cannot be a name; use up to 80 letters",
        ),
        (
            {"": {"reverse": 1, "causal": -1}},
            "contrasts has '', which cannot be a name; use up to 80 letters",
        ),
        (
            {"gap": {"reverse": 1, "causal": -1}, "Gap": {"reverse": 1, "full": -1}},
            (
                "contrasts.Gap is there twice, but for capitals and spaces; call one of them"
                " something else"
            ),
        ),
    ],
)
def test_a_slip_in_contrasts_is_named_with_what_would_do(given: Any, said: str) -> None:
    assert said in complaint({**design_table(), "contrasts": given})


def test_default_of_more_levels_is_refused() -> None:
    wide = {
        **TWO,
        "positions": {"path": "architecture.positions", "levels": ["rotary", "none", "alibi"]},
    }
    asked = {"factors": wide, "baseline": "causal+none", "contrasts": "default"}
    assert "this design has 2 × 3 levels; write the contrasts out" in complaint(factorial(asked))


def test_contrasts_may_be_set_by_path() -> None:
    design = load_design(design_table(), changes={"contrasts.gap": {"reverse": 1, "causal": -1}})
    assert design.contrasts == {"gap": {"reverse": 1.0, "causal": -1.0}}


def test_contrasts_are_written_into_the_design_of_a_report() -> None:
    told = design_toml(load_design(design_table({"contrasts": GAP})).model_dump(mode="json"))
    assert tomllib.loads(told)["contrasts"] == GAP
    assert "contrasts" not in design_toml(load_design(design_table()).model_dump(mode="json"))


def test_a_control_is_compared_and_not_judged_unless_its_pair_is_written() -> None:
    design = load_design(design_table({"control": "causal"}))
    assert judged_pairs(design) == (("reverse", "full"),)
    assert set(compared_pairs(design)) == {("reverse", "full"), ("causal", "full")}
    assert n_judged(design) == 1
    written = load_design(
        design_table(
            {"control": "causal", "comparisons": [["causal", "full"], ["reverse", "full"]]}
        )
    )
    assert n_judged(written) == 2
    left_out = load_design(
        design_table({"control": "causal", "comparisons": [["reverse", "full"]]})
    )
    assert n_judged(left_out) == 1


def test_a_control_that_is_the_only_other_arm_leaves_nothing_to_judge() -> None:
    said = complaint(design_table({"control": "causal", "arms.reverse": None}))
    assert (
        "control is 'causal', the only arm beside the baseline, and a control is not among what is"
        " judged" in said
    )
    assert "comparisons = [['causal', 'full']]" in said


@pytest.mark.parametrize(
    "given", [3, {"length": 0}, {"length": 1}, {"length": "half"}, {"share": 0.5}, {}, ["causal"]]
)
def test_a_control_is_an_arm_or_a_share_of_the_training(given: Any) -> None:
    said = complaint({**design_table(), "control": given})
    assert (
        f"control is {given!r}; name an arm, or write a share of the training, as {{ length ="
        " 0.5 }" in said
    )


def test_a_control_by_length_is_one_of_the_lengths() -> None:
    asked = {"control": {"length": 0.5}, "lengths": [0.25, 0.5, 1]}
    design = load_design(design_table(asked))
    assert (control_length(design), control_arm(design)) == (0.5, None)
    assert judged_pairs(design) == (("reverse", "full"), ("causal", "full"))
    said = complaint(design_table({"control": {"length": 0.5}}))
    assert (
        "control is at the length 0.5, and lengths are missing; write it there, as lengths = [0.25,"
        " 0.5, 1]" in said
    )
    said = complaint(design_table({"control": {"length": 0.4}, "lengths": [0.25, 0.5, 1]}))
    assert "control is at the length 0.4, and lengths are [0.25, 0.5, 1.0]; write it there" in said


def test_a_margin_may_be_a_share_of_the_control() -> None:
    design = load_design(design_table({"primary.margin": "25 % of control", "control": "causal"}))
    assert control_margin(str(design.primary.margin)) == 0.25
    said = complaint(design_table({"primary.margin": "25 % of control"}))
    assert (
        "primary.margin is '25 % of control', and the design has no control; name an arm that must"
        " come out" in said
    )
    said = complaint(design_table({"primary.margin": "125 % of control", "control": "causal"}))
    assert (
        "primary.margin is '125 % of control'; use a number, or such as '5 % compute', up to 300 %,"
        " or '25 %" in said
    )
