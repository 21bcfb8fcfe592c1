"""The progress of a study: one bar over all of its runs, or one line per run if there is no
terminal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from paribus.analyse import column_of, score_of
from paribus.analyse.run_table import outcome_without_score
from paribus.design import Cell
from paribus.design.cell_run import cell_held_out_loss, find_answers, is_complete
from paribus.design.study_watcher import StudyWatcher
from paribus.record import Study, last_row
from paribus.record.file_names import ROWS_FILE
from paribus.report.numbers import format_duration, score
from paribus.watcher import Watcher

POLL = 0.5  # seconds between looks at runs that other processes make


class _CellWatcher(Watcher):
    """Reports the steps of one cell to the bar of its study."""

    def __init__(self, bar: StudyBar, cell: Cell):
        self.bar, self.cell = bar, cell

    def step(self, step: int) -> None:
        self.bar.show_share(self.cell, (step + 1) / self.cell.n_steps)


class StudyBar(StudyWatcher):
    """Follows every run of every round; the time left is that of the FLOPs left, at the pace of
    this process.
    """

    def __init__(self, page: Console, study: Study):
        self.page, self.study = page, study
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[status]}", markup=False),
            console=page,
            transient=True,
            disable=not page.is_terminal,
        )
        self.task = self.bar.add_task("", total=1.0, status="")
        # runs at work, and the share of them that is done
        self.running: dict[str, tuple[Cell, float]] = {}
        # the share of each that an earlier sitting had done
        self.done_before: dict[str, float] = {}
        self.stopped = threading.Event()
        self._reset([], "", 0.0)

    def _reset(self, cells: Sequence[Cell], name: str, later_flops: float) -> None:
        distinct = {cell.name: cell for cell in cells}
        self.round_name, self.n_cells = name, len(distinct)
        self.n_done, self.flops_left, total = 0, 0.0, 0.0
        for cell in distinct.values():
            total += cell.flops
            if is_complete(cell, self.study):
                self.n_done += 1
            else:
                self.flops_left += cell.flops
        self.total = (total + later_flops) or 1.0
        self.flops_left += later_flops
        self.flops_done, self.started_at = 0.0, time.monotonic()

    def begin_round(self, name: str, cells: Sequence[Cell], later_flops: float = 0.0) -> StudyBar:
        """The round that begins now, and the FLOPs of those that come after it."""
        self._reset(cells, name, later_flops)
        if self.n_done:
            self.page.print(
                f"{name}: {self.n_done} of {self.n_cells} runs are there already", style="dim"
            )
        return self

    def begin(self, cell: Cell) -> Watcher:
        share = self._share_done(cell)
        self.running[cell.name], self.done_before[cell.name] = (cell, share), share
        self._show()
        return _CellWatcher(self, cell)

    def show_share(self, cell: Cell, share: float) -> None:
        """Show the share of a running cell that is done."""
        self.running[cell.name] = (cell, share)
        self._show()

    def note(self, text: str) -> None:
        self.page.print(text, style="yellow", soft_wrap=True)

    def put_back(self, cell: Cell) -> None:
        self.running.pop(cell.name, None)
        self.done_before.pop(cell.name, None)
        self._show()

    def end(self, cell: Cell, fault: str | None) -> None:
        self.running.pop(cell.name, None)
        self.flops_done += cell.flops * (1 - self.done_before.pop(cell.name, 0.0))
        self.flops_left -= cell.flops
        self.n_done += fault is None
        outcome = "failed"
        if not fault:
            outcome = self._describe_score(cell)
        place = f"{self.round_name} {self.n_done:>3}/{self.n_cells}"
        self.page.print(f"{place}  {cell}: {outcome}{self._time_left()}", soft_wrap=True)
        self._show()

    def _describe_score(self, cell: Cell) -> str:
        outcome, _ = self.study.run_outcome(cell.name)
        if outcome != "finished":
            return outcome
        if not cell.measures:
            return f"{score(cell_held_out_loss(cell, self.study))} nats on held-out text"
        yardstick = cell.measures[0]
        answers = find_answers(cell, self.study, yardstick)
        if answers is None:
            return "not measured"
        value, unit = score_of(answers), yardstick.scores.unit
        if value is None:
            return ": ".join(outcome_without_score(answers, self.study, cell.name))
        return f"{score(value, unit)} {unit} ({column_of(yardstick.model_dump(mode='json'))})"

    def _time_left(self) -> str:
        """At the pace of this sitting: what an earlier one had done of a run took none of its
        time.
        """
        now_done = done_of_running = 0.0
        for cell, share in self.running.values():
            now_done += cell.flops * (share - self.done_before.get(cell.name, 0.0))
            done_of_running += cell.flops * share
        flops_done = self.flops_done + now_done
        flops_left = self.flops_left - done_of_running
        if flops_done <= 0 or flops_left <= 0:
            return ""
        seconds = (time.monotonic() - self.started_at) / flops_done * flops_left
        return f"  {format_duration(seconds)} left"

    def _show(self) -> None:
        running_flops = sum(cell.flops * share for cell, share in self.running.values())
        flops_done = self.total - self.flops_left + running_flops
        now = ", ".join(str(cell) for cell, _ in list(self.running.values())[:2])
        self.bar.update(
            self.task,
            description=f"{self.round_name} {self.n_done}/{self.n_cells}",
            completed=flops_done / self.total,
            status=f"{now}{self._time_left()}",
        )

    def _poll(self) -> None:
        """How far runs of other processes are, from their rows."""
        while not self.stopped.wait(POLL):
            for name, (cell, share) in list(self.running.items()):
                recorded_share = self._share_done(cell)
                if name in self.running:
                    self.running[name] = (cell, max(share, recorded_share))
            self._show()

    def _share_done(self, cell: Cell) -> float:
        path = self.study.root / cell.name / ROWS_FILE
        if not path.exists():
            return 0.0
        row = last_row(path)
        if row is None:
            return 0.0
        return (row["step"] + 1) / cell.n_steps

    def __enter__(self) -> StudyBar:
        self.bar.start()
        self.poller = threading.Thread(target=self._poll, daemon=True)
        if self.page.is_terminal:
            self.poller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stopped.set()
        self.bar.stop()
