"""Which word an interval has earned."""

from dataclasses import dataclass
from typing import Literal

Word = Literal["identical", "better", "worse", "equivalent", "inconclusive", "unstable", "no verdict", "withheld"]
Pair = tuple[float, float]

LESS = "by less than the margin"
MORE = "by more than the margin"


@dataclass(frozen=True)
class Verdict:
    """A word, what narrows it, and what could overturn it."""

    word: Word
    detail: str = ""
    doubt: str = ""

    def __str__(self) -> str:
        joint = ": " if self.word == "no verdict" else ", "
        said = f"{self.word}{joint}{self.detail}" if self.detail else self.word
        return f"{said} ({self.doubt})" if self.doubt else said


IDENTICAL = Verdict("identical", "the same runs: nothing was compared")


def decide(outer: Pair, inner: Pair, margin: float | None) -> Verdict:
    """The first that holds of better, worse, equivalent; otherwise inconclusive.

    `outer` [L, U] has level 1 − α and decides on a difference: L > 0 or U < 0. `inner` has level 1 − 2α and lies
    inside (−Δ, Δ) exactly when both one-sided tests against the margin Δ reject at α.
    """
    within = margin is not None and -margin < inner[0] and inner[1] < margin
    if outer[0] > 0:
        return Verdict("better", _size(within, outer[0], margin))
    if outer[1] < 0:
        return Verdict("worse", _size(within, -outer[1], margin))
    if within:
        return Verdict("equivalent", f"within {margin:g}")
    return Verdict("inconclusive")


def _size(within: bool, least: float, margin: float | None) -> str:
    """How a difference of at least `least` compares with the margin, where that can be said."""
    if within:
        return LESS
    return MORE if margin is not None and least > margin else ""
