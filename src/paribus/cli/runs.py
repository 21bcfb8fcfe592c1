"""List all runs: the state of each, its step, its scores, its size and what it takes up on disk.

A run of several stages is shown as one: each later stage below the one it begins from. Stages that
runs share are shown once. A run whose first stage began from a checkpoint names it. Runs of studies
have the study, the arm and the seed; an earlier stage has those of the runs that begin from it.
The size is the number of parameters. --study lists the runs of one study, --sort orders the runs
by a column, the largest number first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from paribus.canonical import canonical_json
from paribus.cli.terminal.arguments import STUDY_HELP, JsonOption
from paribus.cli.terminal.console import console, print_json, print_notes
from paribus.cli.terminal.csv_lines import CsvOption, print_csv, require_one_format
from paribus.cli.terminal.folders import RunsOption
from paribus.errors import ParibusError, SpecError
from paribus.record import RunEntry, existing_study, read_stages, run_name
from paribus.record import runs as run_entries
from paribus.record.address import run_address
from paribus.record.disk_use import folder_bytes
from paribus.record.run_references import RunReference, find_references
from paribus.report.numbers import DASH, format_count, format_size, score
from paribus.spec import load, resolve
from paribus.spec.price import count_parameters

RUN_HEADINGS = ("run", "state", "objective", "mask")
STUDY_HEADINGS = ("study", "arm", "seed")
NUMBER_HEADINGS = ("step", "of", "nats", "valid", "size", "disk")
_WORD_COLUMNS = ("name", "study", "arm", "seed", "state")
_NUMBER_COLUMNS = {"steps": "steps", "size": "parameters", "disk": "bytes"}
SORT_COLUMNS = (*_WORD_COLUMNS, *_NUMBER_COLUMNS)
MAX_LISTED = 3  # values of a column that are printed one by one
Stage = dict[str, Any]  # as it is on record
EntryStages = tuple[RunEntry, list[Stage]]
Row = dict[str, Any]


def command(
    runs: RunsOption = Path("runs"),
    study: Annotated[
        str | None,
        typer.Option("--study", metavar="STUDY", help=f"{STUDY_HELP} By default, all runs."),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="COLUMN", help=f"One of {', '.join(SORT_COLUMNS)}."),
    ] = None,
    as_csv: CsvOption = False,
    json: JsonOption = False,
) -> None:
    require_one_format(as_csv, json)
    if sort is not None and sort not in SORT_COLUMNS:
        raise SpecError(f"--sort is {sort!r}; use one of {', '.join(SORT_COLUMNS)}")
    if study is not None:
        existing_study(runs, study)
    references = find_references(runs)
    listing: list[EntryStages] = []
    for entry in run_entries(runs):
        own = references.by_run.get(entry.name, [])
        if study is None or any(one.study == study for one in own):
            listing.append(_entry_stages(entry))
    rows = _rows(listing, references.by_run, study)
    if sort is not None:
        listing.sort(key=lambda one: _sort_key(rows[one[0].name], sort))
    if json:
        print_json([_entry_json(*one, rows[one[0].name]) for one in listing])
    elif as_csv:
        print_csv([_csv_row(rows[entry.name]) for entry, _ in listing])
    else:
        _print_table(listing, rows, runs, study, is_tree=sort is None)
        print_notes(*references.faults)


def _print_table(
    listing: Sequence[EntryStages],
    rows: Mapping[str, Row],
    runs: Path,
    study: str | None,
    is_tree: bool,
) -> None:
    page = console()
    if not listing and study is not None:
        page.print(f"no run of {study} was begun; `paribus run` makes them", soft_wrap=True)
        return
    if not listing:
        page.print(f"no runs in {runs}; `paribus train SPEC` makes one", soft_wrap=True)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    by_stage = any(len(stages) > 1 for _, stages in listing)
    headings = ["run", "stage", "state", "objective", "mask"] if by_stage else [*RUN_HEADINGS]
    by_begin = any(_begin_name(stages) for _, stages in listing)
    if by_begin:
        headings.insert(1, "begins from")
    by_study = any(rows[entry.name]["studies"] for entry, _ in listing)
    if by_study:
        headings[1:1] = STUDY_HEADINGS
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for heading in NUMBER_HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    lines = _tree(listing) if is_tree else ((0, *one) for one in listing)
    for depth, entry, stages in lines:
        row = rows[entry.name]
        name, *cells = _entry_cells(entry, stages, depth, by_stage)
        if by_begin:
            # a later stage begins from the one above it
            cells.insert(0, DASH if depth else _begin_name(stages) or DASH)
        if by_study:
            cells[0:0] = [_join_values(row, heading) for heading in STUDY_HEADINGS]
        size = DASH if row["parameters"] is None else format_count(row["parameters"])
        table.add_row(name, *cells, size, format_size(row["bytes"]))
    page.print(table)
    for entry, _ in listing:
        for fault in entry.faults:
            page.print(f"{entry.name}: {fault}", style="yellow", soft_wrap=True)


def _rows(
    listing: Sequence[EntryStages],
    references: Mapping[str, Sequence[RunReference]],
    study: str | None,
) -> dict[str, Row]:
    """What is counted of each run, by its name; the references of one study where one is named."""
    rows: dict[str, Row] = {}
    sizes: dict[str, int | None] = {}
    for entry, stages in listing:
        own = [one for one in references.get(entry.name, ()) if study is None or one.study == study]
        rows[entry.name] = {
            "name": entry.name,
            "studies": own,
            "state": entry.state,
            "reason": entry.reason,
            "steps": (entry.last_row or {}).get("step", -1) + 1,
            "parameters": _n_parameters(stages, sizes),
            "bytes": folder_bytes(entry.folder),
        }
    return rows


def _n_parameters(stages: Sequence[Stage], known_sizes: dict[str, int | None]) -> int | None:
    """The parameters of the last stage's architecture; None where it cannot be read."""
    architecture = stages[-1].get("architecture") if stages else None
    if not isinstance(architecture, dict):
        return None
    key = canonical_json(architecture)
    if key not in known_sizes:
        try:
            known_sizes[key] = count_parameters(resolve(load(architecture))).total
        except ParibusError:
            known_sizes[key] = None
    return known_sizes[key]


def _values(row: Row, heading: str) -> list[Any]:
    """The studies, arms or seeds that a run is of, each once."""
    return list(dict.fromkeys(getattr(one, heading) for one in row["studies"]))


def _join_values(row: Row, heading: str) -> str:
    values = [str(value) for value in _values(row, heading)]
    if len(values) > MAX_LISTED:
        return f"{len(values)} of them"
    return ", ".join(values) or DASH


def _sort_key(row: Row, column: str) -> tuple[Any, ...]:
    """The largest number first; words in their order, and runs of no study last."""
    if column in _NUMBER_COLUMNS:
        return (-(row[_NUMBER_COLUMNS[column]] or 0), row["name"])
    if column in STUDY_HEADINGS:
        values = _values(row, column)
        return (not values, values, row["name"])
    return (str(row[column]), row["name"])


def _csv_row(row: Row) -> Row:
    own = {heading: " ".join(map(str, _values(row, heading))) for heading in STUDY_HEADINGS}
    rest = {name: value for name, value in row.items() if name not in ("name", "studies")}
    return {"run": row["name"], **own, **rest}


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


def _entry_json(entry: RunEntry, stages: list[Stage], row: Row) -> dict[str, Any]:
    return {
        "name": entry.name,
        "stages": [stage.get("kind") for stage in stages],
        "parent": run_name(stages[:-1]) if len(stages) > 1 else None,
        "begin": stages[0].get("begin") if stages else None,
        "state": entry.state,
        "reason": entry.reason,
        "last": entry.last_row,
        "studies": [asdict(one) for one in row["studies"]],
        "steps": row["steps"],
        "parameters": row["parameters"],
        "bytes": row["bytes"],
        "faults": entry.faults,
    }
