"""Run a small study in a few minutes, from the design to the report.

Does a decoder write better when it reads its input in both directions? Three arms ("causal",
"prefix", and one that cannot see the input and must come out worse) learn to translate an invented
language. The same command resumes an interrupted study. The exit status is that of `paribus run`.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from paribus.cli import report
from paribus.cli import run as running
from paribus.cli.terminal.arguments import OPEN_HELP
from paribus.cli.terminal.console import print_notes
from paribus.cli.terminal.folders import RUNS, CacheOption, DeviceOption, RunsOption
from paribus.report.formats import missing_package
from paribus.runtime import select_device
from paribus.workspace import Execution, Workspace

DESIGN, SCALE = "bidirectional-input", "laptop"
STUDY = f"{DESIGN}-{SCALE}"


def demo(workspace: Workspace | None = None) -> Path:
    """Run or resume the demonstration; the file of its report."""
    kind = best_format()
    workspace = workspace or Workspace()
    running.run(DESIGN, scale=SCALE, execution=_one_run_per_core(workspace))
    return report.write_report(STUDY, runs=workspace.runs_folder, formats=kind)[0]


def command(
    runs: RunsOption = RUNS,
    cache: CacheOption = None,
    device: DeviceOption = None,
    open_it: Annotated[bool, typer.Option("--open", help=OPEN_HELP)] = False,
) -> None:
    kind = best_format()
    execution = _one_run_per_core(Workspace(runs, cache, device))
    running.run_and_print(DESIGN, scale=SCALE, execution=execution)
    report.command(STUDY, runs=runs, format=kind, open_it=open_it)


def best_format() -> str:
    """html, or md if packages for the page are missing; a note says so before the runs begin."""
    lack = missing_package("html")
    if lack is None:
        return "html"
    print_notes(
        f"{lack}; the report is written as Markdown, and `paribus report {STUDY}` makes the page"
        " later"
    )
    return "md"


def _one_run_per_core(workspace: Workspace) -> Execution:
    return Execution(workspace, n_jobs(workspace.device))


def n_jobs(device: str | None) -> int:
    """One run per core on a CPU, one run at a time elsewhere."""
    if select_device(device).type != "cpu":
        return 1
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
