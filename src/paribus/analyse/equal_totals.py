"""Would the verdict be the same at equal FLOPs, tokens or seconds? Only annealed runs are
compared with annealed ones.

Where no two annealed runs had spent as much, the held-out curves are read in mid-schedule: a gain,
and no word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from paribus.analyse.compare import Comparison, compare
from paribus.analyse.criterion import Criterion
from paribus.analyse.interval import MIN_SEEDS, interval
from paribus.errors import SpecError
from paribus.record import Row
from paribus.spec.measure import LIKELIHOOD, Measure

Total = Literal["dense_flops", "tokens_read", "tokens_scored", "seconds"]
TOTALS: tuple[Total, ...] = ("dense_flops", "tokens_read", "tokens_scored", "seconds")
# held-out text is scored in bits a byte along training, whatever the yardstick
VALIDATION_MEASURE = LIKELIHOOD
EQUAL_TOLERANCE = 0.005  # totals that differ by less count as equal
# purposes of runs that went through the whole of their schedule
ANNEALED_PURPOSES = (
    "reported",
    "length",
)


# steps → seed → the row of a run that ended after so many
RowsByLength = Mapping[int, Mapping[int, Mapping[str, Any]]]


@dataclass(frozen=True)
class MidScheduleGain:
    """A mean gain where at least one arm was in mid-schedule, with its interval: not annealed,
    so it gets no word.
    """

    effect: float
    low: float
    high: float


@dataclass(frozen=True)
class EqualTotalComparison:
    """One arm against another where both had spent as much; or why there is nothing to say.

    `comparison` is of annealed runs alone, `mid_schedule` is read off curves of which one had not
    ended.
    """

    by: Total
    is_equal: bool
    at: float | None = None  # the largest total that every run of both reached
    comparison: Comparison | None = None
    mid_schedule: MidScheduleGain | None = None
    reason: str = ""


def compare_at_equal_total(
    baseline: Mapping[int, Sequence[Row]],
    arm: Mapping[int, Sequence[Row]],
    by: Total,
    *,
    level: float = 0.95,
) -> EqualTotalComparison:
    """Held-out bits a byte of both at the largest total every run reached, by seed, read off
    their curves.

    Between two measurements a curve is taken as straight in the logarithm of the total. One of the
    two curves is read before its end, where the schedule still holds the rate up.
    """
    seeds = sorted(baseline.keys() & arm.keys())
    if len(seeds) < MIN_SEEDS:
        return EqualTotalComparison(
            by, False, reason=f"{len(seeds)} seeds trained in both; {MIN_SEEDS} are needed"
        )
    if by == "tokens_read" and _count_padding_differently([*baseline.values(), *arm.values()]):
        return EqualTotalComparison(
            by, False, reason="some runs are older, and count padding among their tokens"
        )
    ends = [(baseline[seed][-1][by], arm[seed][-1][by]) for seed in seeds]
    if all(_are_equal(before, after) for before, after in ends):
        return EqualTotalComparison(by, True)
    at = min(min(pair) for pair in ends)
    gains = []
    for seed in seeds:
        before, after = (_bits_at_total(runs[seed], by, at) for runs in (baseline, arm))
        gains.append(VALIDATION_MEASURE.gain(before, after))
    if any(math.isnan(gain) for gain in gains):
        return EqualTotalComparison(
            by, False, at, reason="a curve does not reach that far, or has no point before it"
        )
    low, high = interval(gains, level)
    return EqualTotalComparison(
        by, False, at, mid_schedule=MidScheduleGain(float(np.mean(gains)), float(low), float(high))
    )


def compare_annealed_at_equal_total(
    baseline: RowsByLength,
    arm: RowsByLength,
    by: Total,
    column: str,
    measure: Measure,
    criterion: Criterion | None = None,
) -> EqualTotalComparison | None:
    """Scores of both at the largest total at which both have annealed runs, by seed; None where
    there is no such total.

    `column` holds the score. The margin is that of the verdict, at full length.
    """
    pair = _longest_common_lengths(baseline, arm, by)
    if pair is None:
        return None
    if by == "tokens_read" and _count_padding_differently(
        [[row] for own in (baseline, arm) for row in _all_rows(own)]
    ):
        return None
    before, after = baseline[pair[0]], arm[pair[1]]
    at = min(min(before[seed][by], after[seed][by]) for seed in before)
    seeds = sorted(before)
    gains = [measure.gain(before[seed][column], after[seed][column]) for seed in seeds]
    try:
        own = (criterion or Criterion()).for_seeds(seeds)
        found = compare(gains, own, unit=measure.unit)
    except SpecError as fault:
        return EqualTotalComparison(by, False, at, reason=str(fault))
    return EqualTotalComparison(by, False, at, found)


def annealed_lengths(
    table: Sequence[Mapping[str, Any]], arm: str, seeds: Sequence[int]
) -> dict[int, dict[int, Mapping[str, Any]]]:
    """Steps → seed → the row of a finished run of an arm that ended there; lengths that every
    seed has.
    """
    found: dict[int, dict[int, Mapping[str, Any]]] = {}
    for row in table:
        own = row["arm"] == arm and row["seed"] in seeds and row["purpose"] in ANNEALED_PURPOSES
        if own and row["outcome"] == "finished":
            found.setdefault(row["n_steps"], {})[row["seed"]] = row
    return {n_steps: by_seed for n_steps, by_seed in found.items() if len(by_seed) == len(seeds)}


def _longest_common_lengths(
    baseline: RowsByLength, arm: RowsByLength, by: Total
) -> tuple[int, int] | None:
    """The longest pair of lengths, in steps, at which every seed of both had spent as much."""
    pairs = [
        (before, after)
        for before in sorted(baseline, reverse=True)
        for after in sorted(arm, reverse=True)
        if _have_equal_totals(baseline[before], arm[after], by)
    ]
    if pairs:
        return pairs[0]
    return None


def _have_equal_totals(
    before: Mapping[int, Mapping[str, Any]], after: Mapping[int, Mapping[str, Any]], by: Total
) -> bool:
    if before.keys() != after.keys() or len(before) < MIN_SEEDS:
        return False
    totals = [(before[seed][by], after[seed][by]) for seed in before]
    return all(first and second and _are_equal(first, second) for first, second in totals)


def _are_equal(first: float, second: float) -> bool:
    return abs(first / second - 1) <= EQUAL_TOLERANCE


def validation_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows at which held-out text was asked."""
    return [row for row in rows if row.get("valid_nats") is not None and row["bytes_scored"]]


def validation_bits_per_byte(row: Row) -> float:
    """Held-out bits a byte at a row, under the run's own objective."""
    return row["valid_nats"] * row["tokens_scored"] / row["bytes_scored"] / math.log(2)


def _all_rows(lengths: RowsByLength) -> list[Mapping[str, Any]]:
    return [row for by_seed in lengths.values() for row in by_seed.values()]


def _count_padding_differently(runs: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
    """Do some runs count padding as tokens, as rows without `positions_computed` do, and others
    leave it out?
    """
    computed = [rows[-1].get("positions_computed") for rows in runs]
    leave_out = any(
        n is not None and n != rows[-1]["tokens_read"]
        for n, rows in zip(computed, runs, strict=True)
    )
    return leave_out and None in computed


def _bits_at_total(rows: Sequence[Row], by: Total, total: float) -> float:
    points = [row for row in validation_rows(rows) if row[by] > 0]
    if not points:
        return math.nan
    x, y = np.log([row[by] for row in points]), [validation_bits_per_byte(row) for row in points]
    return float(np.interp(math.log(total), x, y, left=math.nan, right=math.nan))
