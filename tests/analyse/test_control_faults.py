"""The control table of a plan beside the runs of its arms: whatever is not what they give is
named, and every kept study's table is as it was written.
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kept_studies import KEPT, RESULTS

from paribus.analyse.control_faults import control_faults
from paribus.record.plan import PlanRecord, parse_plan

Line = dict[str, Any]


def kept_table(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name / "plan.json").read_text())


def plan_of(table: dict[str, Any]) -> PlanRecord:
    return parse_plan(table, Path("plan.json"))


def changed(name: str, path: str, change: Callable[[Line], object]) -> PlanRecord:
    """A kept plan, one line of whose control table was changed by hand."""
    table = copy.deepcopy(kept_table(name))
    lines = [line for line in table["control"] if line["path"] == path]
    change(lines[0])
    return plan_of(table)


@pytest.mark.parametrize("name", KEPT)
def test_the_table_of_a_kept_study_is_the_one_that_its_runs_give(name: str) -> None:
    assert control_faults(plan_of(kept_table(name))) == ()


def test_an_empty_table_lacks_every_line() -> None:
    plan = plan_of({**kept_table("positions-hour"), "control": []})
    (fault,) = control_faults(plan)
    assert fault.startswith("control table: 91 lines are missing, such as that of architecture.")


def test_one_line_that_is_gone_is_named() -> None:
    table = kept_table("positions-hour")
    table["control"] = [line for line in table["control"] if line["path"] != "epochs"]
    assert control_faults(plan_of(table)) == (
        "control table: 1 line is missing, such as that of epochs",
    )


def test_a_value_that_the_run_does_not_have_is_named() -> None:
    plan = changed(
        "positions-hour",
        "architecture.d_model",
        lambda line: line["values"].update(dict.fromkeys(line["values"], 96)),
    )
    (fault,) = control_faults(plan)
    assert "architecture.d_model of" in fault
    assert "is 96, and its run has" in fault


@pytest.mark.parametrize(
    ("name", "path", "mark", "said"),
    [
        ("positions-hour", "architecture.positions.kind", "✓", "is marked equal, and differs"),
        ("positions-hour", "architecture.d_model", "Δ", "and the design does not declare it"),
        ("encoder-decoder-hour", "parameters", "✓", "is marked equal, and its values differ"),
        (
            "encoder-decoder-hour",
            "architecture.feed_forward.d_ff",
            "⟳",
            "is marked as tuned, and is not",
        ),
        (
            "encoder-decoder-hour",
            "starting weights in common",
            "✓",
            "is marked equal, and its values differ",
        ),
    ],
)
def test_a_mark_that_the_runs_do_not_bear_out_is_named(
    name: str, path: str, mark: str, said: str
) -> None:
    plan = changed(name, path, lambda line: line.update(mark=mark))
    faults = control_faults(plan)
    assert any(path in fault and said in fault for fault in faults), faults


def two_dropouts(mark: str, **more: Any) -> PlanRecord:
    """A kept plan of which one arm has dropout, as a line with this mark says."""
    table = copy.deepcopy(kept_table("bidirectional-input-hour"))
    arm = table["order"][1]
    table["arms"][arm]["run"]["architecture"]["dropout"] = 0.1
    for line in table["control"]:
        if line["path"] == "architecture.dropout":
            line.update(mark=mark, values={**line["values"], arm: 0.1}, **more)
    return plan_of(table)


def test_what_could_have_been_equal_does_not_follow_from_the_factor() -> None:
    assert control_faults(two_dropouts("→", note="it is so")) == (
        "control table: architecture.dropout is said to follow from the factor, and could have"
        " been equal",
    )
    assert control_faults(two_dropouts("≈")) == (
        "control table: architecture.dropout is marked as matched, and the design has no match"
        " and no budget",
    )


def test_a_confound_is_allowed_only_by_a_reason_of_the_design() -> None:
    assert control_faults(two_dropouts("✗")) == ()
    assert control_faults(two_dropouts("✗", allowed="they do not matter")) == (
        "control table: architecture.dropout is allowed, and the design gives no such reason",
    )


def test_a_quantity_that_the_plan_does_not_come_to_is_named() -> None:
    plan = changed(
        "encoder-decoder-hour",
        "parameters",
        lambda line: line["values"].update(dict.fromkeys(line["values"], 1_000_000)),
    )
    (fault,) = control_faults(plan)
    assert "is 1000000, and the plan gives" in fault


def test_what_may_differ_is_what_the_design_declares() -> None:
    table = kept_table("positions-hour")
    table["declared"] = [*table["declared"], "training"]
    (fault,) = control_faults(plan_of(table))
    assert fault.startswith("control table: declared is [")


def test_an_arm_that_the_design_does_not_have_is_named() -> None:
    table = copy.deepcopy(kept_table("positions-hour"))
    arm = table["order"][1]
    table["arms"][arm]["levels"] = {"arm": "another"}
    (fault,) = control_faults(plan_of(table))
    assert fault.endswith("has the levels {'arm': 'another'}, and the design has no such arm")
