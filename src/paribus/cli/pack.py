"""Pack a study into one file, so that a colleague can read its report or continue it.

The file holds the plan, the cells, the rows, items, answers and probe rows of all runs, with a list
of the sha256 of each; with --weights also the last checkpoint of each run. It has no absolute
paths, and no name of a host or a user; the environment of each run (versions, processor, threads)
stays, for it decides its numbers. The same study gives the same bytes. A study that is not finished
is continued from its checkpoints: pack it with --weights. `paribus unpack` reads the file.
"""

from pathlib import Path
from typing import Annotated

import typer

from paribus.cli.terminal.arguments import STUDY_HELP
from paribus.cli.terminal.console import console, print_notes
from paribus.cli.terminal.folders import RUNS, RunsOption
from paribus.record import existing_study
from paribus.record.file_names import PACK_SUFFIX
from paribus.record.pack import PackSummary, write_pack
from paribus.report.numbers import format_plural, format_size

OUT_HELP = f"File to write; by default STUDY{PACK_SUFFIX} in the current folder."
WEIGHTS_HELP = "Also the last checkpoint of each run."


def pack(
    study: str,
    *,
    runs: str | Path = RUNS,
    weights: bool = False,
    out: str | Path | None = None,
) -> PackSummary:
    """Write a study into one file; what was packed."""
    path = Path(f"{study}{PACK_SUFFIX}") if out is None else Path(out)
    return write_pack(existing_study(Path(runs), study), path, weights)


def command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help=STUDY_HELP)],
    runs: RunsOption = RUNS,
    weights: Annotated[bool, typer.Option("--weights", help=WEIGHTS_HELP)] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help=OUT_HELP)] = None,
) -> None:
    summary = pack(study, runs=runs, weights=weights, out=out)
    if summary.n_open_runs and not weights:
        print_notes(
            f"{study} has {format_plural(summary.n_open_runs, 'run')} to do; to continue it"
            " elsewhere, pack it with --weights"
        )
    if summary.n_without_weights:
        runs_without = format_plural(summary.n_without_weights, "run")
        print_notes(f"{runs_without} without a checkpoint, such as one that diverged at once")
    console().print(
        f"{summary.path}: {format_plural(summary.n_files, 'file')} of"
        f" {format_plural(summary.n_runs, 'run')}, {format_size(summary.n_bytes)}",
        soft_wrap=True,
        highlight=False,
    )
