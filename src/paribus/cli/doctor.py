"""Whether this machine is fit: device, kernels, bfloat16, disk and versions.

Without an architecture the masks of all presets are tried. Exit status 1 if a kernel disagrees with dense
attention, or if the one asked for by --kernel cannot do a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from paribus.cli.checkup.kernels import Agreement, agreement, cases
from paribus.cli.checkup.machine import Machine, machine
from paribus.cli.terminal.arguments import ARCH, Asked, Json, Settings, Source, asked, changes
from paribus.cli.terminal.console import console, print_json
from paribus.model.kernels import kernel_named
from paribus.report.numbers import significant, size
from paribus.runtime import best_device
from paribus.spec import presets


@dataclass(frozen=True)
class Checkup:
    """What the doctor found."""

    machine: Machine
    kernels: tuple[Agreement, ...]

    @property
    def healthy(self) -> bool:
        return all(one.agrees for one in self.kernels)


def doctor(source: Source | None = None, kernel: str = "auto") -> Checkup:
    """This machine, and every kernel that an architecture, or all presets, would use on it."""
    return _checkup([asked(name) for name in (presets() if source is None else [source])], kernel)


def command(
    arch: Annotated[str | None, typer.Argument(metavar="ARCH", help=ARCH)] = None,
    settings: Settings = None,
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="KERNEL", help="Force one: auto, dense, masked, fused or flex.")
    ] = "auto",
    json: Json = False,
) -> None:
    found = _checkup([asked(name, changes(settings)) for name in ([arch] if arch else presets())], kernel)
    if json:
        print_json({**asdict(found), "healthy": found.healthy})
    else:
        _print(found)
    if not found.healthy:
        raise typer.Exit(1)


def _checkup(given: Sequence[Asked], kernel: str) -> Checkup:
    wanted, device = kernel_named(kernel), best_device()
    tried = tuple(agreement(case, names, device, wanted) for case, names in cases(given).items())
    return Checkup(machine(Path.cwd()), tried)


def _print(found: Checkup) -> None:
    page = console()
    page.print(_facts(found.machine))
    page.print()
    page.print(_kernels(found.kernels))
    page.print()
    page.print("Errors against dense attention, as a share of its largest value.", style="dim")


def _facts(here: Machine) -> Table:
    slower = f"{significant(1 / here.bf16_speed)} × slower than float32 on {here.device}: compute in float32 here"
    faster = f"{significant(here.bf16_speed)} × as fast as float32 on {here.device}"
    rows = {
        "processor": f"{here.processor}, {here.n_cores} cores, {here.n_threads} threads in use",
        "memory": size(here.memory_bytes),
        "accelerators": ", ".join(here.accelerators) or "none",
        "bfloat16": slower if here.bf16_speed < 1 else faster,
        "disk": f"{size(here.disk_free_bytes)} free at {here.folder}",
        "versions": ", ".join(f"{name} {number}" for name, number in here.versions.items()),
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    for name, text in rows.items():
        table.add_row(name, text)
    return table


def _kernels(tried: Sequence[Agreement]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("", "mask", "kernel"):
        table.add_column(heading, no_wrap=True)
    for heading in ("forward\nerror", "gradient\nerror"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("used by", overflow="fold")
    for one in tried:
        mark = Text("✓", style="green") if one.agrees else Text("✗", style="bold red")
        mask = f"{one.mask}, bias" if one.biased else one.mask
        errors = (f"{error:.1e}" for error in (one.forward_error, one.gradient_error))
        table.add_row(mark, mask, one.kernel, *errors, ", ".join(one.used_by))
    return table
