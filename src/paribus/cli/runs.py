"""List all runs: the state of each, its step and its scores.


A run of several stages is shown as one: each later stage below the one it begins from. Stages that
runs share are shown once. A run whose first stage began from a checkpoint names it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from paribus.cli.terminal.arguments import JsonOption
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.folders import RunsOption
from paribus.record import RunEntry, read_stages, run_name
from paribus.record import runs as run_entries
from paribus.record.address import run_address
from paribus.report.numbers import DASH, score

RUN_HEADINGS = ("run", "state", "objective", "mask")
Stage = dict[str, Any]  # as it is on record
EntryStages = tuple[RunEntry, list[Stage]]


def command(runs: RunsOption = Path("runs"), json: JsonOption = False) -> None:
    entries: list[RunEntry] = []
    if runs.is_dir():
        entries = list(run_entries(runs))
    if json:
        print_json([_entry_json(entry) for entry in entries])
        return
    page = console()
    if not entries:
        page.print(f"no runs in {runs}; `paribus train SPEC` makes one", soft_wrap=True)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    listing = [_entry_stages(entry) for entry in entries]
    by_stage = any(len(stages) > 1 for _, stages in listing)
    headings = ["run", "stage", "state", "objective", "mask"] if by_stage else [*RUN_HEADINGS]
    by_begin = any(_begin_name(stages) for _, stages in listing)
    if by_begin:
        headings.insert(1, "begins from")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for heading in ("step", "of", "nats", "valid"):
        table.add_column(heading, justify="right", no_wrap=True)
    for depth, entry, stages in _tree(listing):
        name, *cells = _entry_cells(entry, stages, depth, by_stage)
        if by_begin:
            # a later stage begins from the one above it
            cells.insert(0, DASH if depth else _begin_name(stages) or DASH)
        table.add_row(name, *cells)
    page.print(table)
    for entry in entries:
        for fault in entry.faults:
            page.print(f"{entry.name}: {fault}", style="yellow", soft_wrap=True)


def _entry_stages(entry: RunEntry) -> EntryStages:
    """A run with its stages; none where they cannot be read."""
    return entry, [] if entry.faults else read_stages(entry.folder)


def _begin_name(stages: list[Stage]) -> str | None:
    """What the checkpoint is called that a chain began with; None for initial weights."""
    begin = stages[0].get("begin") if stages else None
    if isinstance(begin, dict):
        return str(begin.get("name"))
    return None


def _tree(listing: Sequence[EntryStages]) -> Iterator[tuple[int, RunEntry, list[Stage]]]:
    """Every run after the one that it begins from, and how deep it lies below the first."""
    addresses = {run_address(stages) for _, stages in listing if stages}
    children: dict[str | None, list[EntryStages]] = {}
    for entry, stages in listing:
        parent = run_address(stages[:-1]) if len(stages) > 1 else None
        if parent not in addresses:
            parent = None
        children.setdefault(parent, []).append((entry, stages))

    def below(address: str | None, depth: int) -> Iterator[tuple[int, RunEntry, list[Stage]]]:
        for entry, stages in children.get(address, ()):
            yield depth, entry, stages
            if stages:
                yield from below(run_address(stages), depth + 1)

    return below(None, 0)


def _entry_cells(
    entry: RunEntry, stages: list[Stage], depth: int, by_stage: bool
) -> tuple[str, ...]:
    last = entry.last_row or {}
    stage: Stage = {}
    if stages:
        stage = stages[-1]
    name, kind = entry.name, ()
    if depth:
        name = f"{'  ' * (depth - 1)}└ {entry.name}"
    if by_stage:
        kind = (str(stage.get("kind", DASH)),)
    return (
        name,
        *kind,
        _describe_state(entry),
        _stage_value(stage, "objective", "kind"),
        _stage_value(stage, "architecture", "mask"),
        str(last.get("step", -1) + 1),
        _stage_value(stage, "training", "n_steps"),
        score(last.get("nats")),
        score(last.get("valid_nats")),
    )


def _describe_state(entry: RunEntry) -> str:
    state = str(entry.state)
    if entry.faults:
        state += ", damaged"
    if entry.reason:
        state += f": {entry.reason}"
    return state


def _stage_value(stage: dict[str, Any], table: str, name: str) -> str:
    """A value of one of a stage's tables; a dash where there is none."""
    fields = stage.get(table)
    if isinstance(fields, dict):
        return str(fields.get(name, DASH))
    return DASH


def _entry_json(entry: RunEntry) -> dict[str, Any]:
    _, stages = _entry_stages(entry)
    return {
        "name": entry.name,
        "stages": [stage.get("kind") for stage in stages],
        "parent": run_name(stages[:-1]) if len(stages) > 1 else None,
        "begin": stages[0].get("begin") if stages else None,
        "state": entry.state,
        "reason": entry.reason,
        "last": entry.last_row,
        "faults": entry.faults,
    }
