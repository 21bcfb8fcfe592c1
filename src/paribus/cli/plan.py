"""Check that the arms of a design differ in the factor alone; estimate its cost and its power.

Before the first run, this also freezes the plan. Exit status 3 means that something besides the
factor differs.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from paribus.analyse import largest_past_noise
from paribus.cli.terminal.arguments import DesignSettingsOption, JsonOption, parse_settings
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.folders import RUNS, CacheOption, DeviceOption, RunsOption
from paribus.cli.terminal.plan_tables import (
    print_control_table,
    print_cost,
    print_identical_arms,
    print_series,
    print_unused_allowances,
    print_width_notes,
)
from paribus.design import (
    Design,
    Plan,
    described,
    estimate_cost,
    find_design,
    freeze_or_describe_departure,
    make_plan,
    plan_record,
)
from paribus.design.series import require_same_design, series_member
from paribus.errors import ConfoundError, SpecError, UnsupportedError
from paribus.record import is_folder_name, open_study
from paribus.record.file_names import PLAN_LOCK_FILE, STUDIES
from paribus.record.folder import NAME_ADVICE
from paribus.runtime import select_device
from paribus.spec.design import OPEN_SEEDS
from paribus.train.memory import require_training_memory
from paribus.workspace import Execution, Workspace

DesignSource = str | Path | Mapping[str, Any] | Design
DESIGN_HELP = "The name of a design that comes with paribus, or a .toml or .json file."
DesignArgument = Annotated[str, typer.Argument(metavar="DESIGN", help=DESIGN_HELP)]
ScaleOption = Annotated[
    str | None,
    typer.Option(
        "--scale", metavar="SCALE", help="Scale of the study: smoke, laptop, hour or paper."
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Name of the study; by default the name of the design and the scale.",
    ),
]
SeedsOption = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        metavar="N",
        help="Number of seeds, if the design has seeds = 'open'; otherwise, make a new study with N"
        " fresh seeds.",
    ),
]


def plan(
    design: DesignSource,
    *,
    scale: str | None = None,
    changes: Mapping[str, Any] | None = None,
    name: str | None = None,
    seeds: int | None = None,
    workspace: Workspace | None = None,
) -> Plan:
    """The plan of a design; ConfoundError where something besides the factor differs.

    `seeds` says how many, of a design that leaves it open; of one whose own seeds are all run, it
    plans a new study of so many fresh ones.
    """
    return plan_execution(
        design,
        scale=scale,
        changes=changes,
        name=name,
        seeds=seeds,
        execution=Execution(workspace or Workspace()),
    )


def plan_execution(
    design: DesignSource,
    *,
    scale: str | None,
    changes: Mapping[str, Any] | None,
    name: str | None,
    seeds: int | None,
    execution: Execution,
) -> Plan:
    """The plan of a design whose runs are carried out so."""
    if name is not None and not is_folder_name(name):
        raise SpecError(
            f"the study name is {name!r}, which cannot be the name of a folder; {NAME_ADVICE}"
        )
    called, asked = find_design(design, scale, changes)
    called = called if name is None else name
    if seeds is None or asked.seeds == OPEN_SEEDS:
        return make_plan(asked, called, scale, execution, n_seeds=seeds)
    member = series_member(execution.workspace.runs_folder, called, asked, seeds)
    made = make_plan(member.design, member.name, scale, execution)
    require_same_design(member, plan_record(made))
    return replace(made, series=member.series)


def command(
    design: DesignArgument,
    scale: ScaleOption = None,
    settings: DesignSettingsOption = None,
    name: NameOption = None,
    seeds: SeedsOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also list the fields that are equal.")
    ] = False,
    runs: RunsOption = RUNS,
    cache: CacheOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    page, workspace = console(), Workspace(runs, cache, device)
    try:
        made = plan(
            design,
            scale=scale,
            changes=parse_settings(settings),
            name=name,
            seeds=seeds,
            workspace=workspace,
        )
    except ConfoundError as fault:
        if not json:
            print_control_table(fault.lines, page, every)
        raise
    changed = freeze_or_describe_departure(made, open_study(runs, made.name))
    if json:
        print_json(described(made))
        return
    page.print(made.design.question, style="bold", soft_wrap=True)
    print_series(made, page)
    page.print()
    print_control_table(made.control_lines, page, every)
    print_unused_allowances(made, page)
    print_identical_arms(made, page)
    print_width_notes(made, page)
    _print_memory_notes(made, select_device(device), page)
    page.print()
    earlier = largest_past_noise(runs, made.design.primary.measure.model_dump(mode="json"))
    print_cost(made, estimate_cost(made, workspace), page, earlier)
    said = f"frozen     {runs}/{STUDIES}/{made.name}/{PLAN_LOCK_FILE}, {made.fingerprint[:16]}"
    page.print(said if changed is None else f"not frozen {changed}", soft_wrap=True)


def _print_memory_notes(study_plan: Plan, device: torch.device, page: Console) -> None:
    """Which arms cannot be trained here, where they may well be planned."""
    for arm in study_plan.arms:
        try:
            require_training_memory(arm.run, device)
        except UnsupportedError as fault:
            page.print(f"note       {arm.name}: {fault}", soft_wrap=True)
