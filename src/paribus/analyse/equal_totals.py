"""Would the verdict be the same at equal FLOPs, tokens or seconds? Only annealed runs are
compared with annealed ones.

Where no two annealed runs had spent as much, the held-out curves are read in mid-schedule: a gain,
and no word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from paribus.analyse.bound_verdict import compare_scores
from paribus.analyse.compare import Comparison
from paribus.analyse.criterion import Criterion
from paribus.analyse.interval import MIN_SEEDS, interval
from paribus.analyse.run_table import select_rows
from paribus.errors import SpecError
from paribus.record import Row
from paribus.record.plan import ArmRecord, WorkQuantity
from paribus.record.rows import seconds_without_compiling
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


# counters of a row, and what a plan calls them
EARLIER_QUANTITIES: Mapping[str, WorkQuantity] = {
    "dense_flops": "training_flops",
    "tokens_read": "tokens_read",
    "tokens_scored": "tokens_scored",
    "positions_computed": "positions_computed",
}
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
            by=by,
            is_equal=False,
            reason=f"{len(seeds)} seeds trained in both; {MIN_SEEDS} are needed",
        )
    if by == "tokens_read" and _count_padding_differently([*baseline.values(), *arm.values()]):
        return EqualTotalComparison(
            by=by,
            is_equal=False,
            reason="some runs are older, and count padding among their tokens",
        )
    before_ends = [baseline[seed][-1][by] for seed in seeds]
    after_ends = [arm[seed][-1][by] for seed in seeds]
    if all(map(_are_equal, before_ends, after_ends)):
        return EqualTotalComparison(by=by, is_equal=True)
    at = min(*before_ends, *after_ends)
    gains = []
    for seed in seeds:
        before = _bits_at_total(baseline[seed], by, at)
        after = _bits_at_total(arm[seed], by, at)
        gains.append(VALIDATION_MEASURE.gain(before, after))
    if any(map(math.isnan, gains)):
        return EqualTotalComparison(
            by=by,
            is_equal=False,
            at=at,
            reason="a curve does not reach that far, or has no point before it",
        )
    low, high = interval(gains, level)
    return EqualTotalComparison(
        by=by,
        is_equal=False,
        at=at,
        mid_schedule=MidScheduleGain(float(np.mean(gains)), float(low), float(high)),
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
    last_rows = [[row] for row in (*_all_rows(baseline), *_all_rows(arm))]
    if by == "tokens_read" and _count_padding_differently(last_rows):
        return None
    before, after = baseline[pair[0]], arm[pair[1]]
    totals, gains = [], []
    seeds = sorted(before)
    for seed in seeds:
        totals += [before[seed][by], after[seed][by]]
        gains.append(measure.gain(before[seed][column], after[seed][column]))
    at = min(totals)
    try:
        own = (criterion or Criterion()).for_seeds(seeds)
        arms = [[rows[seed][column] for seed in seeds] for rows in (before, after)]
        comparison = compare_scores(arms, gains, measure, own)
    except SpecError as fault:
        return EqualTotalComparison(by=by, is_equal=False, at=at, reason=str(fault))
    return EqualTotalComparison(by=by, is_equal=False, at=at, comparison=comparison)


def annealed_lengths(
    table: Sequence[Mapping[str, Any]], arm: str, seeds: Sequence[int]
) -> dict[int, dict[int, Mapping[str, Any]]]:
    """Steps → seed → the row of a finished run of an arm that ended there; lengths that every
    seed has.
    """
    rows_by_length: dict[int, dict[int, Mapping[str, Any]]] = {}
    for row in select_rows(table, purposes=ANNEALED_PURPOSES, arm=arm, seeds=seeds):
        if row["outcome"] == "finished":
            rows_by_length.setdefault(row["n_steps"], {})[row["seed"]] = row
    return {
        n_steps: by_seed
        for n_steps, by_seed in rows_by_length.items()
        if len(by_seed) == len(seeds)
    }


def _longest_common_lengths(
    baseline: RowsByLength, arm: RowsByLength, by: Total
) -> tuple[int, int] | None:
    """The longest pair of lengths, in steps, at which every seed of both had spent as much."""
    longest_first = product(sorted(baseline, reverse=True), sorted(arm, reverse=True))
    for before, after in longest_first:
        if _have_equal_totals(baseline[before], arm[after], by):
            return before, after
    return None


def _have_equal_totals(
    before: Mapping[int, Mapping[str, Any]], after: Mapping[int, Mapping[str, Any]], by: Total
) -> bool:
    if before.keys() != after.keys() or len(before) < MIN_SEEDS:
        return False
    for seed in before:
        first, second = before[seed][by], after[seed][by]
        if not (first and second and _are_equal(first, second)):
            return False
    return True


def _are_equal(first: float, second: float) -> bool:
    return abs(first / second - 1) <= EQUAL_TOLERANCE


def count_earlier_stages(row: Mapping[str, Any], arm: ArmRecord) -> dict[str, Any]:
    """A row of an arm's last stage, its counters begun with the first stage; seconds are those of
    the last, for a plan has no clock, and without compiling: who compiles first is chance.
    """
    counted = dict(row)
    if counted.get("seconds") is not None:
        counted["seconds"] = seconds_without_compiling(row)
    for column, quantity in EARLIER_QUANTITIES.items():
        if counted.get(column) is not None:
            counted[column] += arm.earlier_total(quantity)
    return counted


def mean_total(runs: Mapping[int, Sequence[Row]], by: Total) -> float:
    """What the runs of an arm had spent at their ends, the mean over seeds."""
    return float(np.mean([rows[-1][by] for rows in runs.values()]))


def validation_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows at which held-out text was asked."""
    return [row for row in rows if row.get("valid_nats") is not None and row["bytes_scored"]]


def validation_bits_per_byte(row: Row) -> float:
    """Held-out bits a byte at a row, under the run's own objective."""
    return row["valid_nats"] * row["tokens_scored"] / row["bytes_scored"] / math.log(2)


def _all_rows(lengths: RowsByLength) -> list[Mapping[str, Any]]:
    rows = []
    for by_seed in lengths.values():
        rows += by_seed.values()
    return rows


def _count_padding_differently(runs: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
    """Do some runs count padding as tokens, as rows without `positions_computed` do, and others
    leave it out?
    """
    leaves_out, counts_it = False, False
    for rows in runs:
        n_computed = rows[-1].get("positions_computed")
        if n_computed is None:
            counts_it = True
        elif n_computed != rows[-1]["tokens_read"]:
            leaves_out = True
    return leaves_out and counts_it


def _bits_at_total(rows: Sequence[Row], by: Total, total: float) -> float:
    points = [row for row in validation_rows(rows) if row[by] > 0]
    if not points:
        return math.nan
    x, y = np.log([row[by] for row in points]), list(map(validation_bits_per_byte, points))
    return float(np.interp(math.log(total), x, y, left=math.nan, right=math.nan))
