"""What the seeds of an arm scored at any yardstick of a study: mean, spread, and a paired gain
to explore.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from paribus.analyse.findings import Findings
from paribus.analyse.interval import MIN_SEEDS, interval
from paribus.analyse.plan_rules import column_measure
from paribus.analyse.run_table import Row, select_rows
from paribus.analyse.undertrained import UNDERTRAINED

SAME_RATE = 1e-9  # rates that differ by less are one rate
# purposes of runs of the reported seeds that are as long as the reported ones
AT_FULL_LENGTH = (
    "reported",
    "bracket",
)


@dataclass(frozen=True)
class ScoreMoments:
    """The mean of some scores, their standard deviation, and how many there are; None where
    there are too few.
    """

    mean: float | None
    sd: float | None
    n: int


@dataclass(frozen=True)
class ExploredGain:
    """A mean paired gain with its interval; None where there are too few pairs for one."""

    effect: float | None
    low: float | None
    high: float | None
    n: int


def seed_scores(findings: Findings, arm: str, column: str) -> dict[int, float]:
    """Seed → an arm's score at a yardstick, where it has one."""
    scores = {}
    for row in findings.reported_rows:
        has_score = row["outcome"] != UNDERTRAINED and row.get(column) is not None
        if row["arm"] == arm and has_score:
            scores[row["seed"]] = row[column]
    return scores


def moments(values: Sequence[float]) -> ScoreMoments:
    """Mean and standard deviation of scores."""
    mean = fmean(values) if values else None
    sd = stdev(values) if len(values) > 1 else None
    return ScoreMoments(mean, sd, len(values))


def explored_gain(findings: Findings, arm: str, column: str) -> ExploredGain:
    """The gain of an arm over the baseline at a yardstick, over the seeds in which both have a
    score.
    """
    before = seed_scores(findings, findings.baseline, column)
    after = seed_scores(findings, arm, column)
    measure = column_measure(findings.plan, column)
    gains = [measure.gain(before[seed], after[seed]) for seed in before if seed in after]
    if len(gains) < MIN_SEEDS:
        return ExploredGain(None, None, None, len(gains))
    low, high = map(float, interval(gains))
    return ExploredGain(fmean(gains), low, high, len(gains))


def scores_at_rate(table: Sequence[Row], arm: str, rate: float, column: str) -> dict[int, float]:
    """Seed → the score of a finished run of an arm at a rate, as long as the reported ones."""
    reported_rows = select_rows(table, purposes=["reported"], arm=arm)
    n_steps = {row["n_steps"] for row in reported_rows}
    scores = {}
    for row in select_rows(table, purposes=AT_FULL_LENGTH, arm=arm):
        is_whole = row["outcome"] == "finished" and row["n_steps"] in n_steps
        if is_whole and abs(row["rate"] / rate - 1) < SAME_RATE:
            scores[row["seed"]] = row[column]
    return scores
