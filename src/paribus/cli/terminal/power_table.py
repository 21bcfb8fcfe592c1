"""The power of a plan at a few numbers of seeds, before any run is made."""

from __future__ import annotations

from math import isinf

from rich.console import Console
from rich.table import Table

from paribus.analyse import PastNoise, PowerRow
from paribus.report.numbers import rough, significant


def print_power_table(
    lines: tuple[PowerRow, ...],
    n_planned: int,
    family: str,
    past_noise: PastNoise | None,
    unit: str,
    page: Console,
) -> None:
    """Print one line per number of seeds: the smallest detectable effect and the smallest margin,
    in sd and, if known, in the unit of the scores.

    `n_planned` is the number of seeds of the plan. `family` says what shares the 5 %.
    """
    page.print(
        f"by seeds   {family}, at 80 % power: the smallest detectable effect, and the smallest"
        " margin at which a true zero is called equivalent; sd is that of the paired gains over"
        " seeds",
        soft_wrap=True,
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in (
        f"{'seeds':>16}",
        *_headings("effect", past_noise, unit),
        *_headings("margin", past_noise, unit),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for line in lines:
        mark = ""
        if line.n == n_planned:
            mark = "this plan"
        table.add_row(
            str(line.n), *_cells(line.effect, past_noise), *_cells(line.margin, past_noise), mark
        )
    page.print(table)


def describe_past_noise(past_noise: PastNoise, unit: str) -> str:
    """Which sd the numbers in bits or points use: an upper bound, because the observed sd is too
    small more often than not.
    """
    scale = unit.partition(" ")[0]
    return (
        f"{scale} are at an sd of {significant(past_noise.upper_sd)}, the upper bound from"
        f" {past_noise.n} seeds of the study {past_noise.study}, whose observed sd is"
        f" {significant(past_noise.sd)}"
    )


def _headings(what: str, past_noise: PastNoise | None, unit: str) -> tuple[str, ...]:
    if past_noise is None:
        return (f"{what},\nsd",)
    return (f"{what},\nsd", f"{what},\n{unit}")


def _cells(value: float, past_noise: PastNoise | None) -> tuple[str, ...]:
    if past_noise is None:
        return (rough_or_none(value),)
    return rough_or_none(value), rough_or_none(value * past_noise.upper_sd)


def rough_or_none(value: float) -> str:
    """A number in short; `none` if it is infinite, because no effect is large enough."""
    if isinf(value):
        return "none"
    return rough(value)
