"""What probes found, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from paribus.cli.terminal.training_bar import print_note
from paribus.escapes import SafeConsole
from paribus.record.probe_rows import ProbeRow
from paribus.report.numbers import DASH, significant, true_minus
from paribus.watcher import Watcher

# curves over these are drawn, not listed
DRAWN = ("expert", "number of the singular value")
LAYER = "layer"


@dataclass
class ProbeBar(Watcher):
    """A bar for each probe, and what it will cost before it begins."""

    page: Console
    bar: Progress | None

    def note(self, text: str) -> None:
        print_note(self.page, text)

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[None]:
        task = None
        if self.bar is not None:
            task = self.bar.add_task(name, total=total)
        yield
        if self.bar is not None and task is not None:
            self.bar.remove_task(task)

    def advance(self, amount: int) -> None:
        if self.bar is not None and self.bar.task_ids:
            self.bar.advance(self.bar.task_ids[-1], amount)


@contextmanager
def probe_bar(name: str) -> Iterator[ProbeBar]:
    """The progress of probes of a run, on standard error; without a bar where that is no
    terminal.
    """
    page = SafeConsole(file=sys.stderr)
    if not page.is_terminal:
        yield ProbeBar(page, None)
        return
    columns = (TextColumn(f"{name} {{task.description}}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=page, transient=True) as bar:
        yield ProbeBar(page, bar)


def probe_table(rows: Mapping[str, Sequence[ProbeRow]]) -> Table:
    """The mean of each quantity over layers and heads, or over a curve, with the lowest and the
    highest, and with the first and the last layer or point.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("run", "probe", "where", "variant", "quantity"):
        table.add_column(column)
    for column in ("mean", "lowest", "highest"):
        table.add_column(column, justify="right")
    table.add_column("over")
    for column in ("first", "last"):
        table.add_column(column, justify="right")
    for run, own in rows.items():
        for group in _groups(own):
            table.add_row(run, *_heading(group[0]), *_numbers(group))
    return table


def _groups(rows: Sequence[ProbeRow]) -> list[list[ProbeRow]]:
    """The rows of each line: of one quantity in one place, and over one axis."""
    groups: dict[tuple[str, ...], list[ProbeRow]] = {}
    for row in rows:
        if row.x_name not in DRAWN:
            groups.setdefault((*_heading(row), row.x_name), []).append(row)
    return list(groups.values())


def _heading(row: ProbeRow) -> tuple[str, ...]:
    """The probe, the place, the variant and the quantity."""
    where = " ".join(filter(None, (row.stack, row.branch)))
    return (row.probe, where or DASH, row.variant or DASH, row.quantity)


def _numbers(group: Sequence[ProbeRow]) -> Iterator[str]:
    values = [row.value for row in group]
    yield _number(fmean(values))
    if len(values) > 1:
        yield _number(min(values))
        yield _number(max(values))
    else:
        yield from (DASH, DASH)
    points = _points(group)
    if len(points) > 1:
        yield group[0].x_name or LAYER
        yield _number(fmean(points[min(points)]))
        yield _number(fmean(points[max(points)]))
    else:
        yield from (DASH, DASH, DASH)


def _number(value: float) -> str:
    return true_minus(significant(value))


def _points(group: Sequence[ProbeRow]) -> dict[float, list[float]]:
    """The values of each layer, or of each point of a curve."""
    points: dict[float, list[float]] = {}
    for row in group:
        point = row.x if row.x_name else row.layer
        if point is not None:
            points.setdefault(point, []).append(row.value)
    return points
