"""Check that the arms of a design differ in the factor alone; estimate its cost and its power.

The time is a guess for one run after another: arithmetic, calls of operations, and some seconds for
the study and for each run. Code that a GPU compiles for the first time is not in it.

Before the first run, this also freezes the plan. Exit status 3 means that something besides the
factor differs.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from paribus.analyse import past_studies
from paribus.analyse.seal import plan_seal
from paribus.cli.terminal.arguments import DesignSettingsOption, JsonOption, parse_settings
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.folders import RUNS, CacheOption, DeviceOption, RunsOption
from paribus.cli.terminal.plan_tables import (
    print_alarms,
    print_control_table,
    print_cost,
    print_identical_arms,
    print_judged,
    print_position_notes,
    print_proposed_jobs,
    print_series,
    print_trained_items,
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
from paribus.design.alarms import plan_alarms
from paribus.design.proposed_jobs import gpu_limits, propose_jobs
from paribus.design.series import require_same_design, series_member
from paribus.errors import ConfoundError, SpecError, UnsupportedError
from paribus.escapes import on_one_line
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
    """The plan of a design; ConfoundError if something besides the factor differs.

    `seeds` is the number of seeds, for a design that leaves it open. For a design whose own seeds
    are all run, it plans a new study with so many fresh seeds.
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
    """The plan of a design, for the way in which its runs are executed."""
    if name is not None and not is_folder_name(name):
        raise SpecError(
            f"the study name is {name!r}, which cannot be the name of a folder; {NAME_ADVICE}"
        )
    default_name, loaded_design = find_design(design, scale, changes)
    study_name = name or default_name
    if seeds is None or loaded_design.seeds == OPEN_SEEDS:
        return make_plan(loaded_design, study_name, scale, execution, n_seeds=seeds)
    member = series_member(execution.workspace.runs_folder, study_name, loaded_design, seeds)
    study_plan = make_plan(member.design, member.name, scale, execution)
    require_same_design(member, plan_record(study_plan))
    return replace(study_plan, series=member.series)


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
        study_plan = plan(
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
    study = open_study(runs, study_plan.name)
    departure = freeze_or_describe_departure(study_plan, study)
    past = past_studies(runs, study_plan.design.primary.measure.model_dump(mode="json"))
    cost = estimate_cost(study_plan, workspace)
    alarms = plan_alarms(study_plan, cost, workspace, past)
    if json:
        print_json({"alarms": list(map(asdict, alarms)), **described(study_plan)})
        return
    print_alarms(alarms, page)
    page.print(on_one_line(study_plan.design.question), style="bold", soft_wrap=True)
    print_series(study_plan, page)
    page.print()
    print_control_table(study_plan.control_lines, page, every)
    print_judged(study_plan, page)
    print_unused_allowances(study_plan, page)
    print_identical_arms(study_plan, page)
    print_width_notes(study_plan, page)
    print_position_notes(study_plan, page)
    print_trained_items(study_plan, page)
    _print_memory_notes(study_plan, select_device(device), page)
    page.print()
    print_cost(study_plan, cost, page, past.noise)
    machine = gpu_limits(select_device(device))
    if machine is not None:
        print_proposed_jobs(propose_jobs(study_plan, cost.n_runs, machine), page)
    if departure is None:
        lock = f"{runs}/{STUDIES}/{study_plan.name}/{PLAN_LOCK_FILE}"
        page.print(f"frozen     {lock}, {study_plan.fingerprint[:16]}", soft_wrap=True)
        page.print(f"seal       {plan_seal(study)}", soft_wrap=True)
    else:
        page.print(f"not frozen {departure}", soft_wrap=True)


def _print_memory_notes(study_plan: Plan, device: torch.device, page: Console) -> None:
    """A note for each arm that needs more memory than this machine has."""
    for arm in study_plan.arms:
        try:
            require_training_memory(arm.run, device)
        except UnsupportedError as fault:
            page.print(f"note       {arm.name}: {fault}", soft_wrap=True)
