"""How early the final order shows, said of arms that ended better or worse, from enough arms
and seeds.
"""

from pathlib import Path
from typing import Any

from sized_study import WIDE_GAINS, make_sized_study

from paribus.report.early_order import describe_early_order
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data

TITLE = "How early the final order shows"
SAID = (
    'half of the seeds order "prefix", "input hidden", "a" and "b" against "causal" as the other'
    " half does at the end in 100 %, 100 % and 100 % of splits, on validation text; by chance it"
    " would be 50 %."
)


def words(root: Path, **design: Any) -> str:
    return describe_early_order(gather_report_data(make_sized_study(root, 6, WIDE_GAINS, **design)))


def test_the_order_is_told_under_the_curves_and_in_markdown(tmp_path: Path) -> None:
    material = gather_report_data(make_sized_study(tmp_path, 6, WIDE_GAINS))
    said = describe_early_order(material)
    assert SAID in said
    assert said.startswith("After 20 %, 50 % and 70 % of the tokens, ")
    assert "points before the end are not annealed" in said
    _, _, below = render_page(material).partition('id="plot-difference"')
    assert f"<h3>{TITLE}</h3>" in below.partition("</section>")[0]
    assert f"## {TITLE}\n\nAfter 20 %" in markdown_report(material)


def test_an_order_that_turns_on_the_way_is_seen(tmp_path: Path) -> None:
    study = make_sized_study(tmp_path, 6, WIDE_GAINS)
    names = {cell.run for cell in study.read_cells() if cell.arm == "a"}
    before = {cell.run for cell in study.read_cells() if cell.arm == "b"}
    for run, other in zip(
        sorted(names), sorted(before), strict=True
    ):  # until its middle, a is what b is
        rows, theirs = (
            (tmp_path / one / "rows.jsonl").read_text().splitlines(True) for one in (run, other)
        )
        (tmp_path / run / "rows.jsonl").write_text("".join(theirs[:5] + rows[5:]))
    assert "in 75 %, 75 % and 100 % of splits" in describe_early_order(gather_report_data(study))


def test_only_arms_judged_against_the_baseline_that_trained_alike_count(tmp_path: Path) -> None:
    pairs = [["prefix", "causal"], ["input hidden", "causal"], ["a", "causal"], ["b", "a"]]
    assert 'order "prefix", "input hidden" and "a" against "causal"' in words(
        tmp_path / "a", comparisons=pairs
    )
    assert words(tmp_path / "b", comparisons=pairs[1:]) == ""
    failed = make_sized_study(tmp_path / "c", 6, WIDE_GAINS, failed=[("b", 6)])
    assert 'order "prefix", "input hidden" and "a" against "causal"' in describe_early_order(
        gather_report_data(failed)
    )
    failed = make_sized_study(tmp_path / "d", 6, WIDE_GAINS, failed=[("causal", 6)])
    assert describe_early_order(gather_report_data(failed)) == ""


def test_nothing_is_said_where_nothing_ended_better_or_worse(tmp_path: Path) -> None:
    material = gather_report_data(make_sized_study(tmp_path, 6, dict.fromkeys(WIDE_GAINS, 0.0)))
    assert {arm.judgement.verdict.word for arm in material.findings.arms} == {"identical"}
    assert describe_early_order(material) == ""
