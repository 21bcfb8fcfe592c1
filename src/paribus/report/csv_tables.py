"""Rows of a study as comma-separated text: all that a reader needs to compute every printed
number again.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any

from paribus.analyse import Comparison
from paribus.analyse.document_sums import document_sums
from paribus.analyse.findings import ArmFinding
from paribus.analyse.verdict_table import verdict_table
from paribus.record.rows import CLOCK_FIELDS
from paribus.report.report_data import ReportData
from paribus.report.times import without_clock

COMPARISON_FIELDS = ("level", "n_comparisons", "sd", "inner_low", "inner_high", "margin")
INTERVAL_COLUMNS = (*COMPARISON_FIELDS, "plus_margin_low", "minus_margin_high")
SIDE_COLUMNS = ("new_low", "new_high", "multiplier", "multiplier_low", "multiplier_high")
CLOCK_COLUMNS = ("run", "arm", "seed", "purpose", *CLOCK_FIELDS)


def to_csv(rows: Iterable[dict[str, Any]]) -> str:
    """Rows as text, their columns in the order of first appearance."""
    rows = list(rows)
    text = io.StringIO()
    columns = list(dict.fromkeys(chain.from_iterable(rows)))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def run_names(report: ReportData) -> dict[tuple[str, int], str]:
    """The reported run of each arm and seed, by name."""
    return {(row["arm"], row["seed"]): row["run"] for row in report.findings.reported_rows}


def run_rows(report: ReportData) -> list[dict[str, Any]]:
    """One row a run, but for the clock."""
    return list(map(without_clock, report.rows))


def verdict_rows(report: ReportData) -> list[dict[str, Any]]:
    """One row a contrast, one a comparison, with what each interval rests on, and last the
    control.
    """
    rows = []
    for row, columns in zip(verdict_table(report.findings), _rests_on(report), strict=True):
        rows.append({**row, **columns})
    return sorted(rows, key=lambda row: row["contrast"] is None)


def _rests_on(report: ReportData) -> Iterator[dict[str, Any]]:
    """What each row of the verdict table rests on, in its order."""
    for arm in report.findings.arms:
        yield {**_interval_columns(arm.judgement.comparison), **_side_columns(arm)}
    for contrast in report.findings.contrasts:
        yield _interval_columns(contrast.comparison)
    if report.findings.control is not None:
        yield _interval_columns(None)
    for _ in report.findings.checks:
        yield _interval_columns(None)


def _interval_columns(comparison: Comparison | None) -> dict[str, Any]:
    """Of an interval: its level, the size of the family, and what decides on the margin.

    That is the inner interval; where each seed has its own margin, the lower end of gain + margin
    and the upper end of gain − margin.
    """
    columns: dict[str, Any] = dict.fromkeys(INTERVAL_COLUMNS)
    if comparison is None:
        return columns
    for name in COMPARISON_FIELDS:
        columns[name] = getattr(comparison, name)
    if comparison.margin_intervals is not None:
        plus, minus = comparison.margin_intervals.deciding_ends
        columns |= {"plus_margin_low": plus, "minus_margin_high": minus}
    return columns


def _side_columns(arm: ArmFinding) -> dict[str, Any]:
    """What is printed beside a verdict: the interval on new documents, and the compute
    multiplier with its own.
    """
    columns: dict[str, Any] = dict.fromkeys(SIDE_COLUMNS)
    if arm.new_documents is not None and arm.new_documents.interval is not None:
        interval = arm.new_documents.interval
        columns |= {"new_low": interval.low, "new_high": interval.high}
    times = arm.multiplier
    if times is not None:
        columns |= {
            "multiplier": times.factor,
            "multiplier_low": times.low,
            "multiplier_high": times.high,
        }
    return columns


def curve_rows(report: ReportData) -> list[dict[str, Any]]:
    """What every reported run wrote along the way, but for the clock; only its last row is
    annealed.
    """
    names = run_names(report)
    table = []
    for arm in report.order:
        for seed, rows in sorted(report.findings.runs[arm].items()):
            run = {"arm": arm, "seed": seed, "run": names[arm, seed]}
            for row in rows:
                annealed = row is rows[-1]
                table.append({**run, "annealed": annealed, **_flat_values(without_clock(row))})
    return table


def document_rows(report: ReportData) -> list[dict[str, Any]]:
    """One row a document and reported run: how many bits its targets took, of how many bytes; of
    a task, the score of its items and their count.

    The interval on new documents comes from these. An anonymous report numbers the documents.
    """
    numbers: dict[str, str] = {}
    rows = []
    columns = ("bits", "bytes") if report.measure.is_likelihood else ("score", "count")
    for arm in report.order:
        for seed, evaluation in sorted(report.findings.evaluations[arm].items()):
            for document, (total, count) in document_sums(evaluation).items():
                name = document
                if report.anonymous:
                    name = numbers.setdefault(document, f"document-{len(numbers) + 1}")
                row = {"arm": arm, "seed": seed, "document": name}
                rows.append({**row, **dict(zip(columns, (total, count), strict=True))})
    return rows


def inside_rows(report: ReportData) -> list[dict[str, Any]]:
    """One row for each value that a probe found in an arm, a mean over seeds: what figures draw."""
    rows = []
    for number, probe in enumerate(report.probes, 1):
        for arm in report.order:
            for row in probe.rows.get(arm, ()):
                rows.append({"arm": arm, "number": number, **asdict(row)})
    return rows


def inside_rows_by_seed(report: ReportData) -> list[dict[str, Any]]:
    """One row for each value that a probe found in a reported run."""
    rows = []
    for number, probe in enumerate(report.probes, 1):
        for arm in report.order:
            for seed, found in sorted(probe.rows_by_seed.get(arm, {}).items()):
                for row in found:
                    rows.append({"arm": arm, "seed": seed, "number": number, **asdict(row)})
    return rows


def design_json(report: ReportData) -> str:
    """The design as it was resolved, as JSON: margin, looks, comparisons, contrasts, sweeps and
    lengths.
    """
    plan = report.plan
    table = {
        "name": plan.name,
        "question": plan.question,
        "fingerprint": plan.fingerprint,
        "order": plan.order,
        "design": plan.design.table,
        "rule": plan.rule,
    }
    return json.dumps(table, indent=2, sort_keys=True) + "\n"


def clock_rows(report: ReportData) -> list[dict[str, Any]]:
    """The seconds of every run, and of one that compiled those of compiling and of waiting."""
    rows: list[dict[str, Any]] = []
    for row in report.rows:
        rows.append({name: row[name] for name in CLOCK_COLUMNS if name in row})
    return rows


def _flat_values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not isinstance(value, dict | list)}
