"""How far a build is: a bar on a terminal, a plain line now and then elsewhere, both on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from paribus.escapes import SafeConsole, escape_unprintable
from paribus.watcher import Watcher

SECONDS_BETWEEN_LINES = 10.0


@dataclass
class Progress(Watcher):
    """One stage after another, each with its amount of work; silent where not `is_shown`."""

    is_shown: bool = False
    _stage: str = ""
    _total: int = 0
    _done: int = 0
    _last_line_time: float = field(default=0.0, repr=False)
    _bar: Bar | None = field(default=None, repr=False)

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[None]:
        """What is being done, and how much of it there is; 0 where that is not known."""
        self._stage, self._total, self._done, self._last_line_time = (
            name,
            total,
            0,
            time.monotonic(),
        )
        console = SafeConsole(stderr=True)
        if not self.is_shown:
            yield
        elif console.is_terminal:
            with _bar(console) as self._bar:
                self._bar.add_task(name, total=total or None)
                yield
            self._bar = None
        else:
            yield
            self.note(f"{name}: done")

    def advance(self, amount: int) -> None:
        if not self.is_shown:
            return
        self._done += amount
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)
        elif time.monotonic() - self._last_line_time > SECONDS_BETWEEN_LINES:
            if self._total:
                share = f"{min(1, self._done / self._total):.0%}"
            else:
                share = f"{self._done:,}"
            self.note(f"{self._stage}: {share}")

    def note(self, text: str) -> None:
        """A line of its own, between stages."""
        if self.is_shown:
            self._last_line_time = time.monotonic()
            print(escape_unprintable(text), file=sys.stderr, flush=True)


def _bar(console: SafeConsole) -> Bar:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
    )
    return Bar(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True
    )
