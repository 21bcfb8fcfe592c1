"""The effective rank of a run's attention, and the arms along which a design moves it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from statistics import fmean
from typing import Any

from paribus.errors import RecordError
from paribus.record.probe_rows import ProbeRow

EFFECTIVE_RANK = "effective rank"
# fields of attention that move its rank, and what an intervention on one is called
RANK_FIELDS: Mapping[str, str] = {"d_head": "head size", "score_scale": "score scale"}
MIN_LEVELS = 3  # a slope through two is their difference


def mean_effective_rank(rows: Iterable[ProbeRow], variant: str = "") -> float:
    """The mean over layers and heads of the main stack's self-attention; RecordError where no row
    says it.
    """
    values: list[float] = []
    for row in rows:
        is_rank = row.quantity == EFFECTIVE_RANK and row.variant == variant
        is_here = row.stack == "stack" and row.branch == "attention"
        if is_rank and is_here and isfinite(row.value):
            values.append(row.value)
    if not values:
        raise RecordError(
            f"no row has the {EFFECTIVE_RANK} of the main stack's attention; make them with"
            " `paribus probe --probes rank`"
        )
    return fmean(values)


def rank_interventions(
    architectures: Mapping[str, Mapping[str, Any]], baseline: str
) -> dict[str, tuple[str, ...]]:
    """Interventions by name, each with its arms: under one mask, one field of attention moves, and
    the others are the baseline's.
    """
    masks = dict.fromkeys(one["mask"] for one in architectures.values())
    interventions: dict[str, tuple[str, ...]] = {}
    for mask in masks:
        under_mask = {name: one for name, one in architectures.items() if one["mask"] == mask}
        for field, words in RANK_FIELDS.items():
            arms = _arms_along(under_mask, field, architectures[baseline])
            values = {under_mask[arm]["attention"].get(field) for arm in arms}
            if len(values) >= MIN_LEVELS:
                interventions[f"{words}, {mask}"] = arms
    return interventions


def _arms_along(
    architectures: Mapping[str, Mapping[str, Any]], field: str, base: Mapping[str, Any]
) -> tuple[str, ...]:
    """The arms whose attention is that of the base in everything but one field."""
    wanted = {**base["attention"], field: None}
    return tuple(
        name
        for name, architecture in architectures.items()
        if {**architecture["attention"], field: None} == wanted
    )
