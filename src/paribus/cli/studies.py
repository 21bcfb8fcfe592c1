"""List all studies: the state of each, its runs, what it takes up on disk, and its verdicts.

A study is planned, running, stopped (the same `paribus run` goes on), failed or finished. Of a
finished study the verdict of the primary measure on each arm is printed. Disk use is that of the
study and of all runs that it needs; studies may share runs.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from paribus.analyse import RowTable, study_verdicts
from paribus.cli.terminal.arguments import JsonOption
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.csv_lines import CsvOption, print_csv, require_one_format
from paribus.cli.terminal.folders import RUNS, RunsOption
from paribus.errors import ParibusError
from paribus.record import Study
from paribus.record.study_listing import StudyEntry
from paribus.record.study_listing import studies as study_entries
from paribus.report.numbers import DASH, format_size

_DATE_LETTERS = len("2026-01-31")


def studies(runs: str | Path = RUNS, *, verdicts: bool = True) -> RowTable:
    """All studies, one row each; the verdicts of finished ones unless they are not wanted."""
    rows = [_study_row(entry, Path(runs), verdicts) for entry in study_entries(Path(runs))]
    return RowTable(tuple(rows))


def command(
    runs: RunsOption = RUNS,
    no_verdicts: Annotated[
        bool, typer.Option("--no-verdicts", help="Read no results: faster for large studies.")
    ] = False,
    as_csv: CsvOption = False,
    json: JsonOption = False,
) -> None:
    require_one_format(as_csv, json)
    table = studies(runs, verdicts=not no_verdicts)
    if json:
        print_json(list(table))
    elif as_csv:
        print_csv([{**row, "faults": "; ".join(row["faults"])} for row in table])
    elif not table:
        console().print(f"no studies in {runs}; `paribus run DESIGN` makes one", soft_wrap=True)
    else:
        _print_table(table)


def _study_row(entry: StudyEntry, root: Path, with_verdicts: bool) -> dict[str, Any]:
    faults, verdict = list(entry.faults), None
    if with_verdicts and entry.state == "finished":
        try:
            verdict = _describe_verdicts(Study(root, entry.folder))
        except ParibusError as fault:
            faults.append(str(fault))
    return {
        "study": entry.name,
        "state": entry.state,
        "done": entry.n_done,
        "runs": entry.n_runs,
        "bytes": entry.n_bytes,
        "frozen_at": entry.frozen_at,
        "verdict": verdict,
        "faults": faults,
    }


def _describe_verdicts(study: Study) -> str:
    """The verdict of the primary measure on each arm, the positive control's included; of an arm
    that is judged against several, with each of them.
    """
    rows = [row for row in study_verdicts(study) if row["verdict"] is not None]
    n_pairs = Counter(row["arm"] for row in rows)
    words: list[str] = []
    for row in rows:
        name = row["arm"] or row["contrast"]
        if row["arm"] and n_pairs[row["arm"]] > 1:
            name += f" against {row['against']}"
        words.append(f"{name} {row['verdict']}")
    return ", ".join(words)


def _print_table(table: RowTable) -> None:
    page = console()
    lines = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("study", "state"):
        lines.add_column(heading, no_wrap=True)
    for heading in ("runs", "disk"):
        lines.add_column(heading, justify="right", no_wrap=True)
    lines.add_column("made", no_wrap=True)
    lines.add_column("verdict")
    for row in table:
        frozen_at = row["frozen_at"] or DASH
        lines.add_row(
            row["study"],
            row["state"],
            f"{row['done']}/{row['runs']}",
            format_size(row["bytes"]),
            frozen_at[:_DATE_LETTERS],
            row["verdict"] or DASH,
        )
    page.print(lines)
    for row in table:
        for fault in row["faults"]:
            page.print(f"{row['study']}: {fault}", style="yellow", soft_wrap=True)
