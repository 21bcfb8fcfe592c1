"""A fitted scaling law: each number with its interval, and what keeps it from meaning anything."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isnan

from rich.table import Table

from paribus.analyse.laws.bounds import (
    EXPONENTS,
    NO_BOUND,
    known_ends,
    unbounded_exponents,
)
from paribus.analyse.laws.fit import LawEstimate
from paribus.report.numbers import DASH, format_plural, join_words, significant

DIGITS = 4
QUANTITIES = {"alpha": "parameters", "beta": "tokens"}


def law_table(arm: str, n_points: int, estimates: Mapping[str, LawEstimate]) -> Table:
    """One line for E, A, B, alpha and beta."""
    runs = format_plural(n_points, "point")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(f"{arm}, {runs}" if arm else runs, no_wrap=True)
    for heading in ("estimate", "low", "high"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, one in estimates.items():
        table.add_row(name, _estimate(one), *_ends(name, one))
    return table


def law_json(estimates: Mapping[str, LawEstimate]) -> dict[str, dict[str, float | None]]:
    """Each number with its ends; what is not bounded, or not known, is null."""
    by_name: dict[str, dict[str, float | None]] = {}
    for name, one in estimates.items():
        low, high = known_ends(name, one)
        estimate = one.estimate if isfinite(one.estimate) else None
        by_name[name] = {"estimate": estimate, "low": low, "high": high}
    return by_name


def describe_law(estimates: Mapping[str, LawEstimate]) -> str:
    """What keeps a law from meaning anything: no bound, or a loss that does not fall; nothing
    where neither is so.
    """
    unbounded = unbounded_exponents(estimates)
    if unbounded:
        have = "has" if len(unbounded) == 1 else "have"
        return (
            f"these points say too little for a law: {join_words(unbounded)} {have} {NO_BOUND}. The"
            " numbers are shown, and nothing should be concluded from them; use sizes and"
            " durations that are further apart, or more seeds"
        )
    rising = [name for name in EXPONENTS if estimates[name].estimate <= 0]
    if rising:
        quantities = join_words([QUANTITIES[name] for name in rising])
        are = "is" if len(rising) == 1 else "are"
        return (
            f"the loss does not fall with {quantities} in this table ({join_words(rising)} {are}"
            " not above 0), so the law does not describe it; check the columns and the runs"
        )
    return ""


def _ends(name: str, one: LawEstimate) -> tuple[str, ...]:
    if isnan(one.low):
        return DASH, DASH
    ends = known_ends(name, one)
    return tuple(NO_BOUND if end is None else significant(end, DIGITS) for end in ends)


def _estimate(one: LawEstimate) -> str:
    return significant(one.estimate, DIGITS) if isfinite(one.estimate) else NO_BOUND
