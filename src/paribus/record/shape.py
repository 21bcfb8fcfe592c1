"""Shapes: tables of JSON held to types once, where a file is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from paribus.errors import RecordError

Number = int | FiniteFloat
ShapeT = TypeVar("ShapeT", bound=BaseModel)
MAX_NAMED = 3  # faults of one file


class Shape(BaseModel):
    """A table of which some fields are read."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class WholeShape(Shape):
    """A table of which some fields are read, and which is also shown, compared or hashed as a
    whole.
    """

    table: dict[str, Any] = Field(repr=False)

    @model_validator(mode="before")
    @classmethod
    def _with_table(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {**value, "table": dict(value)}
        return value


def parse_table(shape: type[ShapeT], table: Any, path: Path, remedy: str) -> ShapeT:
    """A table as a value of its shape; RecordError says where the file at `path` is not of it."""
    try:
        return shape.model_validate(table)
    except (ValidationError, RecursionError) as fault:
        raise RecordError(f"{path} is of another shape: {_faults(fault)}; {remedy}") from fault


def _faults(fault: ValidationError | RecursionError) -> str:
    """What is not of its shape, in words: the first few faults."""
    if isinstance(fault, RecursionError):
        return "tables inside tables without end"
    faults = fault.errors(include_url=False, include_context=False)
    descriptions = []
    for one in faults[:MAX_NAMED]:
        place = ".".join(map(str, one["loc"])) or "it"
        descriptions.append(f"{place}: {one['msg']}")
    more = len(faults) - MAX_NAMED
    return "; ".join(descriptions) + (f", and {more} more" if more > 0 else "")
