"""What a number of seeds can see, before any run is made: a small table on the page of a plan."""

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
    """A line a number of seeds: the smallest effect seen and the smallest margin, in sd and, if
    known, in the unit of the scores.

    `n_own` seeds are the plan's. `about` says what shares the 5 %.
    """
    page.print(
        f"power      {family}, at 80 % power: the smallest effect that is seen, and the smallest"
        " margin from which a true zero is called equivalent; sd is the spread of paired gains"
        " over seeds",
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
        mark = "this plan" if line.n == n_planned else ""
        table.add_row(
            str(line.n), *_cells(line.effect, past_noise), *_cells(line.margin, past_noise), mark
        )
    page.print(table)


def describe_past_noise(past_noise: PastNoise) -> str:
    """Which spread numbers in bits are of: not the observed one, which is too small more often
    than not.
    """
    return (
        f"bits are at an sd of {significant(past_noise.upper_sd)}, up to which {past_noise.n} seeds"
        f" allow the noise of the study {past_noise.study} to be; they saw"
        f" {significant(past_noise.sd)}"
    )


def _headings(what: str, past_noise: PastNoise | None, unit: str) -> tuple[str, ...]:
    if past_noise is None:
        return (f"{what},\nsd",)
    return (f"{what},\nsd", f"{what},\n{unit}")


def _cells(value: float, past_noise: PastNoise | None) -> tuple[str, ...]:
    in_sd = "none" if isinf(value) else rough(value)
    if past_noise is None:
        return (in_sd,)
    return in_sd, "none" if isinf(value) else rough(value * past_noise.upper_sd)
