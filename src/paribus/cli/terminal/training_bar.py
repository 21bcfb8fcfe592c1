"""The progress of a run: a bar on a terminal, one line per row elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import sub
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from paribus.record.rows import NONFINITE, seconds_without_compiling
from paribus.report.numbers import (
    DASH,
    format_count,
    format_duration,
    score,
    signed_score,
    significant,
    whole_percent,
)
from paribus.watcher import Watcher

# columns under which the bar itself leaves, then the pace, so that the rest stays whole
NARROW, NARROWER = (
    100,
    75,
)


@dataclass(frozen=True)
class Pace:
    """How fast a run is between two rows; `share` is the share of the device's peak, None if the
    peak is not known.
    """

    tokens_per_second: float
    share: float | None

    def __str__(self) -> str:
        if self.share is None:
            of_peak = ""
        else:
            of_peak = f"  {whole_percent(self.share)} of peak"
        return f"{format_count(round(self.tokens_per_second))} tokens/s{of_peak}"


@dataclass
class TrainingBar(Watcher):
    """A bar that goes on with every step, and a line where a row is of interest."""

    page: Console
    bar: Progress | None
    peak: float | None = None  # FLOP a second
    pace: Pace | None = None
    last_totals: tuple[float, int, float] = (
        0.0,
        0,
        0.0,
    )  # seconds without compiling, tokens and FLOPs at the last row
    last_row: dict[str, Any] | None = None
    has_begun: bool = False

    def row(self, row: dict[str, Any]) -> None:
        self.last_row = row
        now = (seconds_without_compiling(row), row["tokens_read"], row["dense_flops"])
        seconds, tokens, flops = map(sub, now, self.last_totals)
        self.last_totals = now
        if seconds > 0:
            self.pace = Pace(tokens / seconds, self._share_of_peak(flops / seconds))
        if self.bar is None or "valid_nats" in row:
            self.page.print(format_row(row, self.pace))
        if self.bar is not None:
            if self.pace and self.page.width >= NARROWER:
                pace = f"  {self.pace}"
            else:
                pace = ""
            self.bar.update(
                self.bar.task_ids[0], status=f"{_format_number(row, 'nats', score)} nats{pace}"
            )

    def _share_of_peak(self, flops_per_second: float) -> float | None:
        if not self.peak:
            return None
        return flops_per_second / self.peak

    def step(self, step: int) -> None:
        if self.bar is None:
            return
        if not self.has_begun:
            # the time left is measured from here on: a resumed run does not begin at step 0
            self.has_begun = True
            self.bar.reset(self.bar.task_ids[0], completed=step)
            if self.pace is None:
                self.bar.update(self.bar.task_ids[0], status="")
        self.bar.update(self.bar.task_ids[0], completed=step + 1)

    def print_compile_time(self) -> None:
        """Print how much of the time of a run was spent compiling, where any was."""
        row = self.last_row
        if row is not None and row.get("compile_seconds"):
            compiling, total = format_duration(row["compile_seconds"]), row["seconds"]
            text = f"compiling took {compiling} of {format_duration(total)}"
            if row.get("compile_wait_seconds"):
                waiting = format_duration(row["compile_wait_seconds"])
                text += f", and {waiting} went to waiting for others who compiled the same code"
            self.page.print(text, soft_wrap=True)

    def note(self, text: str) -> None:
        print_note(self.page, text)


def print_note(page: Console, text: str) -> None:
    """Print something that a person should know of a run."""
    page.print(f"note: {text}", style="dim", soft_wrap=True)


@contextmanager
def training_bar(
    page: Console, n_steps: int, compiles: bool = False, peak: float | None = None
) -> Iterator[TrainingBar]:
    """The bar of a run of so many steps; `compiles` says whether the first step waits for a
    compiler.
    """
    if not page.is_terminal:
        lines = TrainingBar(page=page, bar=None, peak=peak)
        yield lines
        lines.print_compile_time()
        return
    with Progress(*_bar_columns(page.width), console=page, transient=True) as bar:
        status = ""
        if compiles:
            status = "compiling"
        bar.add_task("train", total=n_steps, status=status)
        watch = TrainingBar(page=page, bar=bar, peak=peak)
        yield watch
    watch.print_compile_time()


class TimeLeft(ProgressColumn):
    """How long a run will take from here; nothing where no step has been timed."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        seconds = task.time_remaining
        if seconds is None:
            return Text("")
        return Text(f"{format_duration(seconds)} left", style="progress.remaining")


def _bar_columns(width: int) -> list[ProgressColumn]:
    columns: list[ProgressColumn] = [TextColumn("step"), MofNCompleteColumn()]
    if width >= NARROW:
        columns.append(BarColumn(bar_width=20))
    return [*columns, TextColumn("{task.fields[status]}", markup=False), TimeLeft()]


def format_row(row: dict[str, Any], pace: Pace | None) -> str:
    """A row for a person."""
    valid, gap = _format_number(row, "valid_nats", score), _format_number(row, "gap", signed_score)
    validation = ""
    if "valid_nats" in row:
        validation = f"  valid {valid}  gap {gap}"
    return (
        f"step {row['step'] + 1:>6}  nats {_format_number(row, 'nats', score)}{validation}  norm"
        f" {_format_number(row, 'gradient_norm', significant)}  rate {significant(row['rate'])} "
        f" {pace or ''}"
    )


def _format_number(row: dict[str, Any], name: str, number_format: Callable[[float], str]) -> str:
    """A number of a row; `nan`, `inf` or `-inf` if the row has null for it, – if it has none."""
    value = row.get(name)
    if value is not None:
        return number_format(value)
    return row.get(NONFINITE, {}).get(name, DASH)
