"""A run as it goes: a bar with what matters on a terminal, a line a row elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from paribus.cli.terminal.numbers import count


@dataclass
class Watch:
    """Told of every step and every row."""

    page: Console
    bar: Progress | None
    speed: float = 0.0
    seen: tuple[float, int] = (0.0, 0)  # seconds and tokens at the last row

    def row(self, row: dict[str, Any]) -> None:
        seconds, tokens = row["seconds"] - self.seen[0], row["tokens_read"] - self.seen[1]
        self.seen = (row["seconds"], row["tokens_read"])
        self.speed = tokens / seconds if seconds > 0 else self.speed
        if self.bar is None or "valid_nats" in row:
            self.page.print(line(row, self.speed))
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], nats=f"{row['nats']:.3f}", speed=count(round(self.speed)))

    def step(self, step: int) -> None:
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=step + 1)


@contextmanager
def watched(page: Console, n_steps: int) -> Iterator[Watch]:
    """A watch over a run of so many steps."""
    if not page.is_terminal:
        yield Watch(page, None)
        return
    columns = (
        TextColumn("step"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[nats]} nats"),
        TextColumn("{task.fields[speed]} tokens/s"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=page, transient=True) as bar:
        bar.add_task("train", total=n_steps, nats="…", speed="…")
        yield Watch(page, bar)


def line(row: dict[str, Any], speed: float) -> str:
    """A row for a person."""
    held = f"  valid {row['valid_nats']:.4f}  gap {row['gap']:+.4f}" if "valid_nats" in row else ""
    return (
        f"step {row['step'] + 1:>6}  nats {row['nats']:.4f}{held}  norm {row['gradient_norm']:.3g}  "
        f"rate {row['rate']:.3g}  {count(round(speed))} tokens/s"
    )
