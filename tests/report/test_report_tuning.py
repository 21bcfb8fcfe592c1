"""A verdict that tuning could overturn says so in every format; older sweeps say nothing of it."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from handmade_study import GAINS, MANY_ARMS, make_study, sweep_record
from rich.console import Console

from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.report.csv_tables import verdict_rows
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.rate_plot import rate_plot
from paribus.report.report_data import ReportData, gather_report_data

OVERTURN = "tuning could overturn it"


def _material(root: Path, excess: float | None, gains: dict[str, float] = GAINS) -> ReportData:
    rates: dict[str, Any] = sweep_record(list(gains))
    for own in rates.values():
        own["grid"] = sorted({rate for rate, _ in own["points"]})
        own["optimum"] = {
            **own["optimum"],
            "excess": 1e-9,
            "fitted": own["grid"][1:4],
            "interval": [0.0039, 0.0041],
        }
    rates["prefix"]["optimum"]["excess"] = excess
    return gather_report_data(make_study(root, gains=gains, rates=rates))


def _terminal(material: ReportData) -> str:
    written = io.StringIO()
    print_verdicts(material, Console(width=200, file=written))
    return written.getvalue()


@pytest.mark.parametrize("gains", [GAINS, MANY_ARMS])
def test_the_word_carries_it_in_terminal_page_markdown_and_latex(tmp_path: Path, gains) -> None:
    material = _material(tmp_path, 0.03, gains)
    for text in (
        _terminal(material),
        render_page(material),
        markdown_report(material),
        latex_table(material),
    ):
        assert OVERTURN in text
    words = markdown_report(material)
    assert (
        "An error in the arms' rates could move the gain by 0.03 bits per byte, and more seeds do"
        " not heal" in words
    )
    assert "| what tuning could move | 0.03 | 1e-09 |" in words
    assert "| learning rate | 0.004; 95 % interval 0.0039 to 0.0041 |" in words
    assert 'Tuning could overturn the verdict on "prefix".' in words


def test_an_interval_of_a_rate_that_is_cut_at_an_octave_says_so(tmp_path: Path) -> None:
    rates: dict[str, Any] = sweep_record(list(GAINS), best=0.00401)
    ends = {"causal": [0.002004, 0.008016], "prefix": [0.002004, 0.0041]}
    for arm, own in rates.items():
        own["rate"] = 0.004  # as it is recorded, in few digits
        interval = ends.get(arm, [0.0039, 0.0041])
        found = {"excess": 1e-9, "interval": interval, "rate": 0.004008}
        own["optimum"] = {**own["optimum"], **found}
    words = markdown_report(gather_report_data(make_study(tmp_path, rates=rates)))
    whole = "0.004; 95 % interval an octave or more either side, cut at 0.002 and 0.00802"
    assert f"| learning rate, what it is judged against | {whole} | {whole} |" in words
    assert (
        "| learning rate | 0.004; 95 % interval 0.002 (cut there, an octave below) to 0.0041 |"
        " 0.004; 95 % interval 0.0039 to 0.0041 |" in words
    )
    assert (
        'The 95 % intervals of the rates of "causal" and "prefix" reach an octave or more from the'
        " rate and are cut there, so what tuning could move is counted up to an octave." in words
    )


def test_what_tuning_could_move_is_published_with_the_verdicts(tmp_path: Path) -> None:
    rows = verdict_rows(_material(tmp_path, 0.03))
    assert [row["tuning"] for row in rows] == [0.03, 1e-9]
    assert OVERTURN in rows[0]["words"]


def test_a_rate_taken_without_a_parabola_could_overturn_any_word(tmp_path: Path) -> None:
    words = markdown_report(_material(tmp_path, None))
    assert "What tuning could move is not known: a rate was taken without a parabola." in words
    assert "| what tuning could move | not known | 1e-09 |" in words


def test_a_verdict_that_tuning_cannot_overturn_says_nothing_of_it(tmp_path: Path) -> None:
    material = _material(tmp_path, 1e-9)
    for text in (
        _terminal(material),
        render_page(material),
        markdown_report(material),
        latex_table(material),
    ):
        assert OVERTURN not in text


def test_a_sweep_of_an_older_study_is_read_as_it_was(tmp_path: Path) -> None:
    material = gather_report_data(make_study(tmp_path, rates=sweep_record(list(GAINS))))
    assert [arm.tuning_uncertainty for arm in material.findings.arms] == [None, None]
    assert len(material.findings.arms[0].gains_by_rate) == 5
    assert "what tuning could move" not in markdown_report(material)
    assert OVERTURN not in render_page(material)


def _swept_by_loss(root: Path, arms: Sequence[str]) -> ReportData:
    """A study in which the sweeps of some arms were scored by the loss of their own objective."""
    rates: dict[str, Any] = sweep_record(list(GAINS))
    for arm, own in rates.items():
        own["optimum"] = {**own["optimum"], "excess": 9.0}
        own["own_loss"] = arm in arms
    return gather_report_data(make_study(root, rates=rates))


def test_the_loss_of_its_own_objective_says_nothing_of_the_yardstick(tmp_path: Path) -> None:
    material = _swept_by_loss(tmp_path, list(GAINS))
    for arm in material.findings.arms:
        assert arm.tuning_uncertainty is None
        assert arm.gains_by_rate == {}
    plot = rate_plot(material)
    assert plot is not None
    assert plot.heading[-1] == "nats per target"
    assert "not which arm is better" in plot.caption
    page = render_page(material)
    assert "The gain at every common rate" not in page
    assert "The rates of all arms were tuned on the held-out loss of their own objective" in page
    assert OVERTURN not in page


def test_two_measures_are_not_drawn_on_one_axis(tmp_path: Path) -> None:
    material = _swept_by_loss(tmp_path, ["prefix"])
    plot = rate_plot(material)
    assert plot is not None
    assert plot.heading[-1] == "bits per byte"
    assert {row[0] for row in plot.numbers} == set(GAINS) - {"prefix"}
    assert material.findings.arm("prefix").gains_by_rate == {}
