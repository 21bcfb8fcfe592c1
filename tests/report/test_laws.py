"""The laws of a ladder in a report: what the figures show, and the same section in Markdown and
HTML.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from math import inf
from statistics import fmean
from typing import Any

import pytest
from handmade_ladder import (
    LARGEST_PARAMETERS,
    LAWS,
    MIDDLE,
    PARAMETERS,
    RATIOS,
    SAVED,
    SEEDS,
    WORSE,
    make_ladder_report,
    planted_flops,
)

from paribus.analyse.run_table import RowTable, column_of, select_rows
from paribus.analyse.study_laws import StudyLaws
from paribus.report.charts import Plot, arm_key
from paribus.report.ladder_gains import GAINS_TITLE, ladder_gain_heading
from paribus.report.law_plots import BEYOND, law_plots, run_points
from paribus.report.laws import (
    EXPONENT_HEADING,
    EXPONENTS_TITLE,
    LAW_HEADING,
    LAWS_TITLE,
    PREDICTION_HEADING,
    PREDICTIONS_TITLE,
    READING_HEADING,
    READINGS_TITLE,
)
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import ReportData

Row = dict[str, Any]
ARMS = list(LAWS)
LONGEST = RATIOS[-1]  # tokens for each parameter, along the path that is drawn
BEYOND_DATA = 4.0  # how far lines go in compute
N_RUNS = len(PARAMETERS) * len(RATIOS) * len(SEEDS)  # of an arm, for its law
FIRST_FLOPS, LAST_FLOPS = (
    planted_flops(n_parameters, LONGEST * n_parameters)
    for n_parameters in (min(PARAMETERS.values()), max(PARAMETERS.values()))
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return make_ladder_report(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def plots(report: ReportData) -> dict[str, Plot]:
    return {plot.key: plot for plot in law_plots(report)}


def layer(plot: Plot, mark: str, *, dashed: bool = False) -> Row:
    """The one layer of a plot with this mark, its line dashed or not."""
    (found,) = [
        one
        for one in plot.spec["layer"]
        if one["mark"]["type"] == mark and ("strokeDash" in one["mark"]) == dashed
    ]
    return found


def drawn(plot: Plot, mark: str, *, dashed: bool = False) -> list[Row]:
    return layer(plot, mark, dashed=dashed)["data"]["values"]


def rows_of(rows: Sequence[Row], key: str) -> list[Row]:
    """The drawn rows of one colour, from the least compute."""
    return sorted((row for row in rows if row["key"] == key), key=lambda row: row["compute"])


def test_all_axes_are_logarithmic(plots: dict[str, Plot]) -> None:
    assert list(plots) == ["law-compute", "law-parameters", "law-multiplier"]
    for plot in plots.values():
        for one in plot.spec["layer"]:
            scales = {
                name: one["encoding"][name]["scale"] for name in {"x", "y"} & {*one["encoding"]}
            }
            assert "y" in scales
            assert all(scale["type"] == "log" and not scale["zero"] for scale in scales.values())
    titles = {key: layer(plot, "area")["encoding"]["x"]["title"] for key, plot in plots.items()}
    assert titles == {
        "law-compute": "training FLOPs",
        "law-parameters": "parameters",
        "law-multiplier": "training FLOPs",
    }


@pytest.mark.parametrize("over", ["compute", "parameters"])
def test_every_run_is_a_point_and_the_predicted_ones_are_open(
    over: str, report: ReportData, plots: dict[str, Plot]
) -> None:
    plot, column = plots[f"law-{over}"], column_of(report.plan.design.primary.measure.table)
    field = {"compute": "planned_flops", "parameters": "parameters"}[over]
    for mark, purpose in (("circle", "ladder"), ("point", "predicted")):
        runs = [row for row in report.findings.table.rows if row["purpose"] == purpose]
        points = [(one["arm"], one["seed"], one[over], one["loss"]) for one in drawn(plot, mark)]
        assert points == [(row["arm"], str(row["seed"]), row[field], row[column]) for row in runs]
        encoding = layer(plot, mark)["encoding"]
        assert (encoding["x"]["field"], encoding["y"]["field"]) == (over, "loss")
    assert len(drawn(plot, "circle")) == N_RUNS * len(ARMS)
    assert len(drawn(plot, "point")) == len(SEEDS) * len(ARMS)
    assert layer(plot, "point")["mark"]["filled"] is False
    assert len(plot.numbers) == (N_RUNS + len(SEEDS)) * len(ARMS)
    assert all(len(line) == len(plot.heading) for line in plot.numbers)


def test_a_run_that_did_not_finish_is_no_point(report: ReportData) -> None:
    rows = list(report.findings.table.rows)
    place = next(place for place, row in enumerate(rows) if row["purpose"] == "ladder")
    rows[place] = {**rows[place], "outcome": "diverged"}
    own = replace(report, findings=replace(report.findings, table=RowTable(tuple(rows))))
    measure = report.plan.design.primary.measure.table
    assert len(list(run_points(own, measure))) == len(list(run_points(report, measure))) - 1


def test_runs_without_a_score_are_counted_in_the_section(report: ReportData) -> None:
    table = list(report.findings.table)
    size = min(row["size"] for row in table if row["purpose"] == "ladder")
    rows, outcomes = [], iter(("diverged", "diverged", "open"))
    for row in table:
        lost = row["purpose"] == "ladder" and row["size"] == size and next(outcomes, None)
        rows.append({**row, "outcome": lost} if lost else row)
    own = replace(report, findings=replace(report.findings, table=RowTable(tuple(rows))))
    n_runs = len(ARMS) * N_RUNS
    said = f"3 of {n_runs} runs of the ladder have no score: 2 diverged, 1 not made yet; 3 at"
    for text in (markdown_report(own), render_page(own)):
        assert f"{said} d_model {size}. Laws and gains are without them" in text.replace("\\_", "_")
    assert "have no score" not in markdown_report(report)


@pytest.mark.parametrize("over", ["compute", "parameters"])
def test_every_arm_has_the_line_of_its_law_and_a_band(
    over: str, report: ReportData, plots: dict[str, Plot]
) -> None:
    plot = plots[f"law-{over}"]
    bands, lines = layer(plot, "area")["encoding"], layer(plot, "line")["encoding"]
    assert [bands[name]["field"] for name in ("x", "y", "y2")] == [over, "low", "high"]
    assert [lines[name]["field"] for name in ("x", "y")] == [over, "loss"]
    for arm, law in LAWS.items():
        key = arm_key(report.order, arm)
        line, band = (rows_of(drawn(plot, mark), key) for mark in ("line", "area"))
        ends = [line[0]["parameters"], line[-1]["parameters"]]
        assert ends == pytest.approx([min(PARAMETERS.values()), max(PARAMETERS.values())])
        for row in line:
            truth = law.loss(row["parameters"], LONGEST * row["parameters"])
            assert row["loss"] == pytest.approx(truth, rel=0.005)
        assert len(band) > len(line) > 2
        assert all(row["low"] < row["loss"] < row["high"] < 1.1 * row["low"] for row in band)


@pytest.mark.parametrize("over", ["compute", "parameters"])
def test_laws_are_dashed_beyond_the_data_up_to_a_factor_of_4(
    over: str, report: ReportData, plots: dict[str, Plot]
) -> None:
    plot = plots[f"law-{over}"]
    dashes = layer(plot, "line", dashed=True)
    assert dashes["mark"]["strokeDash"] == BEYOND
    assert [dashes["encoding"][name]["field"] for name in ("x", "y")] == [over, "loss"]
    for arm in ARMS:
        key = arm_key(report.order, arm)
        whole = rows_of(drawn(plot, "line", dashed=True), key)
        assert whole[0]["compute"] == pytest.approx(FIRST_FLOPS)
        assert whole[-1]["compute"] == pytest.approx(BEYOND_DATA * LAST_FLOPS)
        line = rows_of(drawn(plot, "line"), key)
        assert line[-1]["compute"] == pytest.approx(LAST_FLOPS)
        assert whole[: len(line)] == line  # the dashes alone go on beyond it
        assert len(whole) > len(line) + 2


def test_the_multiplier_is_drawn_over_compute_with_its_band(plots: dict[str, Plot]) -> None:
    plot = plots["law-multiplier"]
    bands, lines = layer(plot, "area")["encoding"], layer(plot, "line")["encoding"]
    assert [bands[name]["field"] for name in ("x", "y", "y2")] == ["compute", "low", "high"]
    assert [lines[name]["field"] for name in ("x", "y")] == ["compute", "factor"]
    assert drawn(plot, "rule") == [{"factor": 1}]
    saving, crossing = (rows_of(drawn(plot, "line"), key) for key in keys_of(plot))
    assert {row["pair"] for row in saving} == {"prefix against causal"}
    assert {row["pair"] for row in crossing} == {"same side against causal"}
    for row in rows_of(drawn(plot, "area"), saving[0]["key"]):
        assert row["low"] < SAVED < row["high"] < 1.1 * row["low"]
    middle = planted_flops(MIDDLE, LONGEST * MIDDLE)
    factors = {row["compute"] < middle: row["factor"] for row in (crossing[-1], crossing[0])}
    assert factors[True] < 1 < factors[False]
    nearest = min(crossing, key=lambda row: abs(row["compute"] / middle - 1))
    assert nearest["factor"] == pytest.approx(1, abs=0.05)


def keys_of(plot: Plot) -> list[str]:
    """The keys of the pairs, in the order of the legend."""
    return layer(plot, "line")["encoding"]["color"]["scale"]["domain"]


def test_a_multiplier_is_dashed_where_either_arm_leaves_its_data(plots: dict[str, Plot]) -> None:
    plot = plots["law-multiplier"]
    assert layer(plot, "line", dashed=True)["mark"]["strokeDash"] == BEYOND
    for key in keys_of(plot):
        whole = rows_of(drawn(plot, "line", dashed=True), key)
        for row in whole:
            both = (row["compute"], row["compute"] * row["factor"])  # of one arm and of the other
            assert min(both) > FIRST_FLOPS / BEYOND_DATA / 1.001
            assert max(both) < LAST_FLOPS * BEYOND_DATA * 1.001
            is_inside = min(both) > FIRST_FLOPS / 1.001 and max(both) < LAST_FLOPS * 1.001
            assert row["extrapolated"] is not is_inside
        line = rows_of(drawn(plot, "line"), key)
        assert line == [row for row in whole if not row["extrapolated"]]
        assert len(whole) > len(line) + 2
    beyond = [row["extrapolated"] for row in drawn(plot, "area")]
    assert ["beyond the data" in line[1] for line in plot.numbers] == beyond


def fitted_laws(report: ReportData) -> StudyLaws:
    """The laws of a report that has them."""
    laws = report.laws
    assert laws is not None
    assert not isinstance(laws, str)
    return laws


def test_a_band_without_an_end_is_cut_where_its_axis_ends(
    report: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    laws = fitted_laws(report)
    (one, other) = laws.multipliers
    endless = [replace(one.curve[0], high=inf), *one.curve[1:]]
    curves = {arm: (replace(curve[0], high=inf), *curve[1:]) for arm, curve in laws.curves.items()}
    wide = replace(laws, curves=curves, multipliers=(replace(one, curve=tuple(endless)), other))
    monkeypatch.setattr("paribus.report.report_data.study_laws", lambda _plan, _rows: wide)
    for plot in law_plots(replace(report)):
        json.dumps(plot.spec, allow_nan=False)
        top = layer(plot, "area")["encoding"]["y"]["scale"]["domain"][1]
        assert max(row["high"] for row in drawn(plot, "area")) == top
        assert layer(plot, "area")["mark"]["clip"] is True


def test_a_band_that_covers_the_whole_axis_is_left_out_and_named(
    report: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    laws = fitted_laws(report)
    (one, other) = laws.multipliers
    endless = tuple(replace(point, low=1e-14, high=inf) for point in one.curve)
    wide = replace(laws, multipliers=(replace(one, curve=endless), other))
    before = law_plots(report)[-1]
    assert "Left out" not in before.caption
    monkeypatch.setattr("paribus.report.report_data.study_laws", lambda _plan, _rows: wide)
    plot = law_plots(replace(report))[-1]
    assert plot.caption.endswith(
        ' Left out, with no end on the axis: the band of "prefix against causal"; the table has it.'
    )
    assert {row["pair"] for row in drawn(plot, "area")} == {"same side against causal"}
    assert {row["pair"] for row in drawn(plot, "line")} == {
        "prefix against causal",
        "same side against causal",
    }
    assert len(plot.numbers) == len(before.numbers)
    assert plot.numbers[0][-1] == "1e-14 to no bound"


def test_a_ladder_without_a_law_has_no_figure(report: ReportData) -> None:
    rows = tuple(row for row in report.findings.table.rows if row.get("size") not in (64, 96))
    own = replace(report, findings=replace(report.findings, table=RowTable(rows)))
    assert isinstance(own.laws, str)
    assert law_plots(own) == []


class Section(HTMLParser):
    """The text of a section, a line for each of its paragraphs, and the cells of its tables."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self.ids: set[str] = set()
        self.is_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids |= {value for name, value in attrs if name == "id" and value is not None}
        self.is_cell = tag in ("td", "th") or (self.is_cell and tag not in ("p", "li", "table"))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "p", "li", "h3"):
            self.is_cell = False
            self.text += "\n"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.is_cell:
            self.tables[-1][-1][-1] += data


def html_section(page: str) -> Section:
    section = Section()
    section.feed(page.split('<section aria-labelledby="laws">')[1].split("</section>")[0])
    return section


def markdown_section(text: str) -> Section:
    section = Section()
    section.text = text.split(f"\n## {LAWS_TITLE}\n")[1].split("\n## ")[0]
    section.text = re.sub(r"\\(.)", r"\1", section.text)
    for block in re.findall(r"(?:^\|.*\n)+", section.text, re.MULTILINE):
        heading, _, *lines = block.splitlines()
        section.tables.append([line[2:-2].split(" | ") for line in (heading, *lines)])
    return section


@pytest.fixture(scope="module", params=["Markdown", "HTML"])
def rendered(request: pytest.FixtureRequest, report: ReportData) -> Section:
    """The section on laws, as each of the two formats has it."""
    if request.param == "HTML":
        return html_section(render_page(report))
    return markdown_section(markdown_report(report))


def test_the_figures_stand_in_the_section_of_the_page(
    report: ReportData, plots: dict[str, Plot]
) -> None:
    section = html_section(render_page(report))
    assert {f"plot-{key}" for key in plots} < section.ids
    assert all(plot.caption in section.text for plot in plots.values())


def table_of(rendered: Section, heading: Sequence[str]) -> list[list[str]]:
    """The lines under one heading."""
    (found,) = [lines for first, *lines in rendered.tables if first == list(heading)]
    return found


def ends(cell: str) -> list[float]:
    """The numbers of a cell such as `0.4 (0.396 to 0.404)`."""
    return [float(number) for number in re.findall(r"[-+]?\d+\.?\d*", cell.replace("−", "-"))]


def test_the_law_of_each_arm_is_a_line_with_intervals(rendered: Section) -> None:
    lines = table_of(rendered, LAW_HEADING)
    assert [line[0] for line in lines] == ARMS
    for (_, *numbers, p, n_runs), law in zip(lines, LAWS.values(), strict=True):
        planted = (law.floor, law.a, law.b, law.alpha, law.beta)
        for truth, cell in zip(planted, numbers, strict=True):
            estimate, low, high = ends(cell)
            assert low < estimate < high
            assert low - (high - low) < truth < high + (high - low)  # one of 15 may miss
        assert 0 < float(p) <= 1
        assert n_runs == str(N_RUNS)


def test_exponents_are_compared(rendered: Section) -> None:
    lines = table_of(rendered, EXPONENT_HEADING)
    assert EXPONENTS_TITLE in rendered.text
    assert [(line[0], line[1], line[2], line[-1]) for line in lines] == [
        ("prefix", "causal", "α", "same exponent within ±0.05"),
        ("prefix", "causal", "β", "same exponent within ±0.05"),
        ("same side", "causal", "α", "α larger: same side"),
        ("same side", "causal", "β", "same exponent within ±0.05"),
    ]
    low, high = ends(lines[2][4])
    assert low < 0.15 < high
    assert "That all arms have one E is assumed; the p of the F test of it is" in rendered.text


def test_multipliers_are_sentences(rendered: Section) -> None:
    start = '"prefix" against "causal": the compute that "causal" needs for the same loss, over'
    (saving,) = re.findall(re.escape(start) + "[^\n<]*", rendered.text)
    factor, low, high = ends(saving.split(": ")[2])[:3]
    assert low <= factor <= high
    assert factor == pytest.approx(SAVED, rel=0.02)
    assert saving.endswith(" TFLOP. No crossing within the data.")
    (crossing,) = re.findall('"same side" against "causal": [^\n<]*', rendered.text)
    assert crossing.endswith(" TFLOP. The arms cross within the data.")


def test_predictions_stand_beside_what_came_out(rendered: Section, report: ReportData) -> None:
    assert PREDICTIONS_TITLE in rendered.text
    lines = table_of(rendered, PREDICTION_HEADING)
    assert [line[:3] for line in lines] == [[arm, "1.7M", "54.4M"] for arm in ARMS]
    column = column_of(report.plan.design.primary.measure.table)
    for arm, _, _, predicted, interval, measured, words in lines:
        truth = LAWS[arm].loss(LARGEST_PARAMETERS, LONGEST * LARGEST_PARAMETERS)
        assert float(predicted) == pytest.approx(truth, rel=0.005)
        low, high = ends(interval)
        assert low < float(predicted) < high
        rows = select_rows(report.findings.table.rows, purposes=["predicted"], arm=arm)
        assert float(measured) == pytest.approx(fmean(row[column] for row in rows), abs=0.001)
        assert words == ("worse than predicted" if arm in WORSE else "within the interval")


def test_gains_are_shown_at_every_size(rendered: Section, report: ReportData) -> None:
    assert GAINS_TITLE in rendered.text
    heading = ladder_gain_heading(report)
    assert heading[3:] == tuple(f"d_model {size}" for size in (64, 96, 128, 192, 352))
    lines = table_of(rendered, heading)
    of_parameters = [str(2 * ratio) for ratio in RATIOS]  # half of them are embeddings
    pairs = [["prefix", "causal"], ["same side", "causal"]]
    assert [line[:3] for line in lines] == [
        [*pair, ratio] for pair in pairs for ratio in of_parameters
    ]
    baseline = LAWS["causal"]
    for line in lines:
        n_ratio = int(line[2]) / 2
        for cell, n_parameters in zip(line[3:], PARAMETERS.values(), strict=False):
            place = n_parameters, n_ratio * n_parameters
            gain = baseline.loss(*place) - LAWS[line[0]].loss(*place)
            assert ends(cell)[0] == pytest.approx(gain, abs=0.02)
        assert (line[-1] == "–") == (n_ratio != LONGEST)


def test_other_readings_have_a_table(rendered: Section) -> None:
    assert READINGS_TITLE in rendered.text
    lines = table_of(rendered, READING_HEADING)
    assert list(dict.fromkeys(line[0] for line in lines)) == ARMS
    assert [line[1] for line in lines[:2]] == ["as above", "wild bootstrap of cells"]
