"""Rows of a study as comma-separated text: all that a reader needs to compute every printed
number again.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from paribus.analyse import Comparison
from paribus.analyse.document_sums import document_sums
from paribus.analyse.findings import ArmFinding
from paribus.analyse.verdict_table import verdict_table
from paribus.report.report_data import ReportData
from paribus.report.times import without_clock


def to_csv(rows: Iterable[dict[str, Any]]) -> str:
    """Rows as text, their columns in the order of first appearance."""
    rows = list(rows)
    written = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(written, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def run_rows(report: ReportData) -> list[dict[str, Any]]:
    """One row a run, but for the clock."""
    return [without_clock(row) for row in report.rows]


def verdict_rows(report: ReportData) -> list[dict[str, Any]]:
    """One row a contrast, one a comparison, with what each interval rests on, and last the
    control.
    """
    found = report.findings
    rests_on = [
        {**_interval_columns(arm.judgement.comparison), **_side_columns(arm)} for arm in found.arms
    ]
    rests_on += [_interval_columns(one.comparison) for one in found.contrasts]
    rests_on += [] if found.control is None else [_interval_columns(None)]
    rows = [{**row, **more} for row, more in zip(verdict_table(found), rests_on, strict=True)]
    return sorted(rows, key=lambda row: row["contrast"] is None)


def _interval_columns(comparison: Comparison | None) -> dict[str, Any]:
    """Of an interval: its level, the size of the family, and what decides on the margin.

    That is the inner interval; where each seed has its own margin, the lower end of gain + margin
    and the upper end of gain − margin.
    """
    names = ("level", "n_comparisons", "sd", "inner_low", "inner_high", "margin")
    if comparison is None or comparison.margin_intervals is None:
        plus, minus = (None, None)
    else:
        plus, minus = comparison.margin_intervals.deciding_ends
    kept = {name: None if comparison is None else getattr(comparison, name) for name in names}
    return {**kept, "plus_margin_low": plus, "minus_margin_high": minus}


def _side_columns(arm: ArmFinding) -> dict[str, Any]:
    """What is printed beside a verdict: the interval on new documents, and the compute
    multiplier with its own.
    """
    crossed = None if arm.new_documents is None else arm.new_documents.interval
    times = arm.multiplier
    return {
        "new_low": None if crossed is None else crossed.low,
        "new_high": None if crossed is None else crossed.high,
        "multiplier": None if times is None else times.factor,
        "multiplier_low": None if times is None else times.low,
        "multiplier_high": None if times is None else times.high,
    }


def curve_rows(report: ReportData) -> list[dict[str, Any]]:
    """What every reported run wrote along the way, but for the clock; only its last row is
    annealed.
    """
    names = {(row["arm"], row["seed"]): row["run"] for row in report.findings.reported_rows}
    return [
        {
            "arm": arm,
            "seed": seed,
            "run": names[arm, seed],
            "annealed": row is rows[-1],
            **_flat_values(without_clock(row)),
        }
        for arm in report.order
        for seed, rows in sorted(report.findings.runs[arm].items())
        for row in rows
    ]


def document_rows(report: ReportData) -> list[dict[str, Any]]:
    """One row a document and reported run: how many bits its targets took, of how many bytes.

    The interval on new documents comes from these. An anonymous report numbers the documents.
    """
    names: dict[str, str] = {}
    rows = []
    for arm in report.order:
        for seed, found in sorted(report.findings.evaluations[arm].items()):
            for document, (bits, n_bytes) in document_sums(found).items():
                name = names.setdefault(
                    document, f"document-{len(names) + 1}" if report.anonymous else document
                )
                rows.append(
                    {"arm": arm, "seed": seed, "document": name, "bits": bits, "bytes": n_bytes}
                )
    return rows


def design_json(report: ReportData) -> str:
    """The design as it was resolved, as JSON: margin, looks, comparisons, contrasts, sweeps and
    lengths.
    """
    plan = report.plan
    shown = {
        "name": plan.name,
        "question": plan.question,
        "fingerprint": plan.fingerprint,
        "order": plan.order,
        "design": plan.design.table,
        "rule": plan.rule,
    }
    return json.dumps(shown, indent=2, sort_keys=True) + "\n"


def clock_rows(report: ReportData) -> list[dict[str, Any]]:
    """The seconds of every run."""
    kept = ("run", "arm", "seed", "purpose", "seconds")
    return [{name: row[name] for name in kept} for row in report.rows]


def _flat_values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not isinstance(value, dict | list)}
