"""Rows of probes brought together: means over seeds, over heads and over layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from paribus.analyse.findings import Findings
from paribus.analyse.run_answers import read_answers
from paribus.record import Study, TaskEvaluation
from paribus.record.probe_rows import ProbeRow, probe_rows_path, read_probe_rows
from paribus.spec.yardstick import PROBE


@dataclass(frozen=True)
class ValueRange:
    """The mean of some values, the lowest and the highest."""

    mean: float
    low: float
    high: float


def value_range(values: Sequence[float]) -> ValueRange:
    return ValueRange(fmean(values), min(values), max(values))


def finite_rows(rows: Iterable[ProbeRow]) -> list[ProbeRow]:
    """Rows that have a value."""
    return [row for row in rows if math.isfinite(row.value)]


def mean_rows(rows: Iterable[ProbeRow]) -> list[ProbeRow]:
    """One row for each place and quantity: the mean of those that differ in nothing else, in the
    order of first appearance.
    """
    groups: dict[ProbeRow, list[ProbeRow]] = {}
    for row in finite_rows(rows):
        groups.setdefault(replace(row, value=0.0, n=0), []).append(row)
    means = []
    for own in groups.values():
        value = fmean(row.value for row in own)
        means.append(replace(own[0], value=value, n=sum(row.n for row in own)))
    return means


def mean_over_heads(rows: Iterable[ProbeRow]) -> list[ProbeRow]:
    """One row for each layer, quantity and point of a curve."""
    return mean_rows(replace(row, head=None) for row in rows)


def mean_over_layers(rows: Iterable[ProbeRow]) -> list[ProbeRow]:
    """One row for each quantity and point of a curve."""
    return mean_rows(replace(row, head=None, layer=None) for row in rows)


def study_probe_rows(study: Study, findings: Findings) -> dict[str, tuple[ProbeRow, ...]]:
    """What probes found in each arm of a study, means over its seeds; arms of which runs keep no
    rows are left out.
    """
    found: dict[str, list[ProbeRow]] = {}
    for row in findings.reported_rows:
        text = findings.plan.arms[row["arm"]].text
        own = _run_probe_rows(study.root / row["run"], findings, text, row["n_steps"])
        if own:
            found.setdefault(row["arm"], []).extend(own)
    ordered = [arm for arm in findings.plan.order if arm in found]
    return {arm: tuple(mean_rows(found[arm])) for arm in ordered}


def _run_probe_rows(folder: Path, findings: Findings, text: str, n_steps: int) -> list[ProbeRow]:
    """The rows that the answers of a run were made from. Of two probes of one kind the first
    counts, for their texts differ.
    """
    tables = [other.table for other in findings.plan.design.others]
    inside = [table for table in tables if table["kind"] == PROBE]
    paths: dict[str, Path] = {}
    for answers in read_answers(folder, inside, text, n_steps).values():
        assert isinstance(answers, TaskEvaluation)
        probe, head = answers.head.task["probe"], answers.head
        paths.setdefault(probe["kind"], probe_rows_path(folder, probe, head.items, head.weights))
    rows: list[ProbeRow] = []
    for path in paths.values():
        if path.exists():
            rows += read_probe_rows(path)
    return rows
