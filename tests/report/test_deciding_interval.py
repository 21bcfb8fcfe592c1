"""T28: wherever `equivalent` is said, the interval that decides is printed, with its level,
inside the margin.
"""

import html
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from handmade_study import MANY_ARMS, make_study
from rich.console import Console

from paribus.analyse import Comparison, compare
from paribus.analyse.criterion import Criterion
from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.report.effect_chart import THICK, THIN
from paribus.report.effect_plot import effect_plots
from paribus.report.intervals import describe_gain, margin_interval_cell, verdict_interval_cell
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.overview import comparison_lines
from paribus.report.page import render_page
from paribus.report.report_data import ReportData, gather_report_data

NUMBER = r"([+−-]?\d+(?:\.\d+)?(?:e-?\d+)?)"
INSIDE = re.compile(rf"([\d.]+) % interval {NUMBER} to {NUMBER}, inside the margin of ±{NUMBER}")
BESIDE = re.compile(
    rf"([\d.]+) % intervals, each seed with its own margin: gain − margin is at most {NUMBER},"
    r" below 0; "
    rf"gain \+ margin is at least {NUMBER}, above 0"
)
CELL_INSIDE = re.compile(rf"{NUMBER} to {NUMBER}, at ([\d.]+) %, inside ±{NUMBER}")
CELL_BESIDE = re.compile(
    rf"gain − margin up to {NUMBER}, gain \+ margin from {NUMBER}, at ([\d.]+) %"
)


def equivalents(n: int, seed: int) -> list[Comparison]:
    """Comparisons that end `equivalent`, many of them by a hair: the margin lies just outside
    the inner interval.
    """
    rng = np.random.default_rng(seed)
    found: list[Comparison] = []
    while len(found) < n:
        n_seeds, sd = int(rng.integers(3, 11)), 10.0 ** rng.uniform(-4, -1)
        gains = rng.normal(0, sd, n_seeds).tolist()
        inner = compare(gains)
        edge = max(-inner.inner_low, inner.inner_high) * (1 + 10.0 ** rng.uniform(-8, 0))
        by_seed = (edge * (1 + 0.3 * rng.normal(size=n_seeds))).tolist()
        margin = edge if rng.integers(2) else by_seed
        if not isinstance(margin, float) and sum(margin) <= 0:
            continue
        made_of = compare(gains, Criterion(margin=margin))
        found += [made_of] * (made_of.verdict.word == "equivalent")
    return found


def value(text: str) -> float:
    return float(text.replace("−", "-"))


def lies_inside(text: str, made_of: Comparison) -> bool:
    """Is the interval that decides in these words, with its level, and inside the margin as it
    is printed?
    """
    if made_of.margins:
        found = BESIDE.search(text)
        assert found, text
        level, high, low = map(value, found.groups())
        return high < 0 < low and level == pytest.approx(100 * made_of.inner_level)
    found = INSIDE.search(text)
    assert found, text
    level, low, high, margin = map(value, found.groups())
    return -margin < low < high < margin and level == pytest.approx(100 * made_of.inner_level)


def cell_lies_inside(text: str, made_of: Comparison) -> bool:
    if made_of.margins:
        found = CELL_BESIDE.search(text)
        assert found, text
        high, low, level = map(value, found.groups())
        return high < 0 < low and level == pytest.approx(100 * made_of.inner_level)
    found = CELL_INSIDE.search(text)
    assert found, text
    low, high, level, margin = map(value, found.groups())
    return -margin < low < high < margin and level == pytest.approx(100 * made_of.inner_level)


def test_the_printed_interval_that_decides_always_lies_inside_the_margin() -> None:
    outside = 0
    for made_of in equivalents(1500, 5):
        assert lies_inside(made_of.description, made_of)
        assert lies_inside(describe_gain(made_of), made_of)
        assert cell_lies_inside(verdict_interval_cell(made_of), made_of)
        assert cell_lies_inside(margin_interval_cell(made_of), made_of)
        outside += not made_of.margins and max(-made_of.low, made_of.high) > (made_of.margin or 0)
    assert outside > 300  # where the outer interval alone would have said the contrary


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return gather_report_data(make_study(tmp_path_factory.mktemp("runs"), gains=MANY_ARMS))


def with_comparisons(material: ReportData, each: list[Comparison]) -> ReportData:
    """The same study with these results; none of its arms is a control."""
    arms = [
        replace(arm, judgement=replace(arm.judgement, comparison=one, verdict=one.verdict))
        for arm, one in zip(material.findings.arms, each, strict=True)
    ]
    plan = material.plan.model_copy(
        update={"design": material.plan.design.model_copy(update={"control": None})}
    )
    return replace(material, findings=replace(material.findings, plan=plan, arms=tuple(arms)))


def terminal(material: ReportData) -> str:
    page_of = Console(file=io.StringIO(), width=400)
    print_verdicts(material, page_of)
    return page_of.file.getvalue()


@pytest.mark.parametrize("seed", range(4))
def test_all_four_formats_print_the_interval_that_decides(material: ReportData, seed: int) -> None:
    each = equivalents(len(material.findings.arms), 100 + seed)
    own = with_comparisons(material, each)
    names = [arm.name for arm in own.findings.arms]
    lines = terminal(own).splitlines()
    told = markdown_report(own)
    # the table of hyper-parameters comes later
    results = latex_table(own).partition(r"\end{tabular}")[0]
    typeset = results.replace("$-$", "−").replace(r"$\pm$", "±").replace(r"\%", "%").splitlines()
    text = html.unescape(re.sub(r"<[^>]+>", "", render_page(own)))
    for name, made_of, brief in zip(names, each, comparison_lines(own), strict=True):
        headline = f'"{name}" and "causal" do equally well, within the margin'
        (line,) = [line for line in lines if headline in line]
        assert lies_inside(line, made_of)
        assert lies_inside(told.partition(f"**{headline}**")[2].partition("\n\n")[0], made_of)
        (row,) = [row for row in typeset if row.startswith(f"{name} &")]
        assert cell_lies_inside(row, made_of)
        assert row.rstrip("\\ ").endswith("equivalent")
        assert lies_inside(text.partition(headline)[2][:1200], made_of)
        assert cell_lies_inside(brief.interval, made_of)


def test_the_plot_has_the_inner_interval_thick_the_outer_thin_and_the_mean_margin(
    material: ReportData,
) -> None:
    each = equivalents(len(material.findings.arms), 7)
    own = with_comparisons(material, each)
    (plot,) = effect_plots(own)
    layers = plot.spec["layer"]
    rules = {
        layer["mark"]["strokeWidth"]: layer for layer in layers if layer["mark"].get("strokeWidth")
    }
    assert set(rules) == {THIN, THICK}
    assert (rules[THIN]["encoding"]["x"]["field"], rules[THICK]["encoding"]["x"]["field"]) == (
        "low",
        "inner_low",
    )
    values = [row for layer in layers for row in layer["data"]["values"] if "inner_low" in row]
    shown = {row["pair"]: row for row in values}
    for arm, made_of in zip(own.findings.arms, each, strict=True):
        row = shown[arm.name]
        assert (row["inner_low"], row["inner_high"]) == (made_of.inner_low, made_of.inner_high)
        assert (row["low"], row["high"]) == (made_of.low, made_of.high)
        assert lies_inside(row["decides"], made_of)
        assert lies_inside(plot.spec["description"].partition(f"{arm.name}: ")[2], made_of)
    bands = [row for layer in layers for row in layer["data"]["values"] if "from" in row]
    assert [band["to"] for band in bands] == [made_of.margin for made_of in each]
    assert "thick at 90 %, to show that there is none" in plot.caption
    assert "The grey band is the margin of each." in plot.caption
