"""Watch the runs of a study, or all runs, from another terminal.

Of a study that was submitted to SLURM, the column *queue* says how the job of each run stands:
pending with the reason, running, requeued, done, failed, or gone if it left the queue unfinished.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from paribus.cli.terminal.arguments import STUDY_HELP
from paribus.cli.terminal.console import console
from paribus.cli.terminal.folders import RUNS, RunsOption
from paribus.record import CellRecord, RunEntry, existing_study
from paribus.record import runs as entries
from paribus.report.numbers import score, significant
from paribus.slurm.queue import study_queue


def watch(study: str | None = None, runs: str | Path = RUNS) -> Table:
    """The state of the runs of a study, or of all runs, as a table to print."""
    return _state_table(Path(runs), study)


def command(
    study: Annotated[
        str | None, typer.Argument(metavar="STUDY", help=f"{STUDY_HELP} By default, all runs.")
    ] = None,
    runs: RunsOption = RUNS,
    every: Annotated[
        float, typer.Option(min=0.2, metavar="SECONDS", help="Seconds between updates.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the table once and exit.")] = False,
) -> None:
    page = console()
    if once or not page.is_terminal:
        page.print(_state_table(runs, study))
        return
    with Live(_state_table(runs, study), console=page, auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(_state_table(runs, study), refresh=True)


def _state_table(root: Path, study: str | None) -> Table:
    entries_by_name = {entry.name: entry for entry in entries(root)}
    queue = None
    if study is None:
        lines = [_entry_line(entry) for entry in entries_by_name.values()]
    else:
        record = existing_study(root, study)
        lines = _run_lines(record.planned_cells(), entries_by_name)
        queue = study_queue(record.folder)
    order = {"running": 0, "stopped": 1, "failed": 2, "waiting": 3, "finished": 4}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("run", "of", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("step", "nats", "valid"):
        table.add_column(heading, justify="right", no_wrap=True)
    counts = Counter(line[2] for line in lines)
    if queue is not None:
        table.add_column("queue", no_wrap=True)
    for line in sorted(lines, key=lambda line: order.get(line[2], 2)):
        queue_word = () if queue is None else (queue.words.get(line[0], ""),)
        table.add_row(*line, *queue_word)
    summary: list[str] = []
    for state in order:
        if counts[state]:
            summary.append(f"{counts[state]} {state}")
    table.caption = ", ".join(summary) or "no runs"
    if queue is not None and queue.fault is not None:
        table.caption += f"; {queue.fault}"
    return table


def _run_lines(
    cells: Iterable[CellRecord], entries_by_name: Mapping[str, RunEntry]
) -> list[tuple[str, ...]]:
    """One line for each run, with all that it is in the study: a run of a verdict may be one of
    the ladder, too.
    """
    cells_by_run: dict[str, list[CellRecord]] = {}
    for cell in cells:
        cells_by_run.setdefault(cell.run, []).append(cell)
    return [_run_line(own, entries_by_name.get(run)) for run, own in cells_by_run.items()]


def _describe_cell(cell: CellRecord) -> str:
    rate = f", rate {significant(cell.rate)}"
    own = {"length": f", {cell.n_steps} steps"}
    own |= dict.fromkeys(("sweep", "ladder_sweep", "bracket"), rate)
    rung = "" if cell.size is None else f", d_model {cell.size}, {cell.n_steps} steps"
    return f"{cell.arm}, seed {cell.seed}{own.get(cell.purpose, '')}{rung}"


def _run_line(cells: Sequence[CellRecord], entry: RunEntry | None) -> tuple[str, ...]:
    cell = cells[0]
    of = "; ".join(dict.fromkeys(map(_describe_cell, cells)))
    last, state = {}, "waiting"
    if entry is not None:
        last, state = entry.last_row or {}, str(entry.state)
    step = f"{last.get('step', -1) + 1}/{cell.n_steps}"
    return (
        cell.run,
        of,
        state,
        step,
        _format_number(last, "nats"),
        _format_number(last, "valid_nats"),
    )


def _entry_line(entry: RunEntry) -> tuple[str, ...]:
    last = entry.last_row or {}
    step = str(last.get("step", -1) + 1)
    return (
        entry.name,
        "",
        str(entry.state),
        step,
        _format_number(last, "nats"),
        _format_number(last, "valid_nats"),
    )


def _format_number(row: dict[str, Any], name: str) -> str:
    return score(row.get(name))
