"""Check this machine: device, attention kernels, bfloat16, disk and versions.

Without ARCH, the masks of all presets are checked. Exit status 1 means that a kernel disagrees with
dense attention, or that the kernel chosen with --kernel does not support a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from paribus.cli.checkup.kernels import KernelCheck, attention_cases, check_kernel
from paribus.cli.checkup.machine import Machine, inspect_machine
from paribus.cli.terminal.arguments import (
    ARCH_HELP,
    ArchitectureSource,
    JsonOption,
    NamedArchitecture,
    SettingsOption,
    load_architecture,
    parse_settings,
)
from paribus.cli.terminal.console import console, print_json
from paribus.model.kernels import parse_kernel
from paribus.report.numbers import format_size, significant
from paribus.runtime import best_device
from paribus.spec import presets


@dataclass(frozen=True)
class Checkup:
    """What the doctor found."""

    machine: Machine
    kernels: tuple[KernelCheck, ...]

    @property
    def healthy(self) -> bool:
        return all(one.agrees for one in self.kernels)


def doctor(source: ArchitectureSource | None = None, kernel: str = "auto") -> Checkup:
    """This machine, and every kernel that an architecture, or all presets, would use on it."""
    if source is None:
        architectures = [load_architecture(name) for name in presets()]
    else:
        architectures = [load_architecture(source)]
    return _run_checkup(architectures, kernel)


def command(
    arch: Annotated[str | None, typer.Argument(metavar="ARCH", help=ARCH_HELP)] = None,
    settings: SettingsOption = None,
    kernel: Annotated[
        str,
        typer.Option(
            "--kernel",
            metavar="KERNEL",
            help="Kernel to check: auto, dense, masked, fused or flex.",
        ),
    ] = "auto",
    json: JsonOption = False,
) -> None:
    names = presets()
    if arch:
        names = [arch]
    changes = parse_settings(settings)
    checkup = _run_checkup([load_architecture(name, changes) for name in names], kernel)
    if json:
        print_json({**asdict(checkup), "healthy": checkup.healthy})
    else:
        _print_checkup(checkup)
    if not checkup.healthy:
        raise typer.Exit(1)


def _run_checkup(architectures: Sequence[NamedArchitecture], kernel: str) -> Checkup:
    choice, device = parse_kernel(kernel), best_device()
    checks: list[KernelCheck] = []
    for case, names in attention_cases(architectures).items():
        checks.append(check_kernel(case, names, device, choice))
    return Checkup(inspect_machine(Path.cwd()), tuple(checks))


def _print_checkup(checkup: Checkup) -> None:
    page = console()
    page.print(_machine_table(checkup.machine))
    page.print()
    page.print(_kernel_table(checkup.kernels))
    page.print()
    page.print("Errors are against dense attention, as a share of its largest value.", style="dim")


def _machine_table(this_machine: Machine) -> Table:
    rows = {
        "processor": (
            f"{this_machine.processor}, {this_machine.n_cores} cores, {this_machine.n_threads}"
            " threads in use"
        ),
        "memory": format_size(this_machine.memory_bytes),
        "accelerators": ", ".join(this_machine.accelerators) or "none",
        "bfloat16": _describe_bf16_speed(this_machine),
        "disk": f"{format_size(this_machine.disk_free_bytes)} free at {this_machine.folder}",
        "versions": ", ".join(f"{name} {number}" for name, number in this_machine.versions.items()),
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    for name, text in rows.items():
        table.add_row(name, text)
    return table


def _describe_bf16_speed(this_machine: Machine) -> str:
    speed, device = this_machine.bf16_speed, this_machine.device
    if speed < 1:
        return f"{significant(1 / speed)} × slower than float32 on {device}: use float32 here"
    return f"{significant(speed)} × as fast as float32 on {device}"


def _kernel_table(checks: Sequence[KernelCheck]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("", "mask", "kernel"):
        table.add_column(heading, no_wrap=True)
    for heading in ("forward\nerror", "gradient\nerror"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("used by", overflow="fold")
    for one in checks:
        if one.agrees:
            mark = Text("✓", style="green")
        else:
            mark = Text("✗", style="bold red")
        mask = one.mask
        if one.biased:
            mask = f"{mask}, bias"
        forward, gradient = f"{one.forward_error:.1e}", f"{one.gradient_error:.1e}"
        table.add_row(mark, mask, one.kernel, forward, gradient, ", ".join(one.used_by))
    return table
