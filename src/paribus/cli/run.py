"""Run a design: tune the learning rates, then train every arm with every seed.

The same command resumes an interrupted study. If the design leaves the number of seeds open,
--seeds N runs it with N seeds, and a larger N later adds to the same study. If the design lists its
seeds and all of them are run, --seeds N makes a new study, NAME-2, with N fresh seeds and verdicts
of its own. At the end it prints the seal of the study, a digest that `paribus report --seal`
checks; its first part is that of the plan, and is printed before the first run. Exit status: 3 a
confound; 4 some runs failed; 75 interrupted, or other shards are not done: run it again.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console

from paribus.analyse import RowTable, study_rows
from paribus.analyse.seal import study_seal
from paribus.cli.plan import (
    DesignArgument,
    DesignSource,
    NameOption,
    ScaleOption,
    SeedsOption,
    plan_execution,
)
from paribus.cli.terminal.arguments import DesignSettingsOption, parse_settings
from paribus.cli.terminal.console import console, print_errors, print_notes
from paribus.cli.terminal.folders import (
    RUNS,
    AcceptEnvironmentOption,
    CacheOption,
    DeviceOption,
    RunsOption,
)
from paribus.cli.terminal.plan_tables import print_control_table, print_series, print_width_notes
from paribus.cli.terminal.results_table import print_results
from paribus.cli.terminal.study_bar import StudyBar
from paribus.design import (
    RESUME_STATUS,
    Plan,
    StudyProgress,
    describe_departure,
    resumable_exit,
    run_study,
)
from paribus.design.on.places import require_installed
from paribus.design.samples import write_study_samples
from paribus.design.seeds import n_begun_seeds, reported_seeds
from paribus.errors import SpecError
from paribus.escapes import on_one_line
from paribus.record import Study, open_study
from paribus.runtime import select_device
from paribus.slurm.options import parse_sbatch_options
from paribus.spec.design import OPEN_SEEDS
from paribus.train.memory import require_training_memory
from paribus.workspace import Execution, Local, Place, Ray, Slurm, Workspace

FAILED_STATUS = 4
JOBS_HELP = (
    "Number of runs at a time; a single run uses all threads of the processor, and several use one"
    " thread each. With --on ray, it is the number on each node, or on each GPU; with --on slurm,"
    " of jobs that run at a time."
)
LOCAL, RAY, SLURM = "local", "ray", "slurm"
ON_HELP = (
    "Where the runs are carried out: local (this machine), ray (a Ray cluster) or slurm (jobs of"
    " SLURM)."
)


def run(
    design: DesignSource,
    *,
    scale: str | None = None,
    changes: Mapping[str, Any] | None = None,
    name: str | None = None,
    seeds: int | None = None,
    execution: Execution | None = None,
) -> RowTable:
    """Run or resume a design; the rows of its runs.

    `seeds` is the number of seeds, for a design that leaves it open. For a design whose own seeds
    are all run, it makes a new study with so many fresh seeds and verdicts of its own.
    """
    progress, study = _run_design(design, scale, changes, name, seeds, execution or Execution())
    _print_failures(progress)
    return study_rows(study)


def _run_design(
    design: DesignSource,
    scale: str | None,
    changes: Mapping[str, Any] | None,
    name: str | None,
    seeds: int | None,
    execution: Execution,
) -> tuple[StudyProgress, Study]:
    page = console()
    device = execution.workspace.device
    require_installed(execution.on)
    with _note_on_interrupt(), resumable_exit():
        study_plan = plan_execution(
            design, scale=scale, changes=changes, name=name, seeds=seeds, execution=execution
        )
        for arm in study_plan.arms:
            require_training_memory(arm.run, select_device(device), execution.n_jobs)
        study = open_study(execution.workspace.runs_folder, study_plan.name)
        if study_plan.design.seeds == OPEN_SEEDS and seeds is None:
            study_plan = _extend_to_begun_seeds(study_plan, study)
            seeds_note = (
                f"{len(study_plan.seeds)} seeds, because the design leaves their number open;"
                " --seeds N adds more"
            )
        else:
            seeds_note = None
        _print_plan(study_plan, study, seeds_note, page)
        with StudyBar(page, study) as bar:
            progress = run_study(study_plan, study, execution, bar)
        if not (progress.failures or progress.n_waiting):
            write_study_samples(study_plan, study, select_device(device))
    return progress, study


def _print_plan(study_plan: Plan, study: Study, seeds_note: str | None, page: Console) -> None:
    page.print(on_one_line(study_plan.design.question), style="bold", soft_wrap=True)
    print_series(study_plan, page)
    if seeds_note is not None:
        page.print(seeds_note, soft_wrap=True)
    print_control_table(study_plan.control_lines, page, every=False)
    print_width_notes(study_plan, page)
    departure = describe_departure(study_plan, study)
    if departure is not None:
        page.print(f"not as planned: {departure}", style="yellow", soft_wrap=True)
    page.print()


def _print_failures(progress: StudyProgress) -> None:
    if progress.failures:
        print_errors(f"{cell}: {why}" for cell, why in progress.failures.items())


@contextmanager
def _note_on_interrupt() -> Iterator[None]:
    try:
        yield
    except SystemExit as stop:
        if stop.code == RESUME_STATUS:
            print_notes("interrupted; the same command resumes")
        raise


def _extend_to_begun_seeds(study_plan: Plan, study_record: Study) -> Plan:
    """The plan of an open design with all seeds that were begun: the same command resumes."""
    n_seeds = max(len(study_plan.seeds), n_begun_seeds(study_record, study_plan.design_fingerprint))
    return replace(study_plan, seeds=reported_seeds(study_plan.design, n_seeds))


def command(
    design: DesignArgument,
    scale: ScaleOption = None,
    settings: DesignSettingsOption = None,
    name: NameOption = None,
    seeds: SeedsOption = None,
    runs: RunsOption = RUNS,
    cache: CacheOption = None,
    device: DeviceOption = None,
    jobs: Annotated[int, typer.Option(metavar="N", help=JOBS_HELP)] = 1,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Run part I of N, for job arrays.")
    ] = None,
    accept_environment: AcceptEnvironmentOption = False,
    no_mps: Annotated[
        bool,
        typer.Option(
            "--no-mps",
            help="With --on local: do not start NVIDIA's MPS, through which several runs share one"
            " GPU.",
        ),
    ] = False,
    on: Annotated[str, typer.Option("--on", metavar="PLACE", help=ON_HELP)] = LOCAL,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="HOST:PORT",
            help="With --on ray: the head node of the cluster; by default the cluster that this"
            " machine belongs to, or else a local one.",
        ),
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            "--slurm",
            metavar="NAME=VALUE",
            help="With --on slurm: an option of sbatch, such as partition=gpu or time=240, or a"
            " flag, such as exclusive; may be repeated.",
        ),
    ] = None,
) -> None:
    workspace = Workspace(runs, cache, device, accept_environment)
    place = parse_place(on, use_mps=not no_mps, ray_address=ray_address, slurm=slurm or ())
    study = run_and_print(
        design,
        scale=scale,
        changes=parse_settings(settings),
        name=name,
        seeds=seeds,
        execution=Execution(workspace, jobs, _parse_shard(shard), on=place),
    )
    report = f"paribus report {shlex.quote(study.folder.name)}"
    if runs != RUNS:
        report += f" --runs {shlex.quote(str(runs))}"
    console().print(f"for the verdict and a page: {report}", soft_wrap=True, highlight=False)


def run_and_print(
    design: str,
    *,
    scale: str | None,
    changes: Mapping[str, Any] | None = None,
    name: str | None = None,
    seeds: int | None = None,
    execution: Execution,
) -> Study:
    """Run a design and print the score of each run; SystemExit if runs failed or are not done."""
    progress, study = _run_design(design, scale, changes, name, seeds, execution)
    page = console()
    if progress.failures:
        _print_failures(progress)
        raise SystemExit(FAILED_STATUS)
    if progress.n_waiting:
        print_notes(
            f"{progress.n_waiting} runs of other shards are not done; run this command again"
            " when they are"
        )
        raise SystemExit(RESUME_STATUS)
    page.print()
    print_results(study_rows(study), study, page)
    page.print(f"seal: {study_seal(study)}", soft_wrap=True, highlight=False)
    return study


def parse_place(
    on: str, *, use_mps: bool, ray_address: str | None, slurm: Sequence[str] = ()
) -> Place:
    """The place that --on names, with its own options; SpecError where another's is given."""
    given_options = {
        LOCAL: {"--no-mps": not use_mps},
        RAY: {"--ray-address": ray_address is not None},
        SLURM: {"--slurm": bool(slurm)},
    }
    if on not in given_options:
        raise SpecError(f"--on is {on!r}; use one of {', '.join(given_options)}")
    for place, options in given_options.items():
        for option, is_given in options.items():
            if is_given and place != on:
                raise SpecError(f"{option} goes with --on {place}, and --on is {on}; leave it out")
    if on == RAY:
        return Ray(ray_address)
    if on == SLURM:
        return Slurm(parse_sbatch_options(slurm))
    return Local(use_mps)


def _parse_shard(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 1
    number, _, total = text.partition("/")
    if not (number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise SpecError(f"--shard is {text!r}; write I/N with I from 1 to N, such as 2/8")
    return int(number), int(total)
