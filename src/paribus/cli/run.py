"""Carry a design out: sweeps, then every arm under every seed; the same command resumes.

Where the design leaves their number open, --seeds N carries it to N seeds, and a larger N later
adds to the same plan. Where it has seeds of its own and all are run, --seeds N makes a new study of
N fresh seeds, judged alone: NAME-2. Exit status 3: a confound; 4: some runs failed; 75:
interrupted, or other shards are not done: run it again.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.analyse import RowTable, study_rows
from paribus.cli.plan import (
    DesignArgument,
    DeviceOption,
    NameOption,
    ScaleOption,
    SeedsOption,
    plan,
)
from paribus.cli.terminal.arguments import DesignSettingsOption
from paribus.cli.terminal.arguments import parse_settings as read
from paribus.cli.terminal.console import console, print_errors, print_notes
from paribus.cli.terminal.folders import RUNS, CacheOption, RunsOption, cache_folder
from paribus.cli.terminal.plan_tables import print_control_table, print_series, print_width_notes
from paribus.cli.terminal.results_table import print_results
from paribus.cli.terminal.study_bar import StudyBar
from paribus.design import (
    RESUME_STATUS,
    Design,
    Execution,
    Plan,
    StudyProgress,
    describe_departure,
    resumable_exit,
    run_study,
)
from paribus.design.samples import write_study_samples
from paribus.design.seeds import n_begun_seeds, reported_seeds
from paribus.errors import SpecError
from paribus.record import Study, open_study
from paribus.runtime import select_device
from paribus.spec.design import OPEN_SEEDS
from paribus.train.memory import require_training_memory

FAILED_STATUS = 4
JOBS_HELP = "Runs at a time; on a CPU, 1 has all threads, and of more each has one."


def run(
    design: str | Path | Mapping[str, Any] | Design,
    *,
    scale: str | None = None,
    changes: Mapping[str, Any] | None = None,
    name: str | None = None,
    runs: str | Path = RUNS,
    cache: str | Path | None = None,
    device: str | None = None,
    jobs: int = 1,
    shard: str | None = None,
    accept_environment: bool = False,
    seeds: int | None = None,
) -> RowTable:
    """Carry a design out, or go on with it; its rows.

    `seeds` says how many, of a design that leaves it open; of one whose own seeds are all run, it
    makes a new study of so many fresh ones, judged alone.
    """
    carried, kept = _run_design(
        design, scale, changes, name, runs, cache, device, jobs, shard, accept_environment, seeds
    )
    if carried.failures:
        print_errors(f"{cell}: {why}" for cell, why in carried.failures.items())
    return study_rows(kept)


def _run_design(
    design: str | Path | Mapping[str, Any] | Design,
    scale: str | None,
    changes: Mapping[str, Any] | None,
    name: str | None,
    runs: str | Path,
    cache: str | Path | None,
    device: str | None,
    jobs: int,
    shard: str | None,
    accept_environment: bool,
    seeds: int | None,
) -> tuple[StudyProgress, Study]:
    page = console()
    part = _parse_shard(shard)
    if jobs < 1:
        raise SpecError(f"--jobs is {jobs}; use 1 or more")
    with _note_on_interrupt(), resumable_exit():
        made = plan(
            design,
            scale=scale,
            changes=changes,
            name=name,
            cache=cache,
            device=device,
            jobs=jobs,
            seeds=seeds,
            runs=runs,
        )
        for arm in made.arms:
            require_training_memory(arm.run, select_device(device), jobs)
        kept = open_study(Path(runs), made.name)
        page.print(made.design.question, style="bold", soft_wrap=True)
        print_series(made, page)
        if made.design.seeds == OPEN_SEEDS and seeds is None:
            made = _extend_to_begun_seeds(made, kept)
            said = (
                f"{len(made.seeds)} seeds, for the design leaves their number open; --seeds N"
                " carries it further"
            )
            page.print(said, soft_wrap=True)
        print_control_table(made.control_lines, page, every=False)
        print_width_notes(made, page)
        changed = describe_departure(made, kept)
        if changed is not None:
            page.print(f"not as planned: {changed}", style="yellow", soft_wrap=True)
        page.print()
        means = Execution(
            cache_folder(cache), select_device(device), jobs, part, accept_environment
        )
        with StudyBar(page, kept) as showing:
            carried = run_study(made, kept, means, showing.begin_stage)
        if not (carried.failures or carried.n_waiting):
            write_study_samples(made, kept, means.device)
    return carried, kept


@contextmanager
def _note_on_interrupt() -> Iterator[None]:
    try:
        yield
    except SystemExit as left:
        if left.code == RESUME_STATUS:
            print_notes("interrupted; the same command goes on")
        raise


def _extend_to_begun_seeds(study_plan: Plan, study_record: Study) -> Plan:
    """An open design, carried to as many seeds as were begun: so that the same command resumes."""
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
        str | None, typer.Option(metavar="I/N", help="The I-th of N parts, for job arrays.")
    ] = None,
    accept_environment: Annotated[
        bool,
        typer.Option(
            "--accept-environment", help="Go on under other versions or threads; rows are marked."
        ),
    ] = False,
) -> None:
    kept = run_and_print(
        design,
        scale,
        read(settings),
        name,
        runs,
        cache,
        device,
        jobs,
        shard,
        accept_environment,
        seeds,
    )
    where = "" if runs == RUNS else f" --runs {shlex.quote(str(runs))}"
    said = f"the verdict, and a page: paribus report {shlex.quote(kept.folder.name)}{where}"
    console().print(said, soft_wrap=True, highlight=False)


def run_and_print(
    design: str,
    scale: str | None,
    changes: Mapping[str, Any] | None,
    name: str | None,
    runs: Path,
    cache: Path | None,
    device: str | None,
    jobs: int,
    shard: str | None = None,
    accept_environment: bool = False,
    seeds: int | None = None,
) -> Study:
    """Carry a design out and print what each run scored; SystemExit where runs failed or are
    not done.
    """
    carried, kept = _run_design(
        design, scale, changes, name, runs, cache, device, jobs, shard, accept_environment, seeds
    )
    page = console()
    if carried.failures:
        print_errors(f"{cell}: {why}" for cell, why in carried.failures.items())
        raise SystemExit(FAILED_STATUS)
    if carried.n_waiting:
        print_notes(
            f"{carried.n_waiting} runs of other shards are not done; run this one again when"
            " they are"
        )
        raise SystemExit(RESUME_STATUS)
    page.print()
    print_results(study_rows(kept), kept, page)
    return kept


def _parse_shard(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 1
    number, _, total = text.partition("/")
    if not (number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise SpecError(f"--shard is {text!r}; write I/N with I from 1 to N, such as 2/8")
    return int(number), int(total)
