"""Unpack a study that `paribus pack` wrote, into the folder of runs.

Every file is verified before anything is written. What is there already and is the same stays as it
is, so the same pack may be unpacked twice. If a run or the study is there and differs, nothing is
written. Then `paribus report STUDY` writes the report; if the pack has weights, `paribus evaluate`,
`probe`, `generate` and `export` take its runs, and `paribus run DESIGN --name STUDY` continues a
study that is not finished, if the text of the design can be built here.
"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from paribus.cli.terminal.console import console
from paribus.cli.terminal.folders import RUNS, RunsOption
from paribus.record.unpack import UnpackSummary, unpack_study
from paribus.report.numbers import format_plural


def unpack(file: str | Path, runs: str | Path = RUNS) -> UnpackSummary:
    """Lay a packed study among the runs; what it brought."""
    return unpack_study(Path(file), Path(runs))


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `paribus pack` wrote.")],
    runs: RunsOption = RUNS,
) -> None:
    summary = unpack(file, runs)
    name = summary.study.folder.name
    page = console()
    if summary.n_new_folders or summary.n_new_files:
        new = format_plural(summary.n_new_folders, "new folder")
        added = format_plural(summary.n_new_files, "file")
        page.print(
            f"{summary.study.folder}: {new}, and {added} added to others; all"
            f" {summary.n_files} files of the pack are verified",
            soft_wrap=True,
            highlight=False,
        )
    else:
        page.print(
            f"{summary.study.folder}: all {summary.n_files} files of the pack are there already",
            soft_wrap=True,
            highlight=False,
        )
    report = f"paribus report {shlex.quote(name)}"
    if runs != RUNS:
        report += f" --runs {shlex.quote(str(runs))}"
    page.print(f"for the verdict and a page: {report}", soft_wrap=True, highlight=False)
