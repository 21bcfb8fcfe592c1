"""The arms of a design by which the rank of attention is moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# fields of attention that move its rank, and what an intervention on one is called
RANK_FIELDS: Mapping[str, str] = {"d_head": "head size", "score_scale": "score scale"}
MIN_LEVELS = 3  # a slope through two is their difference


class InterventionName(NamedTuple):
    """What is moved, and under which mask."""

    field: str
    mask: str

    def __str__(self) -> str:
        return f"{self.field}, {self.mask}"


def rank_interventions(
    architectures: Mapping[str, Mapping[str, Any]], baseline: str
) -> dict[InterventionName, tuple[str, ...]]:
    """Interventions, each with its arms: under one mask, one field of attention moves, and the
    others are the baseline's.
    """
    masks = dict.fromkeys(one["mask"] for one in architectures.values())
    interventions: dict[InterventionName, tuple[str, ...]] = {}
    for mask in masks:
        under_mask = {name: one for name, one in architectures.items() if one["mask"] == mask}
        for field, words in RANK_FIELDS.items():
            arms = _arms_along(under_mask, field, architectures[baseline])
            values = {under_mask[arm]["attention"].get(field) for arm in arms}
            if len(values) >= MIN_LEVELS:
                interventions[InterventionName(words, mask)] = arms
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
