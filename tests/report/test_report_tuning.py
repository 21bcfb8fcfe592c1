"""A verdict that tuning could overturn says so in every format; older sweeps say nothing of it."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from paribus.cli.terminal.verdicts import print_verdicts
from paribus.report.material import Material, gathered
from paribus.report.page import page
from paribus.report.prose import latex, markdown
from paribus.report.rows import verdict_rows
from small_study import GAINS, MANY, made, swept

OVERTURN = "tuning could overturn it"


def _material(root: Path, excess: float | None, gains: dict[str, float] = GAINS) -> Material:
    rates: dict[str, Any] = swept(list(gains))
    for own in rates.values():
        own["grid"] = sorted({rate for rate, _ in own["points"]})
        own["optimum"] = {**own["optimum"], "excess": 1e-9, "fitted": own["grid"][1:4], "interval": [0.0039, 0.0041]}
    rates["prefix"]["optimum"]["excess"] = excess
    return gathered(made(root, gains=gains, rates=rates))


def _terminal(material: Material) -> str:
    written = io.StringIO()
    print_verdicts(material, Console(width=200, file=written))
    return written.getvalue()


@pytest.mark.parametrize("gains", [GAINS, MANY])
def test_the_word_carries_it_in_terminal_page_markdown_and_latex(tmp_path: Path, gains) -> None:
    material = _material(tmp_path, 0.03, gains)
    for text in (_terminal(material), page(material), markdown(material), latex(material)):
        assert OVERTURN in text
    words = markdown(material)
    assert "An error in the arms' rates could move the gain by 0.03 bits per byte, and more seeds do not heal" in words
    assert "| what tuning could move | 0.03 | 1e-09 |" in words
    assert "| learning rate | 0.004; 95 % interval 0.0039 to 0.0041 |" in words
    assert "Tuning could overturn the verdict on prefix." in words


def test_what_tuning_could_move_is_published_with_the_verdicts(tmp_path: Path) -> None:
    rows = verdict_rows(_material(tmp_path, 0.03))
    assert [row["tuning"] for row in rows] == [0.03, 1e-9]
    assert OVERTURN in rows[0]["words"]


def test_a_rate_taken_without_a_parabola_could_overturn_any_word(tmp_path: Path) -> None:
    words = markdown(_material(tmp_path, None))
    assert "What tuning could move is not known: a rate was taken without a parabola." in words
    assert "| what tuning could move | not known | 1e-09 |" in words


def test_a_verdict_that_tuning_cannot_overturn_says_nothing_of_it(tmp_path: Path) -> None:
    material = _material(tmp_path, 1e-9)
    for text in (_terminal(material), page(material), markdown(material), latex(material)):
        assert OVERTURN not in text


def test_a_sweep_of_an_older_study_is_read_as_it_was(tmp_path: Path) -> None:
    material = gathered(made(tmp_path, rates=swept(list(GAINS))))
    assert [arm.movable for arm in material.found.arms] == [None, None]
    assert len(material.found.arms[0].by_rate) == 5
    assert "what tuning could move" not in markdown(material)
    assert OVERTURN not in page(material)
