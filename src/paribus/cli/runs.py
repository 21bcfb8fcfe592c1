"""List all runs: the state of each, its step and its scores."""

from pathlib import Path
from typing import Any

from rich.table import Table

from paribus.cli.terminal.arguments import JsonOption
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.folders import RunsOption
from paribus.record import RunEntry, read_stages
from paribus.record import runs as run_entries
from paribus.report.numbers import DASH, score


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
    for heading in ("run", "state", "objective", "mask"):
        table.add_column(heading, no_wrap=True)
    for heading in ("step", "of", "nats", "valid"):
        table.add_column(heading, justify="right", no_wrap=True)
    for entry in entries:
        table.add_row(*_entry_cells(entry))
    page.print(table)
    for entry in entries:
        for fault in entry.faults:
            page.print(f"{entry.name}: {fault}", style="yellow", soft_wrap=True)


def _entry_cells(entry: RunEntry) -> tuple[str, ...]:
    last = entry.last_row or {}
    stage: dict[str, Any] = {}
    if not entry.faults:
        stage = read_stages(entry.folder)[-1]
    step = str(last.get("step", -1) + 1)
    of = _stage_value(stage, "training", "n_steps")
    mask = _stage_value(stage, "architecture", "mask")
    nats, valid = score(last.get("nats")), score(last.get("valid_nats"))
    return (
        entry.name,
        _describe_state(entry),
        _stage_value(stage, "objective", "kind"),
        mask,
        step,
        of,
        nats,
        valid,
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
    return {
        "name": entry.name,
        "state": entry.state,
        "reason": entry.reason,
        "last": entry.last_row,
        "faults": entry.faults,
    }
