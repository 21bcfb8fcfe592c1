"""Print the rows of a study, one per run: its arm, seed, learning rate, outcome and scores."""

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from paribus.analyse import RowTable
from paribus.analyse import study_rows as rows_of
from paribus.analyse import study_verdicts as verdicts_of
from paribus.analyse.run_table import ENDED_OUTCOMES
from paribus.cli.terminal.arguments import STUDY_HELP, JsonOption
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.folders import RUNS, RunsOption
from paribus.cli.terminal.results_table import print_results
from paribus.errors import SpecError
from paribus.record import existing_study, require_study_integrity
from paribus.record.plan_file import read_plan


def rows(study: str, runs: str | Path = RUNS) -> RowTable:
    """The rows of a study, one per run; `.to_pandas()` if pandas is installed."""
    record = existing_study(Path(runs), study)
    table = rows_of(record)
    ended_runs = [row["run"] for row in table if row["outcome"] in ENDED_OUTCOMES]
    require_study_integrity(record, read_plan(record), ended_runs)
    return table


def verdicts(study: str, runs: str | Path = RUNS) -> RowTable:
    """The verdicts of a study, one row per arm."""
    return verdicts_of(existing_study(Path(runs), study))


def command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help=STUDY_HELP)],
    runs: RunsOption = RUNS,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print comma-separated values, for another program.")
    ] = False,
    json: JsonOption = False,
) -> None:
    if json and as_csv:
        raise SpecError("--csv and --json are both given; choose one of them")
    table = rows(study, runs)
    if json:
        print_json(list(table))
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, table.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    else:
        print_results(table, existing_study(Path(runs), study), console())
