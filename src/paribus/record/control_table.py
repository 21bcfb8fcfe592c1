"""The control table: a line for each field of all arms, with a mark that says what its values
mean; and for each comparison that gets a verdict, what its arms differ in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self

MATCH_SHIFT = "moved by the match"  # a line of a quantity: what a match moved beside its size
UPDATES = "updates of the weights"  # a line of a quantity, where a budget leaves them unequal
BUDGET_TOLERANCE = 0.02  # of a budget, between two arms that are compared, and of their updates


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
CUT_TOLERANCE = 0.01  # of the bytes of all contexts, between two arms that are compared
# the line of the items that arms have trained on; of a further yardstick, with `.others.0`
TRAINED_ITEMS = "items in training text"
TRAINED_TOLERANCE = 0.01  # of the items, between two arms that are compared
QUESTION_PARAMETERS = "parameters used by this question"  # a line where an arm has a head


@dataclass(frozen=True)
class ControlLine:
    """One field or quantity of all arms, a line of the control table."""

    __pydantic_config__: ClassVar[dict[str, bool]] = {"strict": False}  # a plan holds it as a table

    path: str
    mark: Mark
    values: Mapping[str, Any]  # by arm
    note: str = ""
    allowed: str | None = None  # why a confound is let pass


@dataclass(frozen=True)
class JudgedDifference:
    """What a judged pair of arms, or a contrast, differs in.

    `simple` is one factor, `interaction` how the effect of one factor depends on another,
    `compound interaction` how that of the first depends on all others together, and `compound`
    several factors at once, whose effects nothing can tell apart; `none` is a pair that
    differs in nothing that is written.
    """

    __pydantic_config__: ClassVar[dict[str, bool]] = {"strict": False}  # a plan holds it as a table

    kind: Literal["simple", "interaction", "compound interaction", "compound", "none"]
    factors: tuple[str, ...]  # in words
    arm: str | None = None
    against: str | None = None
    contrast: str | None = None
    reason: str | None = None  # why a compound one is meant
    allowed: tuple[str, ...] = ()  # in words: what differs besides, and is let pass
    # clauses without a subject: what totals leave unequal, and which checks its word hangs on
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # in words: what may differ besides, and no record says
    # in words: what follows from the factor and could be otherwise, such as sizes
    details: tuple[str, ...] = ()

    @property
    def is_compound(self) -> bool:
        return self.kind in ("compound", "compound interaction")

    @property
    def mark(self) -> str:
        """What stands beside the word of a verdict in a table; nothing where one factor differs and
        nothing is allowed or unknown besides, and nothing is noted.
        """
        marks = [f"compound: {', '.join(self.factors)}"] if self.is_compound else []
        return "; ".join((*marks, *self._remarks, *self.notes))

    @property
    def description(self) -> str:
        """What it differs in, as a clause without its subject."""
        details = [f"with {', '.join(self.details)}"] if self.details else []
        return "; ".join((self._difference, *details, *self._remarks, *self.notes))

    @property
    def _remarks(self) -> list[str]:
        remarks = []
        if self.allowed:
            remarks.append(f"and, allowed: {', '.join(self.allowed)}")
        if self.unknown:
            remarks.append(f"and, not known: {'; '.join(self.unknown)}")
        return remarks

    @property
    def _difference(self) -> str:
        match self.kind:
            case "simple":
                return f"differs in {self.factors[0]}"
            case "interaction":
                return f"is the interaction of {' and '.join(self.factors)}"
            case "compound interaction":
                first, *others = self.factors
                return f"is the interaction of {first} with {' and '.join(others)} together"
            case "compound" if len(self.factors) == 1:
                return (
                    f"differs in {self.factors[0]}, and its weights cannot be taken apart into"
                    " pairs that differ in that alone, in one direction"
                )
            case "compound":
                return (
                    f"differs in {len(self.factors)} factors: {', '.join(self.factors)}; the effect"
                    " is of all of them together"
                )
            case "none":
                return "differs in nothing that the design writes"
