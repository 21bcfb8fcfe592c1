"""The control table, and every seed of every arm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paribus.analyse import column_of
from paribus.analyse.findings import ArmFinding
from paribus.analyse.plan_rules import column_measure
from paribus.analyse.seed_scores import explored_gain, moments, seed_scores
from paribus.analyse.study_probes import probe_settings
from paribus.record import ControlLine, Mark
from paribus.report.numbers import (
    DASH,
    decimals_for_width,
    format_line_values,
    format_signed,
    score,
    signed_score,
    significant,
)
from paribus.report.probe_settings import describe_settings, plan_settings
from paribus.report.report_data import ReportData
from paribus.spec.measure import Measure
from paribus.spec.yardstick import PROBE


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
    control_lines = sorted(report.plan.control, key=lambda line: line.mark.place)
    differing: list[ControlRow] = []
    equal: list[ControlRow] = []
    for line in control_lines:
        row = _control_row(line, report.order)
        if line.mark == Mark.EQUAL:
            equal.append(row)
        else:
            differing.append(row)
    return differing, equal


def control_line(report: ReportData, path: str) -> ControlLine | None:
    """The line of the control table about a field or quantity; None where there is none."""
    for line in report.plan.control:
        if line.path == path:
            return line
    return None


def _control_row(line: ControlLine, arms: Sequence[str]) -> ControlRow:
    values = format_line_values(line.path, list(map(line.values.get, arms)), format_value)
    note = f"allowed: {line.allowed}" if line.allowed else line.note
    return ControlRow(
        path=line.path,
        mark=line.mark,
        meaning=line.mark.meaning,
        values=tuple(values),
        note=note,
    )


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
    lines: list[SeedLine] = []
    for seed in report.findings.seeds:
        unit = report.measure.unit
        scores = [_format_score(rows[arm, seed], column, unit) for arm in report.order]
        gains = [_format_gain(arm, seed, unit) for arm in report.findings.arms]
        lines.append(SeedLine(seed, tuple(scores), tuple(gains)))
    return lines


def seed_table(report: ReportData, column: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Scores by seed of many arms: one line per arm, then one line per comparison with its
    gains.
    """
    seeds, summaries = seed_lines(report), score_summary(report, column)
    lines: list[tuple[str, ...]] = []
    for place, arm in enumerate(report.order):
        scores = [line.scores[place] for line in seeds]
        lines.append((arm, *scores, *summaries[place]))
    for place, arm in enumerate(report.findings.arms):
        gains = [line.gains[place] for line in seeds]
        lines.append((f"gain of {report.findings.label(arm)}", *gains, *gain_moments(arm)))
    names = [f"seed {line.seed}" for line in seeds]
    return ("", *names, "mean", "spread"), lines


def gain_moments(arm: ArmFinding) -> tuple[str, str]:
    """Mean and spread of a comparison's gains."""
    comparison = arm.judgement.comparison
    if comparison is None:
        return DASH, DASH
    unit = comparison.unit
    return signed_score(comparison.effect, unit), score(comparison.sd, unit)


def score_summary(report: ReportData, column: str) -> list[tuple[str, str]]:
    """Mean and spread of each arm's score at a yardstick; where not all of its runs have one,
    of how many it is.
    """
    n_seeds = len(report.findings.seeds)
    unit = column_measure(report.plan, column).unit
    summaries: list[tuple[str, str]] = []
    for arm in report.order:
        own = moments(list(seed_scores(report.findings, arm, column).values()))
        count = "" if own.n == n_seeds else f" ({own.n} of {n_seeds})"
        summaries.append((score(own.mean, unit) + count, score(own.sd, unit)))
    return summaries


SECONDARY_HEADING = ("arm", "mean", "spread", "gain", "95 % interval, exploratory", "seeds")
INSIDE_HEADING = ("arm", "mean", "spread", "difference", "95 % interval, exploratory", "seeds")
INSIDE_NOTE = (
    "What probes found inside of the models. Neither way is better, so there is no verdict: a"
    " difference is the arm minus the baseline, with paired intervals over seeds that are not"
    " corrected for how many there are. They describe, and do not show that what is inside is the"
    " cause of an effect."
)
NamedTable = tuple[str, list[tuple[str, ...]]]


def secondary_tables(report: ReportData) -> list[NamedTable]:
    """Every other yardstick of the design: paired intervals to explore, for no comparison is
    added; no verdict.
    """
    return _other_tables(report, is_inside=False)


def inside_tables(report: ReportData) -> list[NamedTable]:
    """Every quantity that a probe finds inside, of which neither way is better: the differences
    are arm minus baseline.
    """
    return _other_tables(report, is_inside=True)


def _other_tables(report: ReportData, is_inside: bool) -> list[NamedTable]:
    tables: list[NamedTable] = []
    for yardstick in report.plan.design.others:
        name = column_of(yardstick.table)
        measure = column_measure(report.plan, name)
        if measure.is_inside == is_inside:
            title = _table_title(name, measure) + _settings_ending(report, yardstick.table)
            tables.append((title, _secondary_lines(report, name)))
    return tables


def _settings_ending(report: ReportData, yardstick: Mapping[str, Any]) -> str:
    """What tells a probe from the others of its kind in the study; empty for any other
    yardstick.
    """
    if yardstick["kind"] != PROBE:
        return ""
    words = describe_settings(probe_settings(yardstick), plan_settings(report.plan))
    return f"; {words}" if words else ""


def _table_title(name: str, measure: Measure) -> str:
    """The column, and what it is measured in where the column does not say it. What a probe finds
    is of the test text unless it says otherwise.
    """
    if measure.is_likelihood:
        return name
    if measure.is_inside:
        name = name.removesuffix(".test")
        return f"{name}, in {measure.unit}" if measure.unit else name
    if measure.kind in name:
        return f"{name}, in {measure.unit}"
    return f"{name}, {measure.kind} in {measure.unit}"


def _secondary_lines(report: ReportData, column: str) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for arm, summary in zip(report.order, score_summary(report, column), strict=True):
        lines.append((arm, *summary, *_exploratory_gain(report, arm, column)))
    return lines


def _exploratory_gain(report: ReportData, arm: str, column: str) -> tuple[str, str, str]:
    """The mean paired gain, its interval and the seeds it is of."""
    if arm == report.findings.baseline:
        return DASH, DASH, DASH
    gain = explored_gain(report.findings, arm, column)
    if gain.effect is None or gain.low is None or gain.high is None:
        return DASH, DASH, str(gain.n)
    unit = column_measure(report.plan, column).unit
    digits = decimals_for_width((gain.high - gain.low) / 2, unit)
    interval = f"{format_signed(gain.low, digits)} to {format_signed(gain.high, digits)}"
    return format_signed(gain.effect, digits), interval, str(gain.n)


def _format_score(row: dict[str, Any], column: str, unit: str) -> str:
    value = row.get(column)
    if row["outcome"] == "finished" and value is not None:
        return score(value, unit)
    return row["outcome"]


def _format_gain(arm: ArmFinding, seed: int, unit: str) -> str:
    """A comparison's gain in one seed."""
    gain = None
    for one in arm.judgement.seeds:
        if one.seed == seed:
            gain = one.gain
    if gain is None:
        return DASH
    return signed_score(gain, unit)
