"""How a run is told while it goes: lines in a pipe, a bar on a terminal."""

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from rich.console import Console
from rich.progress import Task

from paribus.cli.checkup.peak import peak_flops
from paribus.cli.terminal.training_bar import Pace, TimeLeft, _bar_columns, format_row, training_bar


def row(step: int, **more: Any) -> dict[str, Any]:
    held = {
        "seconds": (step + 1) / 2,
        "tokens_read": 1000 * (step + 1),
        "dense_flops": 3e9 * (step + 1),
    }
    return {"step": step, "nats": 2.5, "gradient_norm": 0.75, "rate": 1e-3, **held, **more}


def page(width: int, terminal: bool) -> Console:
    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=terminal,
        color_system=None,
        legacy_windows=False,
    )


def told(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_line_tells_the_pace_and_its_share_of_the_peak():
    console = page(200, terminal=False)
    with training_bar(console, 10, peak=12e9) as watch:
        watch.row(row(0))
        watch.step(0)
        watch.row(row(1, seconds=1.0, valid_nats=2.25, gap=-0.25))
    first, second = told(console).splitlines()
    assert first == "step      1  nats 2.5000  norm 0.75  rate 0.001  2k tokens/s  50 % of peak"
    assert (
        second
        == "step      2  nats 2.5000  valid 2.2500  gap −0.2500  norm 0.75  rate 0.001  2k tokens/s"
        "  50 % of peak"
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_the_pace_leaves_out_what_was_compiled_and_the_end_tells_of_it(terminal):
    console = page(200, terminal)
    with training_bar(console, 10, compiles=True, peak=12e9) as watch:
        for step, compiling in enumerate((40.0, 40.0, 43.0)):
            seconds = (step + 1) / 2 + compiling
            watch.row(row(step, seconds=seconds, compile_seconds=compiling))
            assert str(watch.pace) == "2k tokens/s  50 % of peak"
        assert "compiling took" not in told(console)
    assert told(console).splitlines()[-1].endswith("compiling took 43 s of 44 s")


def test_the_wait_for_others_who_compile_is_told_apart_from_compiling():
    console = page(200, terminal=False)
    with training_bar(console, 10, compiles=True) as watch:
        for step in range(2):
            seconds = (step + 1) / 2 + 43.0
            watch.row(row(step, seconds=seconds, compile_seconds=3.0, compile_wait_seconds=40.0))
            assert str(watch.pace) == "2k tokens/s"
    assert told(console).splitlines()[-1] == (
        "compiling took 3.0 s of 44 s, and 40 s went to waiting for others who compiled the same"
        " code"
    )


def test_a_row_in_which_all_was_compiling_leaves_the_pace_as_it_was():
    with training_bar(page(200, terminal=False), 10) as watch:
        watch.row(row(0, compile_seconds=0.5))
        assert watch.pace is None


def test_a_run_that_ends_early_does_not_sum_up():
    console = page(200, terminal=False)

    def train() -> None:
        with training_bar(console, 10) as watch:
            watch.row(row(0, compile_seconds=0.25))
            raise SystemExit(143)

    with pytest.raises(SystemExit):
        train()
    assert told(console).startswith("step      1")
    assert "compiling" not in told(console)


def test_where_no_peak_is_known_none_is_told():
    assert str(Pace(2000, None)) == "2k tokens/s"
    assert format_row(row(0), None).endswith("rate 0.001  ")


def test_what_is_not_finite_is_told_and_stops_nothing():
    told = {"nats": "nan", "valid_nats": "inf", "gap": "inf"}
    assert "nats nan  valid inf  gap inf" in format_row(
        row(3, nats=None, valid_nats=None, gap=None, nonfinite=told), None
    )


@pytest.mark.parametrize("compiles", [True, False])
def test_a_bar_says_that_the_first_step_is_compiled_only_where_it_is(compiles):
    console = page(120, terminal=True)
    with training_bar(console, 10, compiles=compiles, peak=12e9) as watch:
        assert watch.bar is not None
        (task,) = watch.bar.tasks
        assert task.fields["status"] == ("compiling" if compiles else "")
        watch.step(0)
        assert (task.completed, task.fields["status"]) == (1, "")
        watch.row(row(1))
        watch.step(1)
        assert (task.completed, task.fields["status"]) == (
            2,
            "2.5000 nats  2k tokens/s  50 % of peak",
        )


def test_a_row_before_the_first_step_returns_takes_the_place_of_compiling():
    with training_bar(page(120, terminal=True), 10, compiles=True) as watch:
        assert watch.bar is not None
        watch.row(row(0))
        watch.step(0)
        assert watch.bar.tasks[0].fields["status"] == "2.5000 nats  2k tokens/s"


def test_the_time_left_of_a_resumed_run_is_told_from_where_it_resumed():
    with training_bar(page(120, terminal=True), 1000) as watch:
        assert watch.bar is not None
        watch.step(900)
        watch.step(901)
        (task,) = watch.bar.tasks
        assert task.completed == 902
        assert (
            sum(sample.completed for sample in task._progress) == 2
        )  # what rich reckons the speed from


@pytest.mark.parametrize(
    ("width", "has_bar", "has_pace"), [(120, True, True), (80, False, True), (50, False, False)]
)
def test_a_narrow_terminal_keeps_the_numbers_whole(width, has_bar, has_pace):
    console = page(width, terminal=True)
    with training_bar(console, 100_000, peak=12e9) as watch:
        watch.row(row(70_000))
        watch.step(70_000)
        assert watch.bar is not None
        watch.bar.refresh()
    shown = told(console)
    assert "70001/100000" in shown
    assert "2.5000 nats" in shown
    assert ("━" in shown, "50 % of peak" in shown) == (has_bar, has_pace)
    assert "…" not in shown


def test_the_peak_is_that_of_a_product_which_takes_time():
    peak = peak_flops(torch.device("cpu"), seconds=0.01)
    assert 1e7 < peak < 1e15


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (20.0, "20 s left"), (3.6e6, "41.7 days left")]
)
def test_the_time_left_is_told_in_a_fitting_unit(seconds, text):
    (column,) = (column for column in _bar_columns(120) if isinstance(column, TimeLeft))
    assert str(column.render(cast(Task, SimpleNamespace(time_remaining=seconds)))) == text
