"""The figure of what was predicted of the largest run, and of what came out."""

import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from handmade_ladder import LADDER_TABLE
from handmade_study import make_study

from paribus.analyse.laws.prediction import LawPrediction, read_prediction
from paribus.analyse.run_table import RowTable, column_of
from paribus.record.plan import RungRecord
from paribus.report.latex import latex_table
from paribus.report.laws import describe_unknown_arms, prediction_lines
from paribus.report.limits import limitations
from paribus.report.markdown import markdown_report
from paribus.report.methods import methods
from paribus.report.page import render_page
from paribus.report.prediction_plot import prediction_plot
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.trust_scope import size_check


def prediction(arm: str, low: float, high: float) -> dict[str, Any]:
    return LawPrediction(
        arm=arm,
        parameters=9e6,
        tokens=94e6,
        n_seeds=2,
        loss=1.5,
        low=low,
        high=high,
        level=0.95,
        size_ratio=1.9,
        token_ratio=1.0,
    ).table


def with_outcomes(report: ReportData, arm: str, losses: Sequence[float]) -> ReportData:
    """The report with runs that were predicted of an arm."""
    rows, column = list(report.findings.table), column_of(report.plan.design.primary.measure.table)
    for seed, loss in enumerate(losses, 1):
        rows.append(
            {**rows[0], "arm": arm, "seed": seed, "purpose": "predicted", "outcome": "finished"}
            | {"size": 352, "parameters": 10_400_000, "planned_tokens": 94_000_000, column: loss}
        )
    return replace(report, findings=replace(report.findings, table=RowTable(tuple(rows))))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    study = make_study(tmp_path_factory.mktemp("runs"))
    own = gather_report_data(study)
    one, two = own.order[:2]
    own = replace(own, predictions=(prediction(one, 1.4, 1.6), prediction(two, 0.2, inf)))
    return with_outcomes(own, one, [1.62, 1.7])


def drawn(plot_spec: Any) -> list[dict[str, Any]]:
    """The values of each layer."""
    sets = plot_spec.get("datasets", {})
    return [
        layer["data"].get("values") or sets[layer["data"]["name"]] for layer in plot_spec["layer"]
    ]


def test_nothing_is_drawn_where_nothing_was_predicted(report: ReportData) -> None:
    assert prediction_plot(replace(report, predictions=())) == []


def test_each_run_is_a_point_below_its_interval(report: ReportData) -> None:
    (plot,) = prediction_plot(report)
    bars, ticks, points, _ = drawn(plot.spec)
    one, two = report.order[:2]
    assert [bar["arm"] for bar in bars] == [tick["arm"] for tick in ticks] == [one, two]
    assert (bars[0]["low"], bars[0]["high"], ticks[0]["loss"]) == (1.4, 1.6, 1.5)
    assert [(point["arm"], point["loss"]) for point in points] == [(one, 1.62), (one, 1.7)]
    assert bars[0]["words"] == "worse than predicted"
    assert bars[1]["words"] == "not run yet"
    assert [line[:2] for line in plot.numbers] == [(one, "1"), (one, "2"), (two, "not run yet")]


def test_an_interval_without_an_end_is_cut(report: ReportData) -> None:
    (plot,) = prediction_plot(report)
    json.dumps(plot.spec, allow_nan=False)
    bars = drawn(plot.spec)[0]
    ((low, high),) = {
        tuple(layer["encoding"]["x"]["scale"]["domain"]) for layer in plot.spec["layer"]
    }
    assert (bars[1]["low"], bars[1]["high"]) == (low, high)
    assert low < 1.4 < 1.7 < high < 3
    assert "no bound" in plot.numbers[-1][-1]
    assert prediction_lines(report, report.predictions)[1][4] == "0.2 to no bound"


def test_an_arrow_marks_where_an_interval_goes_on_beyond_the_axis(report: ReportData) -> None:
    (plot,) = prediction_plot(report)
    arrows, (low, high) = (
        drawn(plot.spec)[-1],
        plot.spec["layer"][0]["encoding"]["x"]["scale"]["domain"],
    )
    two = report.order[1]
    assert [(one["arm"], one["shape"]) for one in arrows] == [
        (two, "triangle-left"),
        (two, "triangle-right"),
    ]
    assert low < arrows[0]["loss"] < low + 0.02 * (high - low)
    assert high - 0.02 * (high - low) < arrows[1]["loss"] < high
    assert plot.caption.endswith(
        " An arrow marks an interval that goes on beyond the axis; the table has its end."
    )


def test_an_interval_within_the_axis_has_no_arrow(report: ReportData) -> None:
    (plot,) = prediction_plot(replace(report, predictions=report.predictions[:1]))
    assert len(plot.spec["layer"]) == 3
    assert plot.caption.endswith("Each point is a run that was made afterwards.")


def test_a_report_says_why_nothing_was_predicted(report: ReportData) -> None:
    arms = report.plan.arms
    rung = RungRecord(size=352, tokens=[94_000_000], arms=arms, is_predicted=True)
    plan = report.plan.model_copy(update={"rungs": [rung]})
    own = replace(
        report,
        findings=replace(report.findings, plan=plan),
        predictions=({"refusal": "no law could be fitted: points: 2 of 2 sizes"},),
    )
    assert prediction_plot(own) == []
    words = "The largest run was made without a prediction: no law could be fitted"
    for text in (markdown_report(own), render_page(own)):
        assert f"{words}: points: 2 of 2 sizes" in text
        assert "There is no law: points: none are given" in text


def test_a_study_with_a_ladder_does_not_say_that_other_sizes_were_not_run(
    report: ReportData,
) -> None:
    rung = RungRecord(size=352, tokens=[94_000_000], arms=report.plan.arms, is_predicted=True)
    plan = report.plan.model_copy(update={"rungs": [rung]})
    own = replace(report, findings=replace(report.findings, plan=plan))
    assert limitations(report)[0].startswith("What happens at other sizes")
    first, *others = limitations(own)
    assert first.startswith("What the verdicts would be at other sizes: ")
    assert "Laws are extrapolated beyond the sizes and durations of the ladder." in first
    assert others == limitations(report)[1:]
    assert "no trend over sizes was measured" in size_check(report).text
    assert size_check(own).text.endswith("; the section on laws has the other sizes.")


def test_the_methods_of_a_study_with_a_ladder_say_how_it_was_climbed(report: ReportData) -> None:
    low, high, largest = (
        RungRecord(size=size, tokens=tokens, arms=report.plan.arms, is_predicted=size == 352)
        for size, tokens in ((64, [1_500_000, 6_000_000]), (96, [13_400_000]), (352, [94_000_000]))
    )
    table = {**report.plan.design.table, "ladder": {**LADDER_TABLE, "max_tokens": 96_000_000}}
    design = report.plan.design.model_copy(update={"table": table})
    plan = report.plan.model_copy(update={"rungs": [low, high, largest], "design": design})
    own = replace(report, findings=replace(report.findings, plan=plan))
    assert r"N\textasciicircum{}$\alpha$" in latex_table(own)
    text = methods(own)
    assert "trained at the widths 64 and 96, for 2, 8 and 32 tokens" in text
    assert "and at most 96M (1.5M to 13.4M tokens), under 3 seeds" in text
    assert "Runs of the width 352 on 94M tokens are not in the fit" in text
    assert "L = E + A/N^α + B/D^β" not in methods(report)


def test_an_arm_that_was_renamed_is_said_and_the_rest_is_drawn(report: ReportData) -> None:
    one, two = report.order[:2]
    tables = (*report.predictions[:1], prediction("old name", 0.2, 3.0))
    rung = RungRecord(size=352, tokens=[94_000_000], arms=report.plan.arms, is_predicted=True)
    plan = report.plan.model_copy(update={"rungs": [rung]})
    findings = replace(report.findings, plan=plan)
    own = replace(report, findings=findings, predictions=tables)
    (plot,) = prediction_plot(own)
    assert [bar["arm"] for bar in drawn(plot.spec)[0]] == [one]
    words = "the study has no such arm now"
    assert [line[-1] for line in prediction_lines(own, tables)] == ["worse than predicted", words]
    said = describe_unknown_arms(own)
    assert said.startswith('Predictions were written down for "old name", and the study has no arm')
    assert f'Arms without a prediction: "{two}"' in said
    assert said in markdown_report(own)
    assert said.replace('"', "&#34;") in render_page(own)
    assert describe_unknown_arms(report) == ""
    assert prediction_plot(replace(own, predictions=tables[1:])) == []


def test_a_prediction_is_kept_without_infinity() -> None:
    table = prediction("causal", 0.2, inf)
    assert table["high"] is None
    json.dumps(table, allow_nan=False)
    assert read_prediction(table).high == inf
    assert read_prediction(prediction("causal", 0.2, 3.0)).high == 3.0


def test_a_study_without_a_ladder_has_no_law(report: ReportData) -> None:
    assert report.laws is None  # the study has no ladder
    assert report.law_readings == []
