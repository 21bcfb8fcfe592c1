"""Rows of probes brought together: means over runs, over heads and over layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from paribus.record.probe_rows import ProbeRow


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
