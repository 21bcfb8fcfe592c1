"""A study as it goes, on a terminal and in a pipe, and a plan on the page."""

import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from run_state import write_state
from trained_study import RATE, make_small_plan

from paribus.cli.terminal.plan_tables import format_line, print_control_table
from paribus.cli.terminal.study_bar import POLL, StudyBar
from paribus.design.cells import Cell, reported_cells
from paribus.record import ControlLine, Mark, open_study


def page(terminal: bool) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=120, highlight=False, color_system=None
    )


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def cells(study_cache: Path) -> tuple[Cell, ...]:
    plan = make_small_plan(study_cache, {"base.training.n_steps": 6})
    return reported_cells(plan, {arm.name: RATE for arm in plan.arms})


def test_a_pipe_gets_a_line_a_run_and_nothing_else(cells: tuple[Cell, ...], tmp_path: Path) -> None:
    console = page(terminal=False)
    with StudyBar(console, open_study(tmp_path, "one")) as showing:
        stage = showing.begin_round("runs", cells)
        for cell, fault in ((cells[0], None), (cells[1], "no space left")):
            stage.begin(cell).step(2)
            stage.end(cell, fault)
    first, second = said(console).splitlines()
    assert first.startswith("runs   1/9  full, seed 1: open  ")
    assert first.endswith(" left")
    assert second.startswith("runs   1/9  reverse, seed 1: failed  ")


def test_a_terminal_gets_a_bar_that_follows_other_processes(
    cells: tuple[Cell, ...], tmp_path: Path
) -> None:
    console, kept = page(terminal=True), open_study(tmp_path, "one")
    folder = tmp_path / cells[0].name
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"step": 2}\n')
    with StudyBar(console, kept) as showing:
        showing.begin_round("runs", cells).begin(cells[0])
        deadline = time.monotonic() + 60 * POLL
        while showing.running[cells[0].name][1] == 0 and time.monotonic() < deadline:
            time.sleep(POLL / 10)
        assert showing.running[cells[0].name][1] == 0.5
    assert "runs 0/9" in said(console)
    assert "full, seed 1" in said(console)


def test_work_that_costs_nothing_is_shown_without_a_time(
    cells: tuple[Cell, ...], tmp_path: Path
) -> None:
    free, console = replace(cells[0], flops=0.0), page(terminal=False)
    with StudyBar(console, open_study(tmp_path, "one")) as showing:
        stage = showing.begin_round("runs", [free])
        stage.begin(free)
        stage.end(free, None)
    assert said(console) == "runs   1/1  full, seed 1: open\n"


def test_a_cell_that_waits_again_is_no_longer_shown_as_running(
    cells: tuple[Cell, ...], tmp_path: Path
) -> None:
    with StudyBar(page(terminal=False), open_study(tmp_path, "one")) as showing:
        showing.begin_round("runs", cells).begin(cells[0]).step(2)
        showing.begin(cells[1])
        showing.put_back(cells[0])
        assert list(showing.running) == [cells[1].name]


def test_values_of_the_table_are_short() -> None:
    assert format_line("training_flops", [1.5e9]) == ["1.5 GFLOP"]
    assert format_line("tokens_read in all", [1_234_567]) == ["1.23M"]
    assert format_line("training.seed", [1_234_567]) == ["1234567"]
    assert format_line("architecture.head.tied", [True]) == ["true"]


def test_values_of_a_line_that_differ_look_different() -> None:
    assert format_line("parameters", [123_456, 123_457, "absent"]) == [
        "123.456k",
        "123.457k",
        "absent",
    ]
    assert format_line("training_flops", [1.5e9, 1.5e9]) == ["1.5 GFLOP", "1.5 GFLOP"]


def test_what_differs_comes_first_and_what_is_equal_is_counted() -> None:
    lines = [
        ControlLine("a", Mark.EQUAL, {"x": 1, "y": 1}),
        ControlLine("b", Mark.FACTOR, {"x": 1, "y": 2}),
        ControlLine("c", Mark.CONFOUND, {"x": 1, "y": 2}, "", "so"),
    ]
    console = page(terminal=False)
    print_control_table(lines, console, every=False)
    told = said(console).splitlines()
    assert [line.split()[:2] for line in told[1:3]] == [["✗", "c"], ["Δ", "b"]]
    assert told[1].rstrip().endswith("allowed: so")
    assert told[3].startswith("✓  1 other fields and quantities are equal")


def test_what_an_earlier_sitting_did_takes_no_time_of_this_one(
    cells: tuple[Cell, ...], tmp_path: Path
) -> None:
    folder = tmp_path / cells[0].name
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"step": 2}\n')
    showing = StudyBar(page(terminal=False), open_study(tmp_path, "one"))
    stage = showing.begin_round("runs", cells[:1], later_flops=cells[0].flops)
    watcher = stage.begin(cells[0])
    assert showing._time_left() == ""
    showing.started_at = time.monotonic() - 10
    # one of six steps in ten seconds: two are left of this run, six of what comes after
    watcher.step(3)
    assert showing._time_left() == "  80 s left"
    stage.end(cells[0], None)
    assert showing.flops_done == pytest.approx(cells[0].flops / 2)


def test_a_run_that_was_trained_and_not_measured_is_not_called_diverged(
    cells: tuple[Cell, ...], tmp_path: Path
) -> None:
    console = page(terminal=False)
    folder = tmp_path / cells[0].name
    folder.mkdir()
    (folder / "rows.jsonl").write_text(json.dumps({"step": cells[0].n_steps - 1}) + "\n")
    write_state(folder / "state", "finished")
    StudyBar(console, open_study(tmp_path, "one")).begin_round("runs", cells[:1]).end(
        cells[0], None
    )
    assert "full, seed 1: not measured" in said(console)
