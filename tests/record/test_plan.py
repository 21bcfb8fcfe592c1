"""A plan is read once, through types: older formats are converted, damaged and newer ones
refused.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from handmade_study import plan_table

from paribus.errors import RecordError
from paribus.record import Mark, Study, open_study
from paribus.record.plan import PlanRecord, RunRecord, parse_plan
from paribus.record.plan_design import ControlLengthRecord, DesignRecord
from paribus.record.plan_file import read_plan
from paribus.record.plan_formats import PLAN_FORMAT, convert_design, convert_plan

PATH = Path("runs/studies/small/plan.json")
RESULTS = Path(__file__).parents[2] / "docs" / "results"
KEPT = sorted(path.parent.name for path in RESULTS.glob("*/plan.json"))
REPAIR = "; `paribus run DESIGN`, the command the study was run by, writes it again"
Change = Callable[[dict[str, Any]], Any]


def oldest() -> dict[str, Any]:
    """A plan of the first format: without a number, an edition, and all that a design could not
    yet declare.
    """
    table = plan_table("small", tuned=True)
    for name in ("scale", "reference"):
        del table[name]
    for name in ("comparisons", "equal_noise", "contrasts", "lengths", "variance", "budget"):
        del table["design"][name]
    del table["design"]["primary"]["test"], table["design"]["tune"]["bracket"]
    return table


def latest() -> dict[str, Any]:
    """The same plan in the present format."""
    return convert_plan(oldest(), 1)


def refusal(table: Any) -> str:
    with pytest.raises(RecordError) as fault:
        parse_plan(table, PATH)
    return str(fault.value)


def test_the_oldest_plan_reads_as_if_it_declared_nothing_of_what_came_later() -> None:
    plan = parse_plan(oldest(), PATH)
    assert (plan.format, plan.edition, plan.scale, plan.reference) == (PLAN_FORMAT, 1, None, None)
    assert (plan.design_fingerprint, plan.series, plan.is_listed) == (None, None, False)
    design = plan.design
    assert (design.comparisons, design.equal_noise, design.contrasts, design.lengths) == (
        None,
        False,
        None,
        None,
    )
    assert design.tune is not None
    assert (design.primary.test, design.tune.bracket, design.budget) == ("two-sided", False, None)


def test_a_plan_without_sweeps_is_converted_too() -> None:
    table = oldest()
    table["design"]["tune"] = None
    assert parse_plan(table, PATH).design.tune is None


def test_what_a_plan_declares_is_no_other_after_its_conversion() -> None:
    table = {**oldest(), "format": 2, "edition": 2, "scale": "hour", "design_fingerprint": "d" * 64}
    table["design"] |= {
        "equal_noise": True,
        "comparisons": [["prefix", "causal"]],
        "lengths": [0.25, 0.5, 1.0],
    }
    table["design"]["primary"]["test"] = "not worse"
    table["design"]["tune"]["bracket"] = True
    plan = parse_plan(table, PATH)
    assert (plan.edition, plan.scale, plan.design_fingerprint, plan.is_listed) == (
        2,
        "hour",
        "d" * 64,
        True,
    )
    assert plan.design.equal_noise
    assert plan.design.primary.test == "not worse"
    assert plan.design.tune is not None
    assert plan.design.tune.bracket
    assert (plan.design.comparisons, plan.design.lengths) == (
        [["prefix", "causal"]],
        [0.25, 0.5, 1.0],
    )


def test_a_conversion_changes_neither_the_table_it_is_given_nor_one_of_the_present_format() -> None:
    table = oldest()
    before = deepcopy(table)
    plan = parse_plan(table, PATH)
    assert table == plan.written == before
    assert plan.table == convert_plan(plan.table, PLAN_FORMAT) == latest()
    assert list(plan.design.table)[: len(before["design"])] == list(
        before["design"]
    )  # a report shows it in this order
    again = parse_plan(plan.table, PATH)
    assert (again.table, again.written) == (plan.table, plan.table)


@pytest.mark.parametrize("field", ["edition", "scale", "reference"])
def test_a_plan_of_the_present_format_says_what_older_ones_leave_out(field: str) -> None:
    table = latest()
    del table[field]
    assert refusal(table) == f"{PATH} is of another shape: {field}: Field required{REPAIR}"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda design: design.pop("equal_noise"), "equal_noise"),
        (lambda design: design["primary"].pop("test"), "primary.test"),
        (lambda design: design["tune"].pop("bracket"), "tune.bracket"),
    ],
)
def test_so_does_its_design(change: Change, field: str) -> None:
    table = latest()
    change(table["design"])
    assert refusal(table) == f"{PATH} is of another shape: design.{field}: Field required{REPAIR}"


def test_arms_and_lines_are_read_as_they_were_written() -> None:
    table = plan_table("small")
    plan = parse_plan(table, PATH)
    assert (plan.order, plan.baseline, list(plan.arms)) == (
        table["order"],
        "causal",
        list(table["arms"]),
    )
    causal, written = plan.arms["causal"], table["arms"]["causal"]
    assert causal.run.table == written["run"]
    assert causal.n_steps == written["run"]["stages"][-1]["training"]["n_steps"]
    assert causal.price.parameters == written["price"]["parameters"]
    assert causal.stage.corpus.table == written["run"]["stages"][-1]["corpus"]
    lines = [
        (line.path, line.mark, dict(line.values), line.note, line.allowed) for line in plan.control
    ]
    assert lines == [
        tuple(line[name] for name in ("path", "mark", "values", "note", "allowed"))
        for line in table["control"]
    ]
    assert plan.design.table["question"] == table["design"]["question"]


def test_a_control_is_an_arm_or_a_length() -> None:
    table = plan_table("small")
    assert parse_plan(table, PATH).design.control_arm == "input hidden"
    table["design"]["control"] = {"length": 0.5}
    design = parse_plan(table, PATH).design
    assert (design.control, design.control_arm) == (ControlLengthRecord(length=0.5), None)


def test_marks_have_one_order_and_one_meaning_each() -> None:
    assert [(str(mark), mark.meaning, mark.place) for mark in Mark] == [
        ("✗", "confound", 0),
        ("Δ", "the factor", 1),
        ("≈", "matched", 2),
        ("⟳", "tuned alike", 3),
        ("→", "follows from the factor", 4),
        ("✓", "equal", 5),
    ]
    assert Mark("→") is Mark.FOLLOWS
    assert json.dumps(Mark.EQUAL, ensure_ascii=False) == '"✓"'


@pytest.mark.parametrize("number", [PLAN_FORMAT + 1, 99])
def test_a_newer_format_is_refused_with_what_this_version_reads(number: int) -> None:
    assert refusal({**latest(), "format": number}) == (
        f"{PATH} is of format {number}, and this version of paribus reads 1 to {PLAN_FORMAT}; "
        f"use the version that wrote it, or a newer one"
    )


@pytest.mark.parametrize("number", [0, -1, True, None, "2", 2.0, [2]])
def test_what_is_no_format_is_refused(number: Any) -> None:
    said = f"{PATH} has the format {number!r}, and formats are 1 to {PLAN_FORMAT}{REPAIR}"
    assert refusal({**latest(), "format": number}) == said


@pytest.mark.parametrize(
    ("value", "kind"), [([], "list"), (None, "NoneType"), ("x", "str"), (1, "int")]
)
def test_what_is_no_table_is_refused(value: Any, kind: str) -> None:
    assert refusal(value) == f"{PATH} holds a {kind}, not a table{REPAIR}"


def spoilt(*path: str | int, value: Any) -> Change:
    """The change that sets one value of a table."""

    def change(table: Any) -> None:
        *outer, last = path
        for name in outer:
            table = table[name]
        table[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (spoilt("design", value=None), "design: Input should be"),
        (spoilt("design", "primary", value=[]), "design.primary: Input should be"),
        (spoilt("design", "tune", value=3), "design.tune: Input should be"),
        (
            spoilt("design", "seeds", value=[1, 1]),
            "design: Value error, seeds are missing, or some are there twice",
        ),
        (
            spoilt("design", "seeds", value=[]),
            "design: Value error, seeds are missing, or some are there twice",
        ),
        (
            spoilt("design", "looks", value={"x": 0.05}),
            "design: Value error, a look is not at a number of seeds",
        ),
        (
            spoilt("design", "lengths", value=[2.0]),
            "design: Value error, a length is not a share of the full length",
        ),
        (
            spoilt("design", "comparisons", value=[]),
            "design: Value error, there are no comparisons",
        ),
        (
            spoilt("design", "comparisons", value=[["a"]]),
            "design: Value error, a comparison does not have two arms",
        ),
        (spoilt("design", "primary", "margin", value=float("nan")), "design.primary.margin"),
        (
            spoilt("design", "control", value="nobody"),
            "it: Value error, 'nobody' is named, but is not an arm",
        ),
        (spoilt("order", value=["causal", "causal"]), "it: Value error, order has an arm twice"),
        (spoilt("order", value=[]), "order: List should have at least 1 item"),
        (
            spoilt("arms", "causal", "run", "stages", value=[]),
            "arms.causal.run.stages: List should have at least 1 item",
        ),
        (
            spoilt("arms", "causal", "price", "parameters", value="9"),
            "arms.causal.price.parameters: Input should be",
        ),
        (
            spoilt("control", 0, "mark", value="?"),
            "control.0.mark: Input should be '✗', 'Δ', '≈', '⟳', '→' or '✓'",
        ),
        (spoilt("control", 0, value={}), "control.0.path: Field required"),
        (spoilt("edition", value="2"), "edition: Input should be a valid integer"),
        (
            spoilt("series", value={"first": "small", "number": 1, "earlier": []}),
            "series.number: Input should be greater",
        ),
    ],
)
@pytest.mark.parametrize("make", [oldest, latest])
def test_a_damaged_plan_is_refused_by_the_field(
    make: Callable[[], dict[str, Any]], change: Change, said: str
) -> None:
    table = make()
    change(table)
    found = refusal(table)
    assert found.startswith(f"{PATH} is of another shape: {said}"), found
    assert found.endswith(REPAIR)


def test_tables_without_end_are_refused() -> None:
    table = latest()
    table["design"]["primary"] = table["design"]
    assert refusal(table).startswith(f"{PATH} is of another shape: ")


def test_a_study_gives_its_plan_typed_and_names_the_file(tmp_path: Path) -> None:
    kept: Study = open_study(tmp_path, "small")
    kept.write_plan(oldest())
    assert isinstance(read_plan(kept), PlanRecord)
    assert read_plan(kept).written == kept.read_plan()
    kept.write_plan({**latest(), "format": PLAN_FORMAT + 1})
    message = rf"small/plan.json is of format {PLAN_FORMAT + 1}, .* reads 1 to {PLAN_FORMAT}"
    with pytest.raises(RecordError, match=message):
        read_plan(kept)


def test_a_plan_of_a_newer_version_is_not_written_over_and_a_damaged_one_may_be(
    tmp_path: Path,
) -> None:
    kept = open_study(tmp_path, "small")
    kept.require_no_newer_plan()  # there is none
    for harmless in (latest(), {}, {"format": "x"}, {"format": 0}):
        kept.write_plan(harmless)
        kept.require_no_newer_plan()
    (kept.folder / "plan.json").write_text("[")
    kept.require_no_newer_plan()
    kept.write_plan({"format": PLAN_FORMAT + 1})
    with pytest.raises(
        RecordError,
        match=rf"is of format {PLAN_FORMAT + 1}, .* reads 1 to {PLAN_FORMAT}; use the version that",
    ):
        kept.require_no_newer_plan()


@pytest.mark.parametrize("name", KEPT)
def test_the_design_of_a_kept_study_is_read(name: str) -> None:
    kept = json.loads((RESULTS / name / "plan.json").read_text())
    design = DesignRecord.model_validate(convert_design(kept["design"]))
    assert (design.equal_noise, design.primary.test) == (False, "two-sided")
    assert design.primary.margin == kept["design"]["primary"]["margin"]
    assert design.primary.measure.table == kept["design"]["primary"]["measure"]
    assert design.seeds == kept["design"]["seeds"]
    assert design.comparisons == kept["design"].get("comparisons")
    runs = {arm: RunRecord.model_validate(own["run"]) for arm, own in kept["arms"].items()}
    assert {arm: run.table for arm, run in runs.items()} == {
        arm: own["run"] for arm, own in kept["arms"].items()
    }
