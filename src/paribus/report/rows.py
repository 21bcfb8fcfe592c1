"""Rows of a study as comma-separated text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from paribus.analyse.findings import verdict_table
from paribus.report.material import Material
from paribus.report.times import clockless


def comma_separated(rows: Iterable[dict[str, Any]]) -> str:
    """Rows as text, their columns in the order of first appearance."""
    rows = list(rows)
    written = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(written, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def run_rows(material: Material) -> list[dict[str, Any]]:
    """One row a run, but for the clock."""
    return [clockless(row) for row in material.rows]


def verdict_rows(material: Material) -> list[dict[str, Any]]:
    """One row a contrast, then one a comparison."""
    return sorted(verdict_table(material.found), key=lambda row: row["contrast"] is None)


def curve_rows(material: Material) -> list[dict[str, Any]]:
    """What every reported run wrote along the way, but for the clock; only its last row is annealed."""
    names = {(row["arm"], row["seed"]): row["run"] for row in material.found.reported}
    return [
        {
            "arm": arm, "seed": seed, "run": names[arm, seed], "annealed": row is rows[-1], **_flat(clockless(row)),
        }
        for arm in material.order for seed, rows in sorted(material.found.runs[arm].items()) for row in rows
    ]  # fmt: skip


def clock_rows(material: Material) -> list[dict[str, Any]]:
    """The seconds of every run."""
    kept = ("run", "arm", "seed", "purpose", "seconds")
    return [{name: row[name] for name in kept} for row in material.rows]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not isinstance(value, dict | list)}
