"""Carry a design out: sweeps, then every arm under every seed; the same command resumes.

Where the design leaves their number open, --seeds N carries it to N seeds, and a larger N later adds to the same plan.
Where it has seeds of its own and all are run, --seeds N makes a new study of N fresh seeds, judged alone: NAME-2.
Exit status 3: a confound; 4: some runs failed; 75: interrupted, or other shards are not done: run it again.
"""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.analyse import Table, rows
from paribus.cli.plan import Chosen, Device, Named, Scaled, Seeds, plan
from paribus.cli.terminal.arguments import DesignSettings
from paribus.cli.terminal.arguments import changes as read
from paribus.cli.terminal.console import complain, console, note
from paribus.cli.terminal.control import print_control, print_series, print_widths
from paribus.cli.terminal.folders import RUNS, Cache, Runs, cache_folder
from paribus.cli.terminal.progress import Showing
from paribus.cli.terminal.results import print_results
from paribus.design import RESUME, Carried, Design, Means, Plan, carry_out, departure, resumable
from paribus.design.seeds import n_begun, seeds_of
from paribus.design.shown import show
from paribus.errors import SpecError
from paribus.record import Study, study
from paribus.runtime import device_named
from paribus.spec.design import OPEN
from paribus.train.memory import require_training_memory

FAILED = 4
JOBS = "Runs at a time; on a CPU, 1 has all threads, and of more each has one."


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
) -> Table:
    """Carry a design out, or go on with it; its rows.

    `seeds` says how many, of a design that leaves it open; of one whose own seeds are all run, it makes a new study of
    so many fresh ones, judged alone.
    """
    carried, kept = _carried(design, scale, changes, name, runs, cache, device, jobs, shard, accept_environment, seeds)
    if carried.failed:
        complain(f"{cell}: {why}" for cell, why in carried.failed.items())
    return rows(kept)


def _carried(
    design: str | Path | Mapping[str, Any] | Design, scale: str | None, changes: Mapping[str, Any] | None,
    name: str | None, runs: str | Path, cache: str | Path | None, device: str | None, jobs: int, shard: str | None,
    accept_environment: bool, seeds: int | None,
) -> tuple[Carried, Study]:  # fmt: skip
    page = console()
    part = _shard(shard)
    if jobs < 1:
        raise SpecError(f"--jobs is {jobs}; use 1 or more")
    with _saying_how_to_go_on(), resumable():
        made = plan(
            design, scale=scale, changes=changes, name=name, cache=cache, device=device, jobs=jobs, seeds=seeds,
            runs=runs,
        )  # fmt: skip
        for arm in made.arms:
            require_training_memory(arm.run, device_named(device), jobs)
        kept = study(Path(runs), made.name)
        page.print(made.design.question, style="bold", soft_wrap=True)
        print_series(made, page)
        if made.design.seeds == OPEN and seeds is None:
            made = _as_far(made, kept)
            said = f"{len(made.seeds)} seeds, for the design leaves their number open; --seeds N carries it further"
            page.print(said, soft_wrap=True)
        print_control(made.lines, page, every=False)
        print_widths(made, page)
        changed = departure(made, kept)
        if changed is not None:
            page.print(f"not as planned: {changed}", style="yellow", soft_wrap=True)
        page.print()
        means = Means(cache_folder(cache), device_named(device), jobs, part, accept_environment)
        with Showing(page, kept) as showing:
            carried = carry_out(made, kept, means, showing.stage)
        if not (carried.failed or carried.waiting):
            show(made, kept, means.device)
    return carried, kept


@contextmanager
def _saying_how_to_go_on() -> Iterator[None]:
    try:
        yield
    except SystemExit as left:
        if left.code == RESUME:
            note("interrupted; the same command goes on")
        raise


def _as_far(made: Plan, kept: Study) -> Plan:
    """An open design, carried to as many seeds as were begun: so that the same command resumes."""
    n_seeds = max(len(made.seeds), n_begun(kept, made.design_fingerprint))
    return replace(made, seeds=seeds_of(made.design, n_seeds))


def command(
    design: Chosen,
    scale: Scaled = None,
    settings: DesignSettings = None,
    name: Named = None,
    seeds: Seeds = None,
    runs: Runs = RUNS,
    cache: Cache = None,
    device: Device = None,
    jobs: Annotated[int, typer.Option(metavar="N", help=JOBS)] = 1,
    shard: Annotated[str | None, typer.Option(metavar="I/N", help="The I-th of N parts, for job arrays.")] = None,
    accept_environment: Annotated[
        bool, typer.Option("--accept-environment", help="Go on under other versions or threads; rows are marked.")
    ] = False,
) -> None:
    kept = told(design, scale, read(settings), name, runs, cache, device, jobs, shard, accept_environment, seeds)
    where = "" if runs == RUNS else f" --runs {shlex.quote(str(runs))}"
    said = f"the verdict, and a page: paribus report {shlex.quote(kept.folder.name)}{where}"
    console().print(said, soft_wrap=True, highlight=False)


def told(
    design: str, scale: str | None, changes: Mapping[str, Any] | None, name: str | None, runs: Path,
    cache: Path | None, device: str | None, jobs: int, shard: str | None = None, accept_environment: bool = False,
    seeds: int | None = None,
) -> Study:  # fmt: skip
    """Carry a design out and print what each run scored; SystemExit where runs failed or are not done."""
    carried, kept = _carried(design, scale, changes, name, runs, cache, device, jobs, shard, accept_environment, seeds)
    page = console()
    if carried.failed:
        complain(f"{cell}: {why}" for cell, why in carried.failed.items())
        raise SystemExit(FAILED)
    if carried.waiting:
        note(f"{carried.waiting} runs of other shards are not done; run this one again when they are")
        raise SystemExit(RESUME)
    page.print()
    print_results(rows(kept), kept, page)
    return kept


def _shard(given: str | None) -> tuple[int, int]:
    if given is None:
        return 1, 1
    number, _, total = given.partition("/")
    if not (number.isdecimal() and total.isdecimal() and 1 <= int(number) <= int(total)):
        raise SpecError(f"--shard is {given!r}; write I/N with I from 1 to N, such as 2/8")
    return int(number), int(total)
