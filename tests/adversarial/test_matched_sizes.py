"""A match that makes one size equal and another unequal, and several sizes that are made equal at
once.
"""

from typing import Any

import pytest

from paribus.design import architecture_size, plan_record
from paribus.design.plan import Plan
from paribus.errors import ConfoundError, SpecError
from paribus.record import ControlLine

POSITIONS = """
factor = "architecture.positions"
budget = "tokens_read"
[arms.plain]
architecture.positions = "learned"
[arms.rotary]
architecture.positions = "rotary"
"""
GATED = """
factor = "architecture.feed_forward"
budget = "tokens_read"
[base.architecture]
n_layers = 4
d_model = 32
attention = { n_heads = 4 }
[arms.plain]
[arms.gated]
architecture.feed_forward.gated = true
"""


def _shift_line(plan: Plan) -> ControlLine | None:
    lines = {line.path: line for line in plan.control_lines}
    return lines.get("moved by the match")


def test_a_message_suggests_to_match_what_is_in_no_table(plan_design: Any) -> None:
    with pytest.raises(SpecError, match=r"match = \{ by = 'non_embedding_parameters', moves = \["):
        plan_design(POSITIONS)


def test_a_match_that_makes_an_arm_do_more_work_is_told(plan_design: Any) -> None:
    """So much more that it is of another size, which the design must say."""
    match = 'match = { by = "parameters", moves = ["d_ff"] }\n'
    size = r"size \(1\.08 × the parameters and 1\.06 × the FLOPs\)"
    cure = r"sizes are near with match\.by = 'non_embedding_parameters'"
    with pytest.raises(ConfoundError, match=rf"2 factors: positions, {size}; .*; {cure}"):
        plan_design(match + POSITIONS)
    meant = 'compound = { rotary = "what the table saves is spent on width" }\n'
    plan = plan_design(match + meant + POSITIONS)
    line = _shift_line(plan)
    assert line is not None
    said = line.values["rotary"]
    before, after = plan.arms[0].price, plan.arms[1].price
    share = after.non_embedding_parameters / before.non_embedding_parameters - 1
    assert share > 0.05
    assert f"non-embedding parameters by {100 * share:+.1f} %" in said
    assert "training FLOPs by +" in said
    assert line.values["plain"] == "–"
    (written,) = [one for one in plan_record(plan).control if one.path == line.path]
    assert dict(written.values) == dict(line.values)


@pytest.mark.parametrize(
    "match", ['{ by = "non_embedding_parameters", moves = "d_ff" }', '"nothing"']
)
def test_a_match_that_moves_nothing_is_told_nowhere(plan_design: Any, match: str) -> None:
    plan = plan_design(f"match = {match}\n" + POSITIONS)
    assert _shift_line(plan) is None


def test_two_sizes_are_made_equal_by_two_moves(plan_design: Any) -> None:
    """By parameters alone, another number of layers is as good; by both it is not."""
    by = '["parameters", "inference_flops"]'
    match = f'{{ by = {by}, moves = ["depth", "d_ff"], tolerance = 0.02 }}'
    plan = plan_design(f"match = {match}\n" + GATED)
    sized = plan.arms[1].size_match
    assert [size.by for size in sized.sizes] == ["parameters", "inference_flops"]
    for by in ("parameters", "inference_flops"):
        sizes = [architecture_size(arm.run.architecture, by, 16, 16) for arm in plan.arms]
        assert abs(sizes[1] / sizes[0] - 1) <= 0.02
    marks = {line.path: line.mark for line in plan.control_lines}
    assert marks["parameters"] == "≈"
    assert marks["inference_flops of 16 + 16 tokens"] == "≈"


def test_two_sizes_that_no_setting_meets_are_refused_with_the_nearest(plan_design: Any) -> None:
    """Half the layers on either side of a source do half the work at equal parameters."""
    text = """
    factor = ["architecture.encoder", "architecture.n_layers"]
    budget = "tokens_read"
    match = { by = ["parameters", "inference_flops"], moves = ["depth", "d_ff"] }
    base.architecture.n_layers = 4
    [arms.plain]
    [arms.halves]
    architecture.encoder = { n_layers = 2 }
    architecture.n_layers = 2
    """
    said = (
        r"match.by is parameters, inference_flops with match.moves depth, d_ff, but of \d+ settings"
        r" none meets all of them, where 0.5 % is near enough; nearest is parameters .* and"
        r" inference_flops .* with .*; let width move too, .*, or match one of them"
    )
    with pytest.raises(SpecError, match=said):
        plan_design(text)


@pytest.mark.parametrize(
    ("match", "said"),
    [
        (
            '{ by = ["parameters", "inference_flops"], moves = ["d_ff"] }',
            "match.moves is d_ff, but by is parameters, inference_flops: 2 sizes need as many",
        ),
        ('{ by = ["parameters", "nothing"], moves = ["d_ff"] }', "name each size once"),
        ('{ by = [], moves = ["d_ff"] }', "name each size once"),
        ('{ by = ["paramters", "active_parameters"], moves = "d_ff" }', "mean 'parameters'"),
        (
            '{ by = ["parameters", "active_parameters"], moves = ["depth", "d_ff"], n_input = 3 }',
            "is 3, but by is 'parameters', 'active_parameters', which has no length",
        ),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused(plan_design: Any, match: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        plan_design(f"match = {match}\n" + GATED)


def test_one_size_in_a_list_is_that_size(plan_design: Any) -> None:
    plans = []
    for by in ('"parameters"', '["parameters"]'):
        match = f'match = {{ by = {by}, moves = "d_ff" }}\n'
        plans.append(plan_design(match + GATED))
    assert plans[0].design_fingerprint == plans[1].design_fingerprint


ENCODER = """
factor = "architecture.encoder"
budget = "tokens_read"
allow = { "cut contexts" = "windows are asked about" }
[arms.plain]
[arms.other]
architecture.encoder = {}
"""
WIDE = """
factor = "architecture.feed_forward.gated"
budget = "tokens_read"
[arms.plain]
[arms.other]
architecture.feed_forward.gated = true
"""


@pytest.mark.parametrize(
    ("design", "proposed"),
    [(ENCODER, "training_flops"), (WIDE, "non_embedding_parameters")],
)
def test_a_message_proposes_a_match_that_the_arms_can_be_brought_to(
    plan_design: Any, design: str, proposed: str
) -> None:
    """Feed-forward layers cannot pay for the weights of an encoder, but for its work they can."""
    with pytest.raises(SpecError, match="match is missing") as refusal:
        plan_design(design)
    match = str(refusal.value).partition("such as ")[2].partition(", or match = 'nothing'")[0]
    assert match == f"match = {{ by = '{proposed}', moves = ['d_ff'] }}"
    (one,) = plan_design(f"{match}\n{design}").judged
    assert len(one.factors) == 1
