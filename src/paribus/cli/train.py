"""Train a run, or go on with one: the same command resumes.

SPEC is a TOML or JSON file with the tables architecture, corpus, objective and training. A run is kept under the
fingerprint of its spec, so the same spec finds its own run again. Ctrl-C and SIGTERM save it first.
"""

from pathlib import Path
from typing import Annotated

import typer

from paribus.cli.terminal.arguments import Settings, changes
from paribus.cli.terminal.console import console
from paribus.cli.terminal.folders import Cache, Runs
from paribus.cli.terminal.watching import watched
from paribus.corpus import build
from paribus.runtime import device_named
from paribus.spec.run import load_run
from paribus.train.loop import train
from paribus.train.ranks import joined


def command(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A .toml or .json file that describes the run.")],
    settings: Settings = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Instead of the fingerprint.")] = None,
    runs: Runs = Path("runs"),
    cache: Cache = None,
    device: Annotated[str | None, typer.Option(metavar="DEVICE", help="cpu, cuda or mps; by default the best.")] = None,
    accept_environment: Annotated[
        bool, typer.Option("--accept-environment", help="Go on under other versions or threads; rows are marked.")
    ] = False,
) -> None:
    asked = load_run(spec, changes(settings))
    stage = asked.stages[0]
    with joined(device_named(device)) as (ranks, own_device):
        page = console()
        page.quiet = not ranks.leads
        where = cache or Path.home() / ".cache" / "paribus"
        built = ranks.in_turn(lambda: build(stage.corpus, where, show_progress=ranks.leads))
        with watched(page, stage.training.n_steps) as watch:
            outcome = train(
                asked, built, runs,
                device=own_device, name=name, accept_environment=accept_environment, ranks=ranks,
                on_row=watch.row, on_step=watch.step,
            )  # fmt: skip
    for note in outcome.notes:
        page.print(f"note: {note}", style="dim", soft_wrap=True)
    page.print(f"{outcome.step} steps: {outcome.folder}", soft_wrap=True)
