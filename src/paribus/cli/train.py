"""Train a run, or resume it with the same command.

SPEC is a TOML or JSON file with the tables architecture, corpus, objective and training. A run is
named by the fingerprint of its spec, so the same spec finds the same run again. Ctrl-C and SIGTERM
save the run first; the exit status is then 130 or 143, and the same command resumes.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.cli.checkup.peak import peak_flops
from paribus.cli.terminal.arguments import RunSettingsOption, parse_settings
from paribus.cli.terminal.console import console
from paribus.cli.terminal.folders import (
    RUNS,
    AcceptEnvironmentOption,
    CacheOption,
    DeviceOption,
    RunsOption,
)
from paribus.cli.terminal.training_bar import print_note, training_bar
from paribus.corpus import corpus_remarks, prepare_corpus
from paribus.report.numbers import format_plural
from paribus.runtime import select_device
from paribus.spec.run import load_run, run_width_note
from paribus.train.loop import TrainOutcome, train
from paribus.train.ranks import join_ranks
from paribus.workspace import Workspace


def train_run(
    spec: str | Path | Mapping[str, Any],
    *,
    changes: Mapping[str, Any] | None = None,
    name: str | None = None,
    workspace: Workspace | None = None,
) -> TrainOutcome:
    """Train or resume a run and print its progress; `spec` is a file or a mapping of
    its tables.

    Under torchrun every process calls it; the first one prints.
    """
    run_spec = load_run(spec, changes)
    stage = run_spec.stages[0]
    workspace = workspace or Workspace()
    with join_ranks(select_device(workspace.device)) as (ranks, own):
        page = console()
        page.quiet = not ranks.is_leader
        dataset = ranks.leader_first(
            lambda: prepare_corpus(
                stage.corpus, workspace.cache_folder, show_progress=ranks.is_leader
            )
        )
        for remark in (
            run_width_note(spec, changes),
            *corpus_remarks(dataset, stage.training.length),
        ):
            if remark is not None:
                print_note(page, remark)
        peak = 0.0
        if ranks.is_leader:
            peak = peak_flops(own)
        with training_bar(
            page, stage.training.n_steps, own.type == "cuda", peak * ranks.world_size
        ) as bar:
            outcome = train(
                run_spec,
                dataset,
                replace(workspace, device=str(own)),
                name=name,
                ranks=ranks,
                watcher=bar,
            )
        page.print(f"{format_plural(outcome.step, 'step')}: {outcome.folder}", soft_wrap=True)
    return outcome


def command(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC", help="A .toml or .json file that describes the run.")
    ],
    settings: RunSettingsOption = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the run; by default its fingerprint."),
    ] = None,
    runs: RunsOption = RUNS,
    cache: CacheOption = None,
    device: DeviceOption = None,
    accept_environment: AcceptEnvironmentOption = False,
) -> None:
    train_run(
        spec,
        changes=parse_settings(settings),
        name=name,
        workspace=Workspace(runs, cache, device, accept_environment),
    )
