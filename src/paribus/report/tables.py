"""The control table, and every seed of every arm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paribus.analyse import column_of
from paribus.analyse.seed_scores import explored_gain, moments, seed_scores
from paribus.record import ControlLine, Mark
from paribus.report.numbers import (
    decimals_for_width,
    format_line_values,
    format_plain,
    format_signed,
    score,
    signed_score,
    significant,
)
from paribus.report.report_data import ReportData


@dataclass(frozen=True)
class ControlRow:
    """A field of all arms."""

    path: str
    mark: Mark
    meaning: str
    values: tuple[str, ...]
    note: str


def control_rows(report: ReportData) -> tuple[list[ControlRow], list[ControlRow]]:
    """What differs, confounds first; and what is equal."""
    ordered = sorted(report.plan.control, key=lambda line: line.mark.place)
    lines = [_line(line, report.order) for line in ordered]
    equal = [line for line in lines if line.mark == Mark.EQUAL]
    return [line for line in lines if line.mark != Mark.EQUAL], equal


def _line(line: ControlLine, arms: Sequence[str]) -> ControlRow:
    values = format_line_values(line.path, [line.values.get(arm) for arm in arms], format_value)
    note = f"allowed: {line.allowed}" if line.allowed else line.note
    return ControlRow(line.path, line.mark, line.mark.meaning, values=tuple(values), note=note)


def format_value(value: Any) -> str:
    """A value of the table that is no large number."""
    match value:
        case bool() | None:
            return {True: "true", False: "false", None: "none"}[value]
        case float():
            return significant(value, 6)
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, sort_keys=True)
        case _:
            return str(value)


@dataclass(frozen=True)
class SeedLine:
    """One seed: every arm's score or outcome, and every comparison's gain."""

    seed: int
    scores: tuple[str, ...]
    gains: tuple[str, ...]


def seed_lines(report: ReportData) -> list[SeedLine]:
    """The primary yardstick, seed by seed; a run that failed is named, not dropped."""
    column = column_of(report.plan.design.primary.measure.table)
    rows = {(row["arm"], row["seed"]): row for row in report.findings.reported_rows}
    gains = [{one.seed: one.gain for one in arm.judgement.seeds} for arm in report.findings.arms]
    return [
        SeedLine(
            seed,
            tuple(_format_score(rows[arm, seed], column) for arm in report.order),
            tuple(_format_gain(own.get(seed)) for own in gains),
        )
        for seed in report.findings.seeds
    ]


def seed_table(report: ReportData, column: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Scores by seed of many arms: one line per arm, then one line per comparison with its
    gains.
    """
    lines, arms = seed_lines(report), report.findings.arms
    made = [arm.judgement.comparison for arm in arms]
    moments = [
        ("–", "–") if one is None else (format_signed(one.effect, 4), format_plain(one.sd, 4))
        for one in made
    ]
    scores = [
        (arm, *(line.scores[place] for line in lines), *score_summary(report, column)[place])
        for place, arm in enumerate(report.order)
    ]
    gains = [
        (
            f"gain of {report.findings.label(arm)}",
            *(line.gains[place] for line in lines),
            *moments[place],
        )
        for place, arm in enumerate(arms)
    ]
    return ("", *(f"seed {line.seed}" for line in lines), "mean", "spread"), scores + gains


def score_summary(report: ReportData, column: str) -> list[tuple[str, str]]:
    """Mean and spread of each arm's score at a yardstick; where not all of its runs have one,
    of how many it is.
    """
    found, n_seeds = [], len(report.findings.seeds)
    for arm in report.order:
        own = moments(list(seed_scores(report.findings, arm, column).values()))
        count = "" if own.n == n_seeds else f" ({own.n} of {n_seeds})"
        found.append((score(own.mean) + count, score(own.sd)))
    return found


SECONDARY_HEADING = ("arm", "mean", "spread", "gain", "95 % interval, exploratory", "seeds")


def secondary_tables(report: ReportData) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Every other yardstick of the design: paired intervals to explore, for no comparison is
    added; no verdict.
    """
    names = [column_of(measure.table) for measure in report.plan.design.others]
    return [(name, _secondary_lines(report, name)) for name in names]


def _secondary_lines(report: ReportData, column: str) -> list[tuple[str, ...]]:
    told = zip(report.order, score_summary(report, column), strict=True)
    return [(arm, *moments, *_exploratory_gain(report, arm, column)) for arm, moments in told]


def _exploratory_gain(report: ReportData, arm: str, column: str) -> tuple[str, str, str]:
    """The mean paired gain, its interval and the seeds it is of."""
    if arm == report.findings.baseline:
        return "–", "–", "–"
    made = explored_gain(report.findings, arm, column)
    if made.effect is None or made.low is None or made.high is None:
        return "–", "–", str(made.n)
    digits = decimals_for_width((made.high - made.low) / 2)
    return (
        format_signed(made.effect, digits),
        f"{format_signed(made.low, digits)} to {format_signed(made.high, digits)}",
        str(made.n),
    )


def _format_score(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    if row["outcome"] == "finished" and value is not None:
        return score(value)
    return row["outcome"]


def _format_gain(value: float | None) -> str:
    if value is None:
        return "–"
    return signed_score(value)
