"""The scales of a design: tables that are laid over the rest of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paribus.errors import SpecError
from paribus.spec.design_spec import SCALES
from paribus.spec.spelling import word_advice


def take_scales(table: dict[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The scales of a design, taken out of its table; SpecError for one that has no such name."""
    scales = table.pop("scales", {})
    if not isinstance(scales, Mapping):
        raise SpecError(f"scales is {scales!r}; write tables {', '.join(SCALES)}")
    for name, own in scales.items():
        if name not in SCALES:
            raise SpecError(
                f"scales.{name} is not a key here; {word_advice(name, SCALES)}scales are"
                f" {', '.join(SCALES)}"
            )
        if not isinstance(own, Mapping):
            raise SpecError(f"scales.{name} is {own!r}; write a table that is laid over the rest")
    return scales
