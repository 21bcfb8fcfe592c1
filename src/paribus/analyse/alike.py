"""Would the verdict be the same at equal FLOPs, tokens or seconds? Read off the runs' held-out curves, to explore."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from paribus.analyse.compare import Comparison, compare
from paribus.analyse.interval import MIN_SEEDS
from paribus.errors import SpecError
from paribus.record import Row

Total = Literal["dense_flops", "tokens_read", "tokens_scored", "seconds"]
TOTALS: tuple[Total, ...] = ("dense_flops", "tokens_read", "tokens_scored", "seconds")
EQUAL = 0.005  # totals that differ by less count as equal


@dataclass(frozen=True)
class Alike:
    """One arm against the baseline where both had spent as much; no comparison where they had, or why there is none."""

    by: Total
    equal: bool
    at: float | None = None  # the largest total that every run of both reached
    comparison: Comparison | None = None
    reason: str = ""


def alike(
    baseline: Mapping[int, Sequence[Row]],
    arm: Mapping[int, Sequence[Row]],
    by: Total,
    *,
    margin: float | None = None,
    n_comparisons: int = 1,
    share: float = 0.05,
    unit: str = "",
    open_ended: bool = False,
) -> Alike:
    """Held-out bits a byte of both at the largest total every run reached, compared seed by seed.

    Between two measurements a curve is taken as straight in the logarithm of the total.
    """
    seeds = sorted(baseline.keys() & arm.keys())
    if len(seeds) < MIN_SEEDS:
        return Alike(by, False, reason=f"{len(seeds)} seeds trained in both; {MIN_SEEDS} are needed")
    ends = [(baseline[seed][-1][by], arm[seed][-1][by]) for seed in seeds]
    if by == "tokens_read" and _counted_apart([*baseline.values(), *arm.values()]):
        return Alike(by, False, reason="some runs are older, and count padding among their tokens")
    if all(abs(before / after - 1) <= EQUAL for before, after in ends):
        return Alike(by, True)
    at = min(min(pair) for pair in ends)
    gains = [_at(baseline[seed], by, at) - _at(arm[seed], by, at) for seed in seeds]
    if any(math.isnan(gain) for gain in gains):
        return Alike(by, False, at, reason="a curve does not reach that far, or has no point before it")
    try:
        found = compare(
            gains, margin=margin, n_comparisons=n_comparisons, share=share, unit=unit, open_ended=open_ended
        )
    except SpecError as fault:
        return Alike(by, False, at, reason=str(fault))
    return Alike(by, False, at, found)


def held_out(rows: Sequence[Row]) -> list[Row]:
    """The rows at which held-out text was asked."""
    return [row for row in rows if row.get("valid_nats") is not None and row["bytes_scored"]]


def bits(row: Row) -> float:
    """Held-out bits a byte at a row, under the run's own objective."""
    return row["valid_nats"] * row["tokens_scored"] / row["bytes_scored"] / math.log(2)


def _counted_apart(runs: Sequence[Sequence[Row]]) -> bool:
    """Do some runs count padding as tokens, as rows without `positions_computed` do, and others leave it out?"""
    computed = [rows[-1].get("positions_computed") for rows in runs]
    leave_out = any(n is not None and n != rows[-1]["tokens_read"] for n, rows in zip(computed, runs, strict=True))
    return leave_out and None in computed


def _at(rows: Sequence[Row], by: Total, total: float) -> float:
    points = [row for row in held_out(rows) if row[by] > 0]
    if not points:
        return math.nan
    x, y = np.log([row[by] for row in points]), [bits(row) for row in points]
    return float(np.interp(math.log(total), x, y, left=math.nan, right=math.nan))
