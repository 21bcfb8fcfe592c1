"""Train a run, or resume it with the same command.

SPEC is a TOML or JSON file with the tables architecture, corpus, objective and training, or with an
architecture and several [[stages]], which have the other three each. A run is named by the
fingerprint of its spec, so the same spec finds the same run again; each stage has a folder of its
own. Ctrl-C, SIGTERM, SIGUSR1 and SIGUSR2 save the run first; the exit status is then 130, 143, 138
or 140, and the same command resumes.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

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
from paribus.cli.terminal.training_bar import TrainingBar, print_note, training_bar
from paribus.corpus import corpus_remarks, prepare_corpus
from paribus.generate import draw_own_pairs
from paribus.interop.begin import open_begin
from paribus.report.numbers import format_plural
from paribus.runtime import select_device
from paribus.spec.run import RunSpec, load_run, run_width_note
from paribus.train.chain import prepare_texts, train_chain
from paribus.train.loop import TrainOutcome
from paribus.train.parent import Texts
from paribus.train.ranks import join_ranks
from paribus.train.sharding import FSDP_OPTION
from paribus.workspace import Workspace


def train_run(
    spec: str | Path | Mapping[str, Any],
    *,
    changes: Mapping[str, Any] | None = None,
    name: str | None = None,
    workspace: Workspace | None = None,
    fsdp: bool = False,
) -> TrainOutcome:
    """Train or resume a run and print its progress; `spec` is a file or a mapping of
    its tables.

    Under torchrun every process calls it; the first one prints. With `fsdp`, each process holds
    only its part of the weights and of the optimizer's memory.
    """
    workspace = workspace or Workspace()
    run = load_run(spec, changes, partial(open_begin, runs=workspace.runs_folder))
    with join_ranks(select_device(workspace.device), fsdp) as (ranks, own):
        page = console()
        page.quiet = not ranks.is_leader
        prepare = partial(
            prepare_corpus, cache=workspace.cache_folder, show_progress=ranks.is_leader
        )
        texts = ranks.leader_first(lambda: prepare_texts(run, prepare))
        _print_remarks(page, run, texts, run_width_note(spec, changes))
        peak = 0.0
        if ranks.is_leader:
            peak = peak_flops(own)
        pages = _StagePages(page, run, own.type == "cuda", peak * ranks.world_size)
        outcome = train_chain(
            run,
            texts,
            replace(workspace, device=str(own)),
            name=name,
            ranks=ranks,
            watch=pages.watch,
            draw_pairs=draw_own_pairs,
        )
        page.print(f"{format_plural(outcome.step, 'step')}: {outcome.folder}", soft_wrap=True)
    return outcome


def _print_remarks(page: Console, run: RunSpec, texts: Texts, width_note: str | None) -> None:
    remarks = {width_note: None}  # in order, each once
    for stage, text in zip(run.stages, texts, strict=True):
        remarks |= dict.fromkeys(corpus_remarks(text, stage.training.length, stage.objective))
    for remark in remarks:
        if remark is not None:
            print_note(page, remark)


@dataclass(frozen=True)
class _StagePages:
    """A bar for each stage, under a heading where there are several."""

    page: Console
    run: RunSpec
    compiles: bool
    peak: float

    def watch(self, number: int) -> AbstractContextManager[TrainingBar]:
        stage, n_stages = self.run.stages[number], len(self.run.stages)
        if n_stages > 1:
            self.page.print(f"stage {number + 1} of {n_stages}: {stage.kind}", style="bold")
        return training_bar(self.page, stage.training.n_steps, self.compiles, self.peak)


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
    fsdp: Annotated[
        bool,
        typer.Option(
            FSDP_OPTION,
            help="Under torchrun, each process holds only its part of the weights (FSDP2).",
        ),
    ] = False,
) -> None:
    train_run(
        spec,
        changes=parse_settings(settings),
        name=name,
        workspace=Workspace(runs, cache, device, accept_environment),
        fsdp=fsdp,
    )
