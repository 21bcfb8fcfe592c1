"""A law of size with a break beside the one without: its numbers, and what the F test says."""

from __future__ import annotations

from math import isfinite
from typing import Any

from rich.table import Table

from paribus.analyse.laws.broken import N_EXTRA, BrokenLaw
from paribus.analyse.laws.points import unlogged
from paribus.report.numbers import DASH, format_plural, significant

DIGITS = 4


def broken_table(arm: str, law: BrokenLaw) -> Table:
    """One line for each number, with and without a break."""
    sizes = format_plural(law.n_sizes, "size")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(f"{arm}, {sizes}" if arm else sizes, no_wrap=True)
    for heading in ("with a break", "without"):
        table.add_column(heading, justify="right", no_wrap=True)
    lines: list[tuple[str, float, float | None]] = [
        ("E", law.floor, law.plain_floor),
        ("b", unlogged(law.log_scale), unlogged(law.plain_log_scale)),
        ("exponent below, c", law.before, law.plain_exponent),
        ("exponent above, c + k", law.after, None),
        ("size of the break, d", law.break_at.estimate, None),
        ("width in ln N, f", law.width, None),
    ]
    for name, value, plain in lines:
        beside = DASH if plain is None else significant(plain, DIGITS)
        table.add_row(name, significant(value, DIGITS), beside)
    return table


def describe_break(law: BrokenLaw) -> str:
    """Whether there is a break, and where it lies."""
    test = f"F({N_EXTRA}, {law.df:g}) = {significant(law.f_value)}, p = {significant(law.p)}"
    if not law.is_broken:
        return (
            f"No break is seen: {test}. The numbers of the break say nothing then; a break too"
            " small for these runs is possible."
        )
    low, high = law.break_at.low, law.break_at.high
    first = significant(low) if low > 0 else "no lower bound among the sizes"
    last = significant(high) if isfinite(high) else "no upper bound among the sizes"
    return (
        f"The law is broken: {test}. The break lies at {significant(law.break_at.estimate)}"
        f" parameters, 95 % interval {first} to {last}."
    )


def broken_json(law: BrokenLaw) -> dict[str, Any]:
    """The numbers of both laws and of the test; an end that is not bounded is null."""
    at = law.break_at
    return {
        "is_broken": law.is_broken,
        "F": law.f_value,
        "df": [N_EXTRA, law.df],
        "p": law.p,
        "broken": {
            "E": law.floor,
            "ln_b": law.log_scale,
            "exponent_below": law.before,
            "exponent_above": law.after,
            "width": law.width,
            "break": {
                "estimate": at.estimate,
                "low": at.low if at.low > 0 else None,
                "high": at.high if isfinite(at.high) else None,
            },
        },
        "unbroken": {
            "E": law.plain_floor,
            "ln_b": law.plain_log_scale,
            "exponent": law.plain_exponent,
        },
        "n_sizes": law.n_sizes,
    }
