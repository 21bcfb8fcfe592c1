"""What the runs of a study cost: their time, and the FLOPs of each purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from paribus.analyse.run_table import Row
from paribus.record.rows import seconds_without_compiling


@dataclass(frozen=True)
class RunTimes:
    """Means over the runs of an arm. Steps and tokens are timed without what was compiled and
    without the wait for others who compile, which are part of a run's time.
    """

    seconds_per_run: float
    seconds_per_step: float
    tokens_per_second: float
    compile_seconds_per_run: float = 0.0
    compile_wait_seconds_per_run: float = 0.0


def run_times(rows: Sequence[Row], arm: str) -> RunTimes | None:
    """How long the runs of an arm took; None where no clock was kept."""
    timed_rows: list[Row] = []
    for row in rows:
        if row["arm"] == arm and row["seconds"] and seconds_without_compiling(row) > 0:
            timed_rows.append(row)
    if not timed_rows:
        return None
    steps = [seconds_without_compiling(row) / row["n_steps"] for row in timed_rows]
    speeds = [row["tokens_read"] / seconds_without_compiling(row) for row in timed_rows]
    return RunTimes(
        seconds_per_run=fmean(row["seconds"] for row in timed_rows),
        seconds_per_step=fmean(steps),
        tokens_per_second=fmean(speeds),
        compile_seconds_per_run=_mean_seconds(timed_rows, "compile_seconds"),
        compile_wait_seconds_per_run=_mean_seconds(timed_rows, "compile_wait_seconds"),
    )


def _mean_seconds(rows: Sequence[Row], column: str) -> float:
    """The mean of a column that only runs have which compiled."""
    return fmean(row.get(column) or 0.0 for row in rows)


def flops_by_purpose(rows: Sequence[Row]) -> dict[str, float]:
    """Purpose → the training FLOPs of its runs; sweeps are there with 0 where there were none."""
    flops: dict[str, float] = {"sweep": 0.0}
    for row in rows:
        flops[row["purpose"]] = flops.get(row["purpose"], 0.0) + (row["dense_flops"] or 0.0)
    return flops
