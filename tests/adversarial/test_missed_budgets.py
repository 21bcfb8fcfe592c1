"""Budgets that whole steps cannot meet, and what an equal budget leaves unequal."""

import re
from pathlib import Path
from typing import Any

import pytest

from paribus.analyse.control_faults import control_faults
from paribus.design import described
from paribus.errors import ConfoundError
from paribus.record import ControlLine, Mark
from paribus.record.control_table import UPDATES
from paribus.record.plan import parse_plan

BATCHES = """
factor = "training.n_sequences"
budget = "tokens_read"
[arms.plain]
[arms.large]
training.n_sequences = {}
"""
DEPTHS = """
factor = "architecture.n_layers"
match = "nothing"
budget = "training_flops"
[arms.plain]
[arms.deep]
architecture.n_layers = 9
"""


def _lines(plan: Any) -> dict[str, ControlLine]:
    return {line.path: line for line in plan.control_lines}


def test_one_step_of_a_large_batch_is_no_equal_budget(plan_design: Any) -> None:
    """12 steps of 4 sequences are 48; one step of 71 is 48 % more."""
    said = (
        "tokens_read in all is 1,536 in plain, 2,272 in large, but budget = 'tokens_read' makes it"
        r" equal \(large against plain \+47.9%, as near as whole steps come; it is met with"
        r" training.n_steps = 18 in plain or training.n_sequences = 48 in large\); use that, or"
        " list 'tokens_read in all' under allow with a reason"
    )
    with pytest.raises(ConfoundError, match=said):
        plan_design(BATCHES.format(71))


@pytest.mark.parametrize(
    "cured",
    [
        f"base.training.n_steps = 18\n{BATCHES.format(71)}",
        BATCHES.format(48),
        BATCHES.format(8),
    ],
)
def test_what_is_named_meets_the_budget(plan_design: Any, cured: str) -> None:
    line = _lines(plan_design(cured))["tokens_read in all"]
    assert line.mark in (Mark.MATCHED, Mark.EQUAL)


def test_a_budget_of_flops_is_met_or_refused(plan_design: Any) -> None:
    with pytest.raises(ConfoundError, match="training_flops in all is") as fault:
        plan_design(DEPTHS)
    n_steps = re.search(r"met with training.n_steps = (\d+) in plain\)", str(fault.value))
    assert n_steps is not None
    reason = '"training_flops in all" = "a few steps are meant"'
    allowed = plan_design(f"allow = {{ {reason} }}\n{DEPTHS}")
    assert _lines(allowed)["training_flops in all"].mark == Mark.CONFOUND
    cured = plan_design(f"base.training.n_steps = {n_steps[1]}\n{DEPTHS}")
    assert _lines(cured)["training_flops in all"].mark == Mark.MATCHED


def test_a_reason_lets_it_pass_and_stands_in_the_table(plan_design: Any) -> None:
    plan = plan_design(f'allow = {{ tokens_read = "one step is meant" }}\n{BATCHES.format(71)}')
    line = _lines(plan)["tokens_read in all"]
    assert (line.mark, line.allowed) == (Mark.CONFOUND, "one step is meant")
    assert not plan.unused_allowances


def test_a_warm_up_in_proportion_is_never_none(plan_design: Any) -> None:
    """2 of 12 steps come to a third of one of 2."""
    assert _lines(plan_design(BATCHES.format(24)))["training.warmup"].values == {
        "plain": 2,
        "large": 1,
    }
    without = plan_design(f"base.training.warmup = 0\n{BATCHES.format(24)}")
    assert _lines(without)["training.warmup"].mark == Mark.EQUAL


@pytest.mark.parametrize(
    "text",
    [
        BATCHES.format(8),
        """
        factor = "training.length"
        match = "nothing"
        budget = "tokens_read"
        [arms.plain]
        [arms.large]
        training.length = 64
        """,
    ],
)
def test_half_of_the_updates_are_said(plan_design: Any, text: str) -> None:
    line = _lines(plan_design(text))[UPDATES]
    assert (line.mark, line.values) == (Mark.FOLLOWS, {"plain": 12, "large": 6})
    assert line.note == (
        "large against plain -50.0%: tokens_read agree, so updates of the weights do not"
    )
    same = 'factor = "architecture.mask"\n[arms.plain]\n[arms.w]\n'
    assert UPDATES not in _lines(plan_design(f'{same}architecture.mask = "causal & window(5)"'))


def test_a_report_misses_what_a_hand_took_out(plan_design: Any) -> None:
    reason = 'allow = { tokens_read = "one step is meant" }\n'
    table = described(plan_design(reason + BATCHES.format(71)))
    lines = table["control"]
    assert control_faults(parse_plan(table, Path("plan.json"))) == ()
    table["control"] = [line for line in lines if line["path"] != UPDATES]
    (fault,) = control_faults(parse_plan(table, Path("plan.json")))
    assert fault.endswith(f"1 line is missing, such as that of {UPDATES}")
    table["control"] = [
        {**line, "mark": Mark.MATCHED} if line["mark"] == Mark.CONFOUND else line for line in lines
    ]
    (fault,) = control_faults(parse_plan(table, Path("plan.json")))
    assert fault.endswith("tokens_read in all is marked matched, and the arms miss the budget")
