"""Free disk space: remove runs that no study needs, and optimizer states of finished runs.

Without --yes nothing is removed: it prints what would be freed. A run that a process is at is left
alone, and so is a run that was given a name, unless --named is given. Stages that a study's runs
begin from are needed too. Optimizer states serve only to continue a run that is not finished, so
those of finished runs are freed; evaluate, probe, generate, export and report do not read them.
After that no other program can continue the training of these checkpoints either.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from paribus.cli.terminal.arguments import JsonOption
from paribus.cli.terminal.console import console, print_json, print_notes
from paribus.cli.terminal.folders import RUNS, RunsOption
from paribus.errors import SpecError
from paribus.record.pruning import PRUNE_KINDS, PruneKind, PrunePlan, PruneResult, plan_prune
from paribus.record.pruning import prune as free
from paribus.report.numbers import format_plural, format_size

ONLY_HELP = f"Free one kind alone: {' or '.join(PRUNE_KINDS)}."


def prune(
    runs: str | Path = RUNS,
    *,
    yes: bool = False,
    only: str | None = None,
    with_names: bool = False,
) -> PrunePlan | PruneResult:
    """What would be freed; with `yes`, free it, and say what was freed."""
    plan = plan_prune(Path(runs), _parse_kinds(only), with_names)
    if yes:
        return free(plan)
    return plan


def command(
    runs: RunsOption = RUNS,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without, only print it.")] = False,
    only: Annotated[str | None, typer.Option("--only", metavar="KIND", help=ONLY_HELP)] = None,
    named: Annotated[
        bool, typer.Option("--named", help="Also free runs of no study that were given a name.")
    ] = False,
    json: JsonOption = False,
) -> None:
    plan = plan_prune(runs, _parse_kinds(only), named)
    if json:
        print_json(_prune_json(plan, free(plan) if yes else None))
        return
    _print_plan(plan)
    if yes and plan.n_bytes:
        _print_result(free(plan))
    elif plan.n_bytes:
        console().print("nothing is removed yet; --yes removes it", soft_wrap=True)


def _parse_kinds(only: str | None) -> tuple[PruneKind, ...]:
    if only is None:
        return PRUNE_KINDS
    for kind in PRUNE_KINDS:
        if only == kind:
            return (kind,)
    raise SpecError(f"--only is {only!r}; use {' or '.join(PRUNE_KINDS)}")


def _print_plan(plan: PrunePlan) -> None:
    page = console()
    print_notes(*plan.notes)
    if not plan.n_bytes:
        page.print(f"there is nothing to free in {plan.root}", soft_wrap=True)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("kind", "what"):
        table.add_column(heading, no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    for run in plan.runs:
        what = f"{run.name}, {run.state}, {format_plural(run.n_steps, 'step')}"
        table.add_row("run of no study", what, format_size(run.n_bytes))
    if plan.states:
        what = f"of {format_plural(len(plan.states), 'finished run')}"
        table.add_row("optimizer states", what, format_size(plan.state_bytes))
    if plan.n_leftover_bytes:
        table.add_row("leftovers", "of removed runs", format_size(plan.n_leftover_bytes))
    table.add_row("all", "", format_size(plan.n_bytes))
    page.print(table)


def _print_result(result: PruneResult) -> None:
    print_notes(*result.notes)
    runs, states = (
        format_plural(result.n_runs, "run"),
        format_plural(result.n_states, "finished run"),
    )
    console().print(
        f"freed {format_size(result.n_bytes)}: {runs} of no study, and the optimizer states of"
        f" {states}",
        soft_wrap=True,
    )


def _prune_json(plan: PrunePlan, result: PruneResult | None) -> dict[str, object]:
    notes: Iterable[str] = plan.notes
    if result is not None:
        notes = (*plan.notes, *result.notes)
    return {
        "runs": [
            {"name": run.name, "state": run.state, "steps": run.n_steps, "bytes": run.n_bytes}
            for run in plan.runs
        ],
        "optimizer_states": [{"name": state.name, "bytes": state.n_bytes} for state in plan.states],
        "run_bytes": plan.run_bytes,
        "optimizer_state_bytes": plan.state_bytes,
        "leftover_bytes": plan.n_leftover_bytes,
        "bytes": plan.n_bytes,
        "freed_bytes": None if result is None else result.n_bytes,
        "notes": list(notes),
    }
