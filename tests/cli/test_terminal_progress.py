"""A study as it goes, on a terminal and in a pipe, and a plan on the page."""

import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from little_study import RATE, plan_of
from paribus.cli.terminal.control import print_control, written
from paribus.cli.terminal.progress import POLL, Showing
from paribus.design.cells import Cell, reported_cells
from paribus.record import ControlLine, Mark, study
from paribus.record.state import write_state


def page(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, highlight=False, color_system=None)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def cells(study_cache: Path) -> tuple[Cell, ...]:
    plan = plan_of(study_cache, {"base.training.n_steps": 6})
    return reported_cells(plan, {arm.name: RATE for arm in plan.arms})


def test_a_pipe_gets_a_line_a_run_and_nothing_else(cells: tuple[Cell, ...], tmp_path: Path) -> None:
    console = page(terminal=False)
    with Showing(console, study(tmp_path, "one")) as showing:
        stage = showing.stage("runs", cells)
        for cell, fault in ((cells[0], None), (cells[1], "no space left")):
            stage.begin(cell)
            stage.step(cell, 3)
            stage.end(cell, fault)
    first, second = said(console).splitlines()
    assert first.startswith("runs   1/9  full, seed 1: open  ")
    assert first.endswith(" left")
    assert second.startswith("runs   1/9  reverse, seed 1: failed  ")


def test_a_terminal_gets_a_bar_that_follows_other_processes(cells: tuple[Cell, ...], tmp_path: Path) -> None:
    console, kept = page(terminal=True), study(tmp_path, "one")
    folder = tmp_path / cells[0].name
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"step": 2}\n')
    with Showing(console, kept) as showing:
        showing.stage("runs", cells).begin(cells[0])
        deadline = time.monotonic() + 60 * POLL
        while showing.open[cells[0].name][1] == 0 and time.monotonic() < deadline:
            time.sleep(POLL / 10)
        assert showing.open[cells[0].name][1] == 0.5
    assert "runs 0/9" in said(console)
    assert "full, seed 1" in said(console)


def test_work_that_costs_nothing_is_shown_without_a_time(cells: tuple[Cell, ...], tmp_path: Path) -> None:
    free, console = replace(cells[0], flops=0.0), page(terminal=False)
    with Showing(console, study(tmp_path, "one")) as showing:
        stage = showing.stage("runs", [free])
        stage.begin(free)
        stage.end(free, None)
    assert said(console) == "runs   1/1  full, seed 1: open\n"


def test_values_of_the_table_are_short() -> None:
    assert written("training_flops", [1.5e9]) == ["1.5 GFLOP"]
    assert written("tokens_read in all", [1_234_567]) == ["1.23M"]
    assert written("training.seed", [1_234_567]) == ["1234567"]
    assert written("architecture.head.tied", [True]) == ["true"]


def test_values_of_a_line_that_differ_look_different() -> None:
    assert written("parameters", [123_456, 123_457, "absent"]) == ["123.456k", "123.457k", "absent"]
    assert written("training_flops", [1.5e9, 1.5e9]) == ["1.5 GFLOP", "1.5 GFLOP"]


def test_what_differs_comes_first_and_what_is_equal_is_counted() -> None:
    lines = [
        ControlLine("a", Mark.EQUAL, {"x": 1, "y": 1}),
        ControlLine("b", Mark.FACTOR, {"x": 1, "y": 2}),
        ControlLine("c", Mark.CONFOUND, {"x": 1, "y": 2}, "", "so"),
    ]
    console = page(terminal=False)
    print_control(lines, console, every=False)
    told = said(console).splitlines()
    assert [line.split()[:2] for line in told[1:3]] == [["✗", "c"], ["Δ", "b"]]
    assert told[1].rstrip().endswith("allowed: so")
    assert told[3].startswith("✓  1 other fields and quantities are equal")


def test_what_an_earlier_sitting_did_takes_no_time_of_this_one(cells: tuple[Cell, ...], tmp_path: Path) -> None:
    folder = tmp_path / cells[0].name
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"step": 2}\n')
    showing = Showing(page(terminal=False), study(tmp_path, "one"))
    stage = showing.stage("runs", cells[:1], later=cells[0].flops)
    stage.begin(cells[0])
    assert showing._remaining() == ""
    showing.since = time.monotonic() - 10
    stage.step(cells[0], 4)  # one of six steps in ten seconds: two are left of this run, six of what comes after
    assert showing._remaining() == "  80 s left"
    stage.end(cells[0], None)
    assert showing.spent == pytest.approx(cells[0].flops / 2)


def test_a_run_that_was_trained_and_not_measured_is_not_called_diverged(
    cells: tuple[Cell, ...], tmp_path: Path
) -> None:
    console = page(terminal=False)
    folder = tmp_path / cells[0].name
    folder.mkdir()
    (folder / "rows.jsonl").write_text(json.dumps({"step": cells[0].n_steps - 1}) + "\n")
    write_state(folder / "state", "finished")
    Showing(console, study(tmp_path, "one")).stage("runs", cells[:1]).end(cells[0], None)
    assert "full, seed 1: not measured" in said(console)
