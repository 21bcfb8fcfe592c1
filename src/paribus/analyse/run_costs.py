"""What the runs of a study cost: their time, and the FLOPs of each purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from paribus.analyse.run_table import Row


@dataclass(frozen=True)
class RunTimes:
    """Means over the runs of an arm."""

    seconds_per_run: float
    seconds_per_step: float
    tokens_per_second: float


def run_times(rows: Sequence[Row], arm: str) -> RunTimes | None:
    """How long the runs of an arm took; None where no clock was kept."""
    timed_rows = [row for row in rows if row["arm"] == arm and row["seconds"]]
    if not timed_rows:
        return None
    return RunTimes(
        seconds_per_run=fmean(row["seconds"] for row in timed_rows),
        seconds_per_step=fmean(row["seconds"] / row["n_steps"] for row in timed_rows),
        tokens_per_second=fmean(row["tokens_read"] / row["seconds"] for row in timed_rows),
    )


def flops_by_purpose(rows: Sequence[Row]) -> dict[str, float]:
    """Purpose → the training FLOPs of its runs; sweeps are there with 0 where there were none."""
    flops: dict[str, float] = {"sweep": 0.0}
    for row in rows:
        flops[row["purpose"]] = flops.get(row["purpose"], 0.0) + (row["dense_flops"] or 0.0)
    return flops
