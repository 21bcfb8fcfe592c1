"""The section Inside of a report: what probes found in the arms of a study."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from handmade_probes import QUANTITY, YARDSTICK, make_probed_study, study_rows
from handmade_study import make_study

from paribus.analyse.probe_means import mean_over_layers, mean_rows
from paribus.analyse.study_probes import probe_settings
from paribus.report.csv_tables import inside_rows, inside_rows_by_seed, to_csv
from paribus.report.inside_figures import study_figures
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page, study_plots
from paribus.report.probe_settings import describe_settings
from paribus.report.rank_effect import INTERVENTION_NOTE, OBSERVED_NOTE, rank_sentences
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.tables import inside_tables, secondary_tables

SECTION = '<h2 id="inside">Inside</h2>'


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return gather_report_data(make_probed_study(tmp_path_factory.mktemp("runs")))


def test_probes_leave_the_other_yardsticks(report: ReportData) -> None:
    assert secondary_tables(report) == []
    ((name, lines),) = inside_tables(report)
    assert name == f"rank: {QUANTITY}"
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
    assert len(rows) == len(study_rows())
    loss = next(row for row in rows if row.quantity == "loss" and row.x == 4)
    assert loss.value == pytest.approx(0.6 + 0.0125)  # 3 / (1 + 4) + (1 + 0.25) / 100
    assert loss.n == 16
    assert "rank-spectra-1" in study_plots(report)


def test_a_table_has_every_value_that_figures_draw(report: ReportData) -> None:
    rows = inside_rows(report)
    assert len(rows) == len(report.order) * len(study_rows())
    assert [row["arm"] for row in rows[:: len(study_rows())]] == report.order
    losses = [row for row in rows if row["arm"] == "prefix" and row["quantity"] == "loss"]
    loss = next(row["value"] for row in losses if row["x"] == 4)
    assert loss == pytest.approx(0.6 + 0.0125)
    assert to_csv(rows).startswith("arm,number,probe,quantity,value,n,")


def test_a_second_table_has_the_values_of_each_run(report: ReportData) -> None:
    def is_loss(row: dict[str, Any]) -> bool:
        return (row["arm"], row["quantity"], row["x"], row["variant"]) == ("prefix", "loss", 4, "")

    rows = inside_rows_by_seed(report)
    assert to_csv(rows).startswith("arm,seed,number,probe,quantity,value,n,")
    own = {row["seed"]: row["value"] for row in rows if is_loss(row)}
    assert sorted(own) == sorted({row["seed"] for row in report.rows})
    assert len(set(own.values())) == len(own)
    (mean,) = [row["value"] for row in inside_rows(report) if is_loss(row)]
    assert sum(own.values()) / len(own) == pytest.approx(mean)


def test_markdown_has_the_section(report: ReportData) -> None:
    text = markdown_report(report)
    assert "\n## Inside\n" in text
    assert "| arm | mean | spread | difference |" in text


RANKED = {**YARDSTICK, "quantity": "effective rank"}
OF_MORE_TEXTS = {**RANKED, "probe": {**YARDSTICK["probe"], "n_texts": 3}}


def test_each_distinct_probe_is_drawn_and_told_by_what_differs(tmp_path: Path) -> None:
    report = gather_report_data(make_probed_study(tmp_path, yardsticks=[YARDSTICK, OF_MORE_TEXTS]))
    first, second = report.probes
    spectra = [
        figure for figure in study_figures(report.probes) if figure.key.startswith("rank-spectra")
    ]
    assert [figure.key for figure in spectra] == ["rank-spectra", "rank-spectra-probe-2"]
    assert [figure.title for figure in spectra] == [
        "Spectra of attention, n_texts = 2",
        "Spectra of attention, n_texts = 3",
    ]
    # a text more: a hundredth more
    for before, after in zip(first.rows["causal"], second.rows["causal"], strict=True):
        if before.quantity == "loss":
            assert after.value - before.value == pytest.approx(0.01)
    titles = [name for name, _ in inside_tables(report)]
    assert titles == [
        f"rank: {QUANTITY}; n_texts = 2",
        "rank: effective rank, in directions; n_texts = 3",
    ]
    page = render_page(report)
    assert "Spectra of attention, n_texts = 3" in page
    assert len(set(re.findall(r'id="(plot-[^"]*)"', page))) == page.count('class="plot" id=')


def test_one_probe_with_several_quantities_is_drawn_once(tmp_path: Path) -> None:
    report = gather_report_data(make_probed_study(tmp_path, yardsticks=[YARDSTICK, RANKED]))
    assert len(report.probes) == 1
    assert len(inside_tables(report)) == 2
    (spectra,) = [
        figure for figure in study_figures(report.probes) if figure.key.startswith("rank-spectra")
    ]
    assert spectra.title == "Spectra of attention"


def test_a_probe_of_another_split_is_another_probe() -> None:
    settings = [probe_settings(one) for one in (YARDSTICK, {**YARDSTICK, "split": "valid"})]
    words = [describe_settings(one, settings) for one in settings]
    assert words == ['split = "test"', 'split = "valid"']
    assert describe_settings(settings[0], settings[:1]) == ""


def test_a_length_that_is_not_set_is_that_of_training() -> None:
    settings = [{"kind": "rank", "length": length} for length in (None, 16)]
    assert describe_settings(settings[0], settings) == "length = as in training"


def test_observed_ranks_are_described_in_both_formats(tmp_path: Path) -> None:
    report = gather_report_data(make_probed_study(tmp_path, yardsticks=[RANKED]))
    text, page = markdown_report(report), render_page(report)
    section = page[page.index(SECTION) : page.index('<h2 id="control">')]
    for words in (text, section):
        assert "Rank and effect" in words
        assert OBSERVED_NOTE in words
        assert INTERVENTION_NOTE not in words
    anonymous = gather_report_data(make_probed_study(tmp_path / "b", yardsticks=[RANKED]), True)
    assert OBSERVED_NOTE in markdown_report(anonymous)


def test_interventions_on_the_rank_have_their_slopes(tmp_path: Path) -> None:
    study = make_probed_study(tmp_path, yardsticks=[RANKED])
    plan = study.read_plan()
    for d_head, arm in zip((8, 16, 32), plan["order"], strict=True):
        architecture = plan["arms"][arm]["run"]["architecture"]
        architecture["mask"] = "causal"
        architecture["attention"]["d_head"] = d_head
    study.write_plan(plan)
    report = gather_report_data(study)
    (sentence,) = rank_sentences(report.findings)
    assert sentence.startswith("Head size, causal: the effective rank of attention goes from")
    section = render_page(report).split(SECTION)[1].split('<h2 id="control">')[0]
    assert INTERVENTION_NOTE in section
    assert "A doubling of the effective rank goes with a gain of" in section
    text = markdown_report(report)
    assert "\n### Rank and effect\n\nHere the rank is moved" in text
    assert "\n- Head size, causal: " in text


def test_a_study_that_shows_no_effective_rank_says_nothing_of_it(report: ReportData) -> None:
    assert "Rank and effect" not in markdown_report(report)
    assert "Rank and effect" not in render_page(report)


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
    first, second = study_rows(), study_rows(0.5)
    rows = mean_rows([*first, *second])
    assert len(rows) == len(first)
    for before, after, row in zip(first, second, rows, strict=True):
        assert row.value == pytest.approx((before.value + after.value) / 2)
    assert {row.layer for row in mean_over_layers(first)} == {None}
