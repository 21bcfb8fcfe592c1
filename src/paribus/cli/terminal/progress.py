"""A whole study as it goes: one bar over all of its runs, or a line a run where there is no terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from paribus.analyse import name_of, value_of
from paribus.analyse.rows import unlearnt
from paribus.design import Cell
from paribus.design.perform import answer, settled
from paribus.record import Study, last_row
from paribus.record.file_names import ROWS_FILE
from paribus.report.numbers import duration, score

POLL = 0.5  # seconds between looks at runs that other processes make


class Showing:
    """Told of every run of every stage; the time left is of the FLOPs left, at the pace of this sitting."""

    def __init__(self, page: Console, study: Study):
        self.page, self.study = page, study
        self.bar = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
            TextColumn("{task.fields[said]}", markup=False),
            console=page, transient=True, disable=not page.is_terminal,
        )  # fmt: skip
        self.task = self.bar.add_task("", total=1.0, said="")
        self.open: dict[str, tuple[Cell, float]] = {}  # runs at work, and the share of them that is done
        self.before: dict[str, float] = {}  # the share of each that an earlier sitting had done
        self.ended = threading.Event()
        self._begin([], "", 0.0)

    def _begin(self, cells: Sequence[Cell], stage: str, later: float) -> None:
        distinct = {cell.name: cell for cell in cells}
        self.name, self.n_cells = stage, len(distinct)
        todo = [cell for cell in distinct.values() if not settled(cell, self.study)]
        self.n_done, self.left = len(distinct) - len(todo), sum(cell.flops for cell in todo)
        self.total = (sum(cell.flops for cell in distinct.values()) + later) or 1.0
        self.left += later
        self.spent, self.since = 0.0, time.monotonic()

    def stage(self, name: str, cells: Sequence[Cell], later: float = 0.0) -> Showing:
        """The stage that begins now, and the FLOPs of those that come after it."""
        self._begin(cells, name, later)
        if self.n_done:
            self.page.print(f"{name}: {self.n_done} of {self.n_cells} runs are there already", style="dim")
        return self

    def begin(self, cell: Cell) -> None:
        done = self._share(cell)
        self.open[cell.name], self.before[cell.name] = (cell, done), done
        self._show()

    def step(self, cell: Cell, n: int) -> None:
        self.open[cell.name] = (cell, n / cell.n_steps)
        self._show()

    def end(self, cell: Cell, fault: str | None) -> None:
        self.open.pop(cell.name, None)
        self.spent += cell.flops * (1 - self.before.pop(cell.name, 0.0))
        self.left -= cell.flops
        self.n_done += fault is None
        said = "failed" if fault else self._scored(cell)
        self.page.print(
            f"{self.name} {self.n_done:>3}/{self.n_cells}  {cell}: {said}{self._remaining()}", soft_wrap=True
        )
        self._show()

    def _scored(self, cell: Cell) -> str:
        outcome, _ = self.study.outcome(cell.name)
        if outcome != "finished":
            return outcome
        found = answer(cell, self.study, cell.measures[0])
        if found is None:
            return "not measured"
        value = value_of(found)
        if value is None:
            return ": ".join(unlearnt(found, self.study, cell.name))
        return f"{score(value)} bits per byte ({name_of(found.head.yardstick)})"

    def _remaining(self) -> str:
        """At the pace of this sitting: what an earlier one had done of a run took none of its time."""
        at_work = [(cell.flops, share, self.before.get(cell.name, 0.0)) for cell, share in self.open.values()]
        done = self.spent + sum(flops * (share - before) for flops, share, before in at_work)
        left = self.left - sum(flops * share for flops, share, _ in at_work)
        if done <= 0 or left <= 0:
            return ""
        return f"  {duration((time.monotonic() - self.since) / done * left)} left"

    def _show(self) -> None:
        done = self.total - self.left + sum(cell.flops * share for cell, share in self.open.values())
        now = ", ".join(str(cell) for cell, _ in list(self.open.values())[:2])
        self.bar.update(
            self.task, description=f"{self.name} {self.n_done}/{self.n_cells}", completed=done / self.total,
            said=f"{now}{self._remaining()}",
        )  # fmt: skip

    def _poll(self) -> None:
        """How far runs of other processes are, from their rows."""
        while not self.ended.wait(POLL):
            for name, (cell, share) in list(self.open.items()):
                seen = self._share(cell)
                if name in self.open:
                    self.open[name] = (cell, max(share, seen))
            self._show()

    def _share(self, cell: Cell) -> float:
        path = self.study.root / cell.name / ROWS_FILE
        row = last_row(path) if path.exists() else None
        return 0.0 if row is None else (row["step"] + 1) / cell.n_steps

    def __enter__(self) -> Showing:
        self.bar.start()
        self.poller = threading.Thread(target=self._poll, daemon=True)
        if self.page.is_terminal:
            self.poller.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        self.ended.set()
        self.bar.stop()
