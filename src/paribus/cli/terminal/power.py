"""What a number of seeds can see, before any run is made: a small table on the page of a plan."""

from __future__ import annotations

from math import isinf

from rich.console import Console
from rich.table import Table

from paribus.analyse import PowerLine, Spread
from paribus.report.numbers import rough, significant

UNIT = "bits per byte"


def print_power(lines: tuple[PowerLine, ...], n_own: int, about: str, earlier: Spread | None, page: Console) -> None:
    """A line a number of seeds: the smallest effect seen and the smallest margin, in sd and, if known, in bits.

    `n_own` seeds are the plan's. `about` says what shares the 5 %.
    """
    page.print(
        f"power      {about}, at 80 % power: the smallest effect that is seen, and the smallest margin from which a "
        f"true zero is called equivalent; sd is the spread of paired gains over seeds",
        soft_wrap=True,
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in (f"{'seeds':>16}", *_headings("effect", earlier), *_headings("margin", earlier)):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for line in lines:
        mark = "this plan" if line.n == n_own else ""
        table.add_row(str(line.n), *_cells(line.effect, earlier), *_cells(line.margin, earlier), mark)
    page.print(table)


def noise_words(earlier: Spread) -> str:
    """Which spread numbers in bits are of: not the observed one, which is too small more often than not."""
    return (
        f"bits are at an sd of {significant(earlier.upper)}, up to which {earlier.n} seeds allow the noise of the "
        f"study {earlier.study} to be; they saw {significant(earlier.sd)}"
    )


def _headings(what: str, earlier: Spread | None) -> tuple[str, ...]:
    return (f"{what},\nsd",) if earlier is None else (f"{what},\nsd", f"{what},\n{UNIT}")


def _cells(value: float, earlier: Spread | None) -> tuple[str, ...]:
    in_sd = "none" if isinf(value) else rough(value)
    if earlier is None:
        return (in_sd,)
    return in_sd, "none" if isinf(value) else rough(value * earlier.upper)
