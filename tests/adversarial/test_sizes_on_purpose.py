"""A size that is unequal on purpose is a factor, and is never called matched."""

import pytest

from paribus.errors import ConfoundError
from paribus.record import Mark

MATCHED = """
factor = ["architecture.positions"MATCH]
MORE
match = { by = "parameters", moves = ["d_ff"]LOOSE }
budget = "tokens_read"
[base.architecture]
positions = "learned"
max_length = 32
feed_forward.d_ff = 192
[arms.plain]
[arms.other]
architecture.positions = "none"
OWN
"""
TWICE = 'match = { by = "parameters", moves = ["depth", "d_ff"], times = 2.0 }'


def matched(**parts: str) -> str:
    design = MATCHED
    for name in ("MATCH", "MORE", "LOOSE", "OWN"):
        design = design.replace(name, parts.get(name, ""))
    return design


def test_sizes_that_agree_are_matched(plan_design) -> None:
    plan = plan_design(matched())
    lines = {line.path: line for line in plan.control_lines}
    assert (lines["parameters"].mark, "match" in lines) == (Mark.MATCHED, False)
    assert [one.factors for one in plan.judged] == [("positions",)]


@pytest.mark.parametrize("times", [TWICE, ""])
def test_a_size_of_twice_the_baseline_is_refused_declared_and_named(plan_design, times) -> None:
    own = {"OWN": times} if times else {"LOOSE": ", times = 2.0"}
    said = r"match is 'as written' in plain, '2 × parameters to 0\.005' in other, but it is not"
    with pytest.raises(ConfoundError, match=said):
        plan_design(matched(**own))
    with pytest.raises(
        ConfoundError, match=r"2 factors: positions, size \(2(.01)? × the parameters\);"
    ):
        plan_design(matched(**own, MATCH=', "match"'))
    reason = 'compound = { other = "what positions save is spent on width" }'
    plan = plan_design(matched(**own, MATCH=', "match"', MORE=reason))
    (one,) = plan.judged
    assert one.factors[0] == "positions"
    assert one.factors[1].startswith("size (2")
    marks = {line.path: line.mark for line in plan.control_lines}
    assert marks["match"] == Mark.FACTOR
    assert Mark.MATCHED not in (marks["parameters"], marks["architecture.feed_forward.d_ff"])


def test_a_tolerance_so_wide_that_nothing_is_matched_is_no_match(plan_design) -> None:
    wide = matched(LOOSE=", tolerance = 0.4", OWN="architecture.n_layers = 3").replace(
        '"architecture.positions"', '"architecture.positions", "architecture.n_layers"'
    )
    with pytest.raises(ConfoundError, match=r"'parameters to 0\.4' in other, but it is not the"):
        plan_design(wide)
    reason = 'compound = { other = "both at once" }\n'
    plan = plan_design(
        reason + wide.replace('"architecture.n_layers"]', '"architecture.n_layers", "match"]')
    )
    note = next(line.note for line in plan.control_lines if line.path == "parameters")
    assert "sizes differ by" in note
    tight = wide.replace("tolerance = 0.4", "tolerance = 0.01")
    assert "match" not in {line.path for line in plan_design(reason + tight).control_lines}


def test_an_arm_that_is_left_out_of_the_match_is_of_unequal_size_on_purpose(plan_design) -> None:
    out = matched(OWN='match = "nothing"\narchitecture.n_layers = 3').replace(
        '"architecture.positions"', '"architecture.positions", "architecture.n_layers"'
    )
    with pytest.raises(ConfoundError, match="sizes that are unequal on purpose are a factor"):
        plan_design(out)


def test_each_arm_may_be_matched_to_the_baseline_by_a_quantity_of_its_own(plan_design) -> None:
    """Equal parameters in one arm and equal work in another are two honest questions; the pair of
    the two is of equal size in neither.
    """
    design = """
    factor = ["architecture.encoder", "architecture.n_layers"MATCH]
    match = { by = "parameters", moves = ["d_ff"] }
    budget = "tokens_read"
    compound = { P = "half the layers in each stack", F = "by work, not by parameters" }
    comparisons = [["P", "plain"], ["F", "plain"]MORE]
    [base.architecture]
    n_layers = 4
    [arms.plain]
    [arms.P]
    architecture = { n_layers = 2, encoder = { n_layers = 2 } }
    [arms.F]
    architecture.encoder = { n_layers = 4 }
    match = { by = "training_flops", moves = ["d_ff"] }
    """
    plan_design(design.replace("MATCH", "").replace("MORE", ""))
    pair = ', ["F", "P"]'
    with pytest.raises(ConfoundError, match="sizes that are unequal on purpose are a factor"):
        plan_design(design.replace("MATCH", "").replace("MORE", pair))
    judged = plan_design(design.replace("MATCH", ', "match"').replace("MORE", pair)).judged
    assert judged[-1].factors[-1].startswith("size (")
