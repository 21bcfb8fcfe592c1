"""The control table: a line for each field of all arms, with a mark that says what its values
mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self

MATCH_SHIFT = "moved by the match"  # a line of a quantity: what a match moved beside its size


class Mark(StrEnum):
    """What a line of the control table says of its field; a table shows the lines in this order."""

    meaning: str

    CONFOUND = "✗", "confound"
    FACTOR = "Δ", "the factor"
    MATCHED = "≈", "matched"
    TUNED = "⟳", "tuned alike"
    FOLLOWS = "→", "follows from the factor"
    EQUAL = "✓", "equal"

    def __new__(cls, sign: str, meaning: str) -> Self:
        mark = str.__new__(cls, sign)
        mark._value_ = sign
        mark.meaning = meaning
        return mark

    @property
    def place(self) -> int:
        """Where its lines stand in a table, counted from 0."""
        return list(Mark).index(self)


# the line of the contexts that arms lose; of a further yardstick, `cut contexts.others.0`
CUT_CONTEXTS = "cut contexts"


@dataclass(frozen=True)
class ControlLine:
    """One field or quantity of all arms, a line of the control table."""

    __pydantic_config__: ClassVar[dict[str, bool]] = {"strict": False}  # a plan holds it as a table

    path: str
    mark: Mark
    values: Mapping[str, Any]  # by arm
    note: str = ""
    allowed: str | None = None  # why a confound is let pass
