"""The base of all specs, and the types of numbers in their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Spec(BaseModel):
    """The base of all specs: frozen, strict, no unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True
    )


def as_tuple(value: Any) -> Any:
    """One value alone is short for a list of it; a list of none is refused."""
    if isinstance(value, list | tuple) and not value:
        raise ValueError("is an empty list; give at least one")
    if isinstance(value, list | tuple):
        return tuple(value)
    return (value,)


def with_tuples(value: Any) -> Any:
    """A table in which every list is a tuple, as specs have them."""
    if isinstance(value, Mapping):
        return {key: with_tuples(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(with_tuples, value))
    return value


def read_kind(value: Any) -> Any:
    """`positions = "rotary"` is short for `positions = { kind = "rotary" }`."""
    if isinstance(value, str):
        return {"kind": value}
    return value


MAX_SIZE = 10_000_000  # of any size; beyond it, a slip of the finger
Count = Annotated[int, Field(ge=1, le=MAX_SIZE)]
NonNegative = Annotated[int, Field(ge=0, le=MAX_SIZE)]
LayerCount = Annotated[int, Field(ge=1, le=4096)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False), AfterValidator(abs)]  # -0.0 is 0
