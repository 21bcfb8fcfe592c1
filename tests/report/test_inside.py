"""The section Inside of a report: what probes found in the arms of a study."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade_probes import QUANTITY, all_probe_rows, make_probed_study
from handmade_study import make_study

from paribus.analyse.probe_means import mean_over_layers, mean_rows
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page, study_plots
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.tables import inside_tables, secondary_tables

SECTION = '<h2 id="inside">Inside</h2>'


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return gather_report_data(make_probed_study(tmp_path_factory.mktemp("runs")))


def test_probes_leave_the_other_yardsticks(report: ReportData) -> None:
    assert secondary_tables(report) == []
    ((name, lines),) = inside_tables(report)
    assert name == f"rank: {QUANTITY}.test"
    assert [line[0] for line in lines] == report.order
    # seeds 1 to 4: means are place + 0.25, differences one place and two, without any spread
    assert lines[1][1].startswith("1.25")
    assert lines[0][3] == "–"
    assert [float(line[3]) for line in lines[1:]] == [1, 2]


def test_the_page_has_the_section_with_differences_and_figures(report: ReportData) -> None:
    page = render_page(report)
    section = page[page.index(SECTION) : page.index('<h2 id="control">')]
    assert ">difference</th>" in section
    assert ">gain</th>" not in section
    assert "95 % interval, exploratory" in section
    for word in ("better than", "worse than", "equivalent", "inconclusive"):
        assert word not in section
    assert 'id="plot-rank-spectra-1"' in section
    assert '<a href="#inside">Inside</a>' in page
    assert len(page.encode()) < 3_000_000


def test_the_figures_are_means_over_seeds(report: ReportData) -> None:
    (probe,) = report.probes
    assert list(probe.rows) == report.order
    rows = probe.rows["prefix"]
    assert len(rows) == len(all_probe_rows(2, 3))
    loss = next(row for row in rows if row.quantity == "loss" and row.x == 1)
    assert loss.value == pytest.approx(3 + 0.0125)  # 3 + (1 + 0.25) / 100
    assert loss.n == 16
    assert "rank-spectra-1" in study_plots(report)


def test_markdown_has_the_section(report: ReportData) -> None:
    text = markdown_report(report)
    assert "\n## Inside\n" in text
    assert "| arm | mean | spread | difference |" in text


def test_a_study_without_probes_has_no_such_section(tmp_path: Path) -> None:
    report = gather_report_data(make_study(tmp_path))
    page = render_page(report)
    assert SECTION not in page
    assert 'href="#inside"' not in page
    assert "## Inside" not in markdown_report(report)
    assert report.probes == ()


def test_runs_that_keep_no_rows_have_tables_alone(tmp_path: Path) -> None:
    page = render_page(gather_report_data(make_probed_study(tmp_path, keeps_rows=False)))
    section = page[page.index(SECTION) : page.index('<h2 id="control">')]
    assert ">difference</th>" in section
    assert "<figure>" not in section


def test_an_anonymous_report_names_no_text(tmp_path: Path) -> None:
    study = make_probed_study(tmp_path)
    assert "secret-books" in render_page(gather_report_data(study))
    page = render_page(gather_report_data(study, anonymous=True))
    assert "secret-books" not in page
    assert SECTION in page


def test_means_are_over_rows_that_differ_in_value_alone() -> None:
    first, second = all_probe_rows(2, 3), all_probe_rows(2, 3, 0.5)
    rows = mean_rows([*first, *second])
    assert len(rows) == len(first)
    for before, after, row in zip(first, second, rows, strict=True):
        assert row.value == pytest.approx((before.value + after.value) / 2)
    assert {row.layer for row in mean_over_layers(first)} == {None}
