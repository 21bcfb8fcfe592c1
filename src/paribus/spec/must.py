"""What must hold before some pairs get a word: manipulation checks, declared before any run.

`must = [{ that = "tuned > untuned", for = ["tuned"] }]`: where tuning is not shown to help, there
is no word on what tuning changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from paribus.spec.base import Spec
from paribus.spec.contrasts import ArmPair, Contrasts

CHANCE = "chance"  # the score that needs no model: a task's floor, or the unigram model
MUST_EXAMPLE = "must = [{ that = 'tuned > untuned' }]"
THAT_FORMS = (
    "write one arm better than another, as 'tuned > untuned', or a threshold on the gain over"
    " chance, as 'tuned > 90 % of causal' or 'tuned > chance + 0.05'"
)


class Claim(NamedTuple):
    """What `that` says: `arm` is better than `against`, or its gain over chance is at least a
    `share` of that of `against`, or at least `points` in the unit of the scores.
    """

    arm: str
    against: str | None
    share: float | None = None
    points: float | None = None

    @property
    def is_threshold(self) -> bool:
        """Is it read off means over seeds, with no test?"""
        return self.share is not None or self.points is not None

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that it is about."""
        if self.against is None:
            return (self.arm,)
        return self.arm, self.against


def parse_claim(that: str) -> Claim:
    """A claim as it is written; ValueError of anything else."""
    parts = [part.strip() for part in that.split(">")]
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"is {that!r}; {THAT_FORMS}")
    arm, other = parts
    threshold = re.fullmatch(rf"{CHANCE}\s*\+\s*(\d+(?:\.\d+)?)", other)
    if threshold:
        points = float(threshold[1])
        if not points:
            raise ValueError(f"is {that!r}, a threshold of 0; write how much above chance it is")
        return Claim(arm, None, points=points)
    part = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%\s*of\s+(.+)", other)
    if part is None:
        return Claim(arm, other)
    share = float(part[1]) / 100
    if not 0 < share <= 1:
        raise ValueError(f"is {that!r}; use above 0 and up to 100 % of another arm's gain")
    return Claim(arm, part[2], share=share)


def _require_claim(that: str) -> str:
    parse_claim(that)
    return that


def read_must(value: Any) -> Any:
    """TOML and JSON have lists, specs tuples."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"is {value!r}; write a list of tables, as {MUST_EXAMPLE}")
    return tuple(value)


def _read_scope(value: Any) -> Any:
    """Names and pairs; one name alone needs no list."""
    if value is None:
        return value
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(
            f"is {value!r}; name arms, contrasts or pairs, as ['tuned', ['prefix', 'causal']], or"
            " leave it out: all of them"
        )
    entries: list[Any] = []
    for entry in value:
        is_pair = isinstance(entry, list | tuple) and len(entry) == 2
        names = entry if is_pair else [entry]
        if not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"has {entry!r}; name an arm, a contrast, or a pair, as ['prefix', 'causal']"
            )
        entries.append(tuple(names) if is_pair else entry)
    return tuple(entries)


class Must(Spec):
    """A manipulation check: what must hold, or the pairs that hang on it get no word."""

    model_config = ConfigDict(serialize_by_alias=True)

    that: Annotated[str, AfterValidator(_require_claim)]
    """What must hold: `tuned > untuned` (one-sided at 5 % over paired seeds), `tuned > 90 % of
    causal` (of its gain over chance) or `tuned > chance + 0.05` (in the unit of the scores).
    """
    on: Annotated[str | None, Field(exclude_if=lambda on: on is None)] = None
    """The yardstick that shows it, by its column: `halves.test`, or the name of a task and its
    split. If left out: the primary one.
    """
    scope: Annotated[
        tuple[str | tuple[str, str], ...] | None,
        Field(alias="for", exclude_if=lambda scope: scope is None),
        BeforeValidator(_read_scope),
    ] = None
    """What hangs on it: pairs, contrasts, or arms with all that is judged of them. If left out:
    all that is judged.
    """

    @property
    def claim(self) -> Claim:
        """What it says, taken apart."""
        return parse_claim(self.that)


def hanging_pairs(scope: Sequence[Any] | None, pairs: Sequence[ArmPair]) -> list[ArmPair]:
    """The judged pairs that hang on a check."""
    if scope is None:
        return list(pairs)
    names = {entry for entry in scope if isinstance(entry, str)}
    named_pairs = [tuple(entry) for entry in scope if not isinstance(entry, str)]
    hanging: list[ArmPair] = []
    for pair in pairs:
        if pair in named_pairs or names & set(pair):
            hanging.append(pair)
    return hanging


def hanging_contrasts(scope: Sequence[Any] | None, contrasts: Contrasts) -> list[str]:
    """The judged contrasts that hang on a check, by their names."""
    if scope is None:
        return list(contrasts)
    names = {entry for entry in scope if isinstance(entry, str)}
    hanging: list[str] = []
    for name, weights in contrasts.items():
        if name in names or names & weights.keys():
            hanging.append(name)
    return hanging
