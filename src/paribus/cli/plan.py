"""Show that nothing but the factor differs between the arms of a design, what it costs, and what it can see.

DESIGN is one that comes with paribus, or a TOML or JSON file. Exit status 3: something besides the factor differs.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from paribus.analyse import earlier_spread
from paribus.cli.terminal.arguments import DesignSettings, Json, changes
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.control import print_alike, print_control, print_cost, print_idle, print_series, print_widths
from paribus.cli.terminal.folders import RUNS, Cache, Runs, cache_folder
from paribus.design import Design, Plan, cost_of, described, found, plan_record, planned, proposed
from paribus.design.series import require_same_design, series_member
from paribus.errors import ConfoundError, SpecError, UnsupportedError
from paribus.record import is_name, study
from paribus.record.file_names import PLAN_LOCK_FILE, STUDIES
from paribus.record.folder import NAMES
from paribus.runtime import device_named
from paribus.spec.design import OPEN
from paribus.train.memory import require_training_memory

DESIGN = "A design that comes with paribus, or a .toml or .json file."
Chosen = Annotated[str, typer.Argument(metavar="DESIGN", help=DESIGN)]
Scaled = Annotated[str | None, typer.Option("--scale", metavar="SCALE", help="smoke, laptop, hour or paper.")]
Named = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Of the study; by default the design's, and the scale.")
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds", metavar="N", help="With seeds = 'open': carry it to N. Else: a new study of N fresh seeds."
    ),
]
Device = Annotated[
    str | None, typer.Option("--device", metavar="DEVICE", help="cpu, cuda or mps; by default the best.")
]


def plan(
    design: str | Path | Mapping[str, Any] | Design,
    *,
    scale: str | None = None,
    changes: Mapping[str, Any] | None = None,
    name: str | None = None,
    cache: str | Path | None = None,
    device: str | None = None,
    jobs: int = 1,
    seeds: int | None = None,
    runs: str | Path = RUNS,
) -> Plan:
    """The plan of a design; ConfoundError where something besides the factor differs.

    `seeds` says how many, of a design that leaves it open; of one whose own seeds are all run, it plans a new study of
    so many fresh ones.
    """
    if name is not None and not is_name(name):
        raise SpecError(f"the study name is {name!r}, which cannot be a folder's; {NAMES}")
    called, asked = found(design, scale, changes)
    called, own = called if name is None else name, device_named(device)
    if seeds is None or asked.seeds == OPEN:
        return planned(asked, called, scale, cache_folder(cache), own, n_jobs=jobs, n_seeds=seeds)
    member = series_member(Path(runs), called, asked, seeds)
    made = planned(member.design, member.name, scale, cache_folder(cache), own, n_jobs=jobs)
    require_same_design(member, plan_record(made))
    return replace(made, series=member.series)


def command(
    design: Chosen,
    scale: Scaled = None,
    settings: DesignSettings = None,
    name: Named = None,
    seeds: Seeds = None,
    every: Annotated[bool, typer.Option("--all", help="Fields that are equal, too.")] = False,
    runs: Runs = RUNS,
    cache: Cache = None,
    device: Device = None,
    json: Json = False,
) -> None:
    page = console()
    try:
        made = plan(
            design,
            scale=scale,
            changes=changes(settings),
            name=name,
            cache=cache,
            device=device,
            seeds=seeds,
            runs=runs,
        )
    except ConfoundError as fault:
        if not json:
            print_control(fault.lines, page, every)
        raise
    own = device_named(device)
    changed = proposed(made, study(runs, made.name))
    if json:
        print_json(described(made))
        return
    page.print(made.design.question, style="bold", soft_wrap=True)
    print_series(made, page)
    page.print()
    print_control(made.lines, page, every)
    print_idle(made, page)
    print_alike(made, page)
    print_widths(made, page)
    _print_lack(made, own, page)
    page.print()
    earlier = earlier_spread(runs, made.design.primary.measure.model_dump(mode="json"))
    print_cost(made, cost_of(made, runs, own), page, earlier)
    said = f"frozen     {runs}/{STUDIES}/{made.name}/{PLAN_LOCK_FILE}, {made.fingerprint[:16]}"
    page.print(said if changed is None else f"not frozen {changed}", soft_wrap=True)


def _print_lack(made: Plan, device: torch.device, page: Console) -> None:
    """Which arms cannot be trained here, where they may well be planned."""
    for arm in made.arms:
        try:
            require_training_memory(arm.run, device)
        except UnsupportedError as fault:
            page.print(f"note       {arm.name}: {fault}", soft_wrap=True)
