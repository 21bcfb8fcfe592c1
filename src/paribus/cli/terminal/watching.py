"""A run as it goes: a bar with what matters on a terminal, a line a row elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from paribus.record.rows import NONFINITE
from paribus.report.numbers import NONE, count, duration, score, signed_score, significant, whole_percent

NARROW, NARROWER = 100, 75  # columns under which the bar itself leaves, then the pace, so that the rest stays whole


@dataclass(frozen=True)
class Pace:
    """How fast a run goes between two rows; `share` is that of the device's peak, None where that is not known."""

    tokens_per_second: float
    share: float | None

    def __str__(self) -> str:
        of_peak = "" if self.share is None else f"  {whole_percent(self.share)} of peak"
        return f"{count(round(self.tokens_per_second))} tokens/s{of_peak}"


@dataclass
class Watch:
    """Told of every step and every row."""

    page: Console
    bar: Progress | None
    peak: float | None = None  # FLOP a second
    pace: Pace | None = None
    seen: tuple[float, int, float] = (0.0, 0, 0.0)  # seconds, tokens and FLOPs at the last row
    began: bool = False

    def row(self, row: dict[str, Any]) -> None:
        now = (row["seconds"], row["tokens_read"], row["dense_flops"])
        seconds, tokens, flops = (after - before for after, before in zip(now, self.seen, strict=True))
        self.seen = now
        if seconds > 0:
            self.pace = Pace(tokens / seconds, flops / seconds / self.peak if self.peak else None)
        if self.bar is None or "valid_nats" in row:
            self.page.print(line(row, self.pace))
        if self.bar is not None:
            pace = f"  {self.pace}" if self.pace and self.page.width >= NARROWER else ""
            self.bar.update(self.bar.task_ids[0], said=f"{_number(row, 'nats', score)} nats{pace}")

    def step(self, step: int) -> None:
        if self.bar is None:
            return
        if not self.began:  # the time left is told from here on: not from step 0, where a run was resumed
            self.began = True
            self.bar.reset(self.bar.task_ids[0], completed=step)
            if self.pace is None:
                self.bar.update(self.bar.task_ids[0], said="")
        self.bar.update(self.bar.task_ids[0], completed=step + 1)


@contextmanager
def watched(page: Console, n_steps: int, compiles: bool = False, peak: float | None = None) -> Iterator[Watch]:
    """A watch over a run of so many steps; `compiles` says whether the first one waits for a compiler."""
    if not page.is_terminal:
        yield Watch(page, None, peak)
        return
    with Progress(*_columns(page.width), console=page, transient=True) as bar:
        bar.add_task("train", total=n_steps, said="compiling" if compiles else "")
        yield Watch(page, bar, peak)


class TimeLeft(ProgressColumn):
    """How long a run will take from here; nothing where no step has been timed."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        seconds = task.time_remaining
        return Text("" if seconds is None else f"{duration(seconds)} left", style="progress.remaining")


def _columns(width: int) -> list[ProgressColumn]:
    drawn = [BarColumn(bar_width=20)] if width >= NARROW else []
    said = TextColumn("{task.fields[said]}", markup=False)
    return [TextColumn("step"), MofNCompleteColumn(), *drawn, said, TimeLeft()]


def line(row: dict[str, Any], pace: Pace | None) -> str:
    """A row for a person."""
    valid, gap = _number(row, "valid_nats", score), _number(row, "gap", signed_score)
    held = f"  valid {valid}  gap {gap}" if "valid_nats" in row else ""
    return (
        f"step {row['step'] + 1:>6}  nats {_number(row, 'nats', score)}{held}  "
        f"norm {_number(row, 'gradient_norm', significant)}  rate {significant(row['rate'])}  {pace or ''}"
    )


def _number(row: dict[str, Any], name: str, written: Callable[[float], str]) -> str:
    """A number of a row; `nan`, `inf` or `-inf` where the row holds null for it, – where nothing was asked."""
    value = row.get(name)
    return written(value) if value is not None else row.get(NONFINITE, {}).get(name, NONE)
