"""What an inconclusive verdict would take: fresh seeds, judged alone, in every format."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from factorial_study import FACTORIAL_GAINS, make_factorial_study
from handmade_study import SEEDS, make_study, make_study_at_look
from rich.console import Console

from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.record import Study, evaluation_path, read_evaluations, write_evaluation
from paribus.report.contrasts import contrast_texts
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import ReportData, gather_report_data
from paribus.report.verdicts import describe_fresh_seeds, verdict_texts

FRESH = "fresh seeds, judged alone"
SHIFTS = {1: 1.02, 2: 0.99, 3: 1.03, 4: 0.97}  # of the prefix arm's nats, by seed


def doubtful(study: Study, margin: float) -> Study:
    """The same study with a margin, and with noise that leaves the prefix arm inconclusive."""
    for cell in study.read_cells():
        if cell.arm == "prefix" and (study.root / cell.run / "evaluations").exists():
            found = next(iter(read_evaluations(study.root / cell.run)))
            answers = tuple(
                replace(one, nats=one.nats * SHIFTS[cell.seed]) for one in found.answers
            )
            path = evaluation_path(study.root / cell.run, found.head.yardstick, found.head.items)
            write_evaluation(path, replace(found, answers=answers))
    plan = study.read_plan()
    plan["design"]["primary"]["margin"] = margin
    study.write_plan(plan)
    return study


def printed(material: ReportData) -> str:
    console = Console(file=io.StringIO(), width=10_000)
    print_verdicts(material, console)
    return console.file.getvalue()


@pytest.fixture
def material(tmp_path: Path) -> ReportData:
    return gather_report_data(doubtful(make_study(tmp_path), 0.01))


def test_every_format_asks_for_fresh_seeds_and_none_for_seeds_in_all(material: ReportData) -> None:
    first = verdict_texts(material)[0]
    assert first.word == "inconclusive"
    assert FRESH in first.advice
    assert " margins (0." in first.advice
    for text in (
        render_page(material).partition("<script")[0],
        markdown_report(material),
        latex_table(material),
        printed(material),
    ):
        assert FRESH in text
        assert "seeds in all" not in text


def test_how_to_get_fresh_seeds_is_said_once_and_can_be_done(material: ReportData) -> None:
    said = describe_fresh_seeds(material)
    assert (
        "a new study of the same design, with seeds other than 1 to 4, as many as advised: "
        "`paribus run DESIGN --seeds N`" in said
    )
    for text in (
        render_page(material).partition("<script")[0],
        markdown_report(material),
        latex_table(material),
        printed(material),
    ):
        assert text.count("Fresh seeds make a new study") == 1


def test_nothing_is_said_of_fresh_seeds_where_no_comparison_asks_for_them(tmp_path: Path) -> None:
    assert describe_fresh_seeds(gather_report_data(make_study(tmp_path))) == ""


def test_between_looks_the_advice_is_the_next_look(tmp_path: Path) -> None:
    study = make_study_at_look(tmp_path)
    material = gather_report_data(doubtful(study, 0.01))
    first = verdict_texts(material)[0]
    assert first.word == "inconclusive"
    assert first.advice == (
        f"The design reads the verdict again at {len(SEEDS)} seeds; `paribus run` adds them."
    )
    assert describe_fresh_seeds(material) == ""


def test_the_command_for_fresh_seeds_has_the_scale_and_can_be_copied(material: ReportData) -> None:
    plan = material.plan.model_copy(update={"scale": "smoke"})
    material = replace(material, findings=replace(material.findings, plan=plan))
    command = "paribus run DESIGN --scale smoke --seeds N"
    assert f"`{command}`" in describe_fresh_seeds(material)
    assert f"`{command}`" in markdown_report(material)
    assert f"<code>{command}</code>" in render_page(material)


def test_what_contrasts_would_take_stands_below_a_typeset_table(tmp_path: Path) -> None:
    study = make_factorial_study(
        tmp_path, gains=dict.fromkeys(FACTORIAL_GAINS, 0.0), contrasts="default"
    )
    material = gather_report_data(doubtful(study, 0.001))
    asked = [one for one in contrast_texts(material) if one.advice]
    assert asked
    for one in asked:
        assert f"% {one.name}: {one.advice.removesuffix('.')}" in latex_table(material)
