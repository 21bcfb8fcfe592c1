"""A fitted scaling law: each number with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

from rich.table import Table

from paribus.analyse.laws.fit import LawEstimate
from paribus.report.numbers import DASH, format_plural, significant

DIGITS = 4


def law_table(arm: str, n_points: int, estimates: Mapping[str, LawEstimate]) -> Table:
    """One line for E, A, B, alpha and beta."""
    runs = format_plural(n_points, "point")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(f"{arm}, {runs}" if arm else runs, no_wrap=True)
    for heading in ("estimate", "low", "high"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, one in estimates.items():
        table.add_row(name, significant(one.estimate, DIGITS), *_ends(name, one))
    return table


def _ends(name: str, one: LawEstimate) -> tuple[str, str]:
    if isnan(one.low):
        return DASH, DASH
    low = significant(one.low, DIGITS)
    if name == "E" and one.low == 0:
        low = "not bounded below"
    return low, significant(one.high, DIGITS)
