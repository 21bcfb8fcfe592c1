"""A factorial design as a table, and what is said against one that is wrong."""

from typing import Any

import pytest
from trained_study import design_table

from paribus.errors import SpecError
from paribus.spec.design_reading import load_design

FACTORS = {
    "mask": {"path": "architecture.mask", "levels": ["full", "causal"]},
    "positions": {
        "levels": {
            "turned": {"architecture": {"positions": "rotary"}},
            "none": {"architecture": {"positions": "none"}},
        }
    },
}


def factorial(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    crossed = {"arms": None, "factor": None, "factors": FACTORS, "baseline": "full+turned"}
    return design_table(crossed | (changes or {}))


def complaint(table: Any, scale: str | None = None, changes: dict[str, Any] | None = None) -> str:
    with pytest.raises(SpecError) as caught:
        load_design(table, scale, changes)
    return str(caught.value)
