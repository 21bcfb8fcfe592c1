"""What an inconclusive verdict would take: fresh seeds, judged alone, in every format."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from crossed_study import CROSSED, crossed
from paribus.cli.terminal.verdicts import print_verdicts
from paribus.record import Study, answers_path, evaluations, write_answers
from paribus.report.contrasts import contrasts
from paribus.report.material import Material, gathered
from paribus.report.page import page
from paribus.report.prose import latex, markdown
from paribus.report.verdicts import fresh_seeds, verdicts
from small_study import SEEDS, at_a_look, made

FRESH = "fresh seeds, judged alone"
SHIFTS = {1: 1.02, 2: 0.99, 3: 1.03, 4: 0.97}  # of the prefix arm's nats, by seed


def doubtful(study: Study, margin: float) -> Study:
    """The same study with a margin, and with noise that leaves the prefix arm inconclusive."""
    for cell in study.cells():
        if cell.arm == "prefix" and (study.root / cell.run / "evaluations").exists():
            found = next(iter(evaluations(study.root / cell.run)))
            answers = tuple(replace(one, nats=one.nats * SHIFTS[cell.seed]) for one in found.answers)
            path = answers_path(study.root / cell.run, found.head.yardstick, found.head.items)
            write_answers(path, replace(found, answers=answers))
    plan = study.plan()
    plan["design"]["primary"]["margin"] = margin
    study.write_plan(plan)
    return study


def printed(material: Material) -> str:
    console = Console(file=io.StringIO(), width=10_000)
    print_verdicts(material, console)
    return console.file.getvalue()


@pytest.fixture
def material(tmp_path: Path) -> Material:
    return gathered(doubtful(made(tmp_path), 0.01))


def test_every_format_asks_for_fresh_seeds_and_none_for_seeds_in_all(material: Material) -> None:
    first = verdicts(material)[0]
    assert first.word == "inconclusive"
    assert FRESH in first.advice
    assert " margins (0." in first.advice
    for text in (page(material).partition("<script")[0], markdown(material), latex(material), printed(material)):
        assert FRESH in text
        assert "seeds in all" not in text


def test_how_to_get_fresh_seeds_is_said_once_and_can_be_done(material: Material) -> None:
    said = fresh_seeds(material)
    assert (
        "a new study of the same design, with seeds other than 1 to 4, as many as advised: "
        "`paribus run DESIGN --seeds N`" in said
    )
    for text in (page(material).partition("<script")[0], markdown(material), latex(material), printed(material)):
        assert text.count("Fresh seeds make a new study") == 1


def test_nothing_is_said_of_fresh_seeds_where_no_comparison_asks_for_them(tmp_path: Path) -> None:
    assert fresh_seeds(gathered(made(tmp_path))) == ""


def test_between_looks_the_advice_is_the_next_look(tmp_path: Path) -> None:
    study = at_a_look(tmp_path)
    material = gathered(doubtful(study, 0.01))
    first = verdicts(material)[0]
    assert first.word == "inconclusive"
    assert first.advice == (f"The design reads the verdict again at {len(SEEDS)} seeds; `paribus run` goes on to them.")
    assert fresh_seeds(material) == ""


def test_the_command_for_fresh_seeds_has_the_scale_and_can_be_copied(material: Material) -> None:
    plan = material.plan.model_copy(update={"scale": "smoke"})
    material = replace(material, found=replace(material.found, plan=plan))
    command = "paribus run DESIGN --scale smoke --seeds N"
    assert f"`{command}`" in fresh_seeds(material)
    assert f"`{command}`" in markdown(material)
    assert f"<code>{command}</code>" in page(material)


def test_what_contrasts_would_take_stands_below_a_typeset_table(tmp_path: Path) -> None:
    study = crossed(tmp_path, gains=dict.fromkeys(CROSSED, 0.0), contrasts="default")
    material = gathered(doubtful(study, 0.001))
    asked = [one for one in contrasts(material) if one.advice]
    assert asked
    for one in asked:
        assert f"% {one.name}: {one.advice.removesuffix('.')}" in latex(material)
