"""Which word an interval has earned."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Word = Literal[
    "identical", "better", "worse", "equivalent", "not worse", "inconclusive", "unstable", "no verdict", "withheld"
]
Pair = tuple[float, float]
Test = Literal["two-sided", "not worse"]  # what a design asks: any difference, or only that nothing is lost

LESS = "by less than the margin"
MORE = "by more than the margin"
ALSO_BETTER = "and better"
YET_WORSE = "though worse by less than the margin"


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


class BesideMargin(NamedTuple):
    """Intervals of gain − margin and of gain + margin: the outer ones have level 1 − α, the inner ones 1 − 2α."""

    outer_less: Pair
    outer_plus: Pair
    inner_less: Pair
    inner_plus: Pair

    @property
    def deciding_ends(self) -> Pair:
        """The lower end of gain + margin, and the upper end of gain − margin, at the inner level."""
        return self.inner_plus[0], self.inner_less[1]

    @property
    def is_within(self) -> bool:
        """Do both one-sided tests against the margin reject?"""
        return self.inner_less[1] < 0 < self.inner_plus[0]

    @property
    def is_not_worse(self) -> bool:
        """Does the one-sided test against a loss of the margin reject?"""
        return self.inner_plus[0] > 0


IDENTICAL = Verdict("identical", "the same runs: nothing was compared")


def beside_number(outer: Pair, inner: Pair, margin: float) -> BesideMargin:
    """The intervals beside a margin that is one number in every seed: those of the gain, moved by it."""
    return BesideMargin(_shift(outer, -margin), _shift(outer, margin), _shift(inner, -margin), _shift(inner, margin))


def _shift(ends: Pair, by: float) -> Pair:
    return ends[0] + by, ends[1] + by


def decide(
    outer: Pair, inner: Pair, margin: float | None, beside: BesideMargin | None = None, test: Test = "two-sided"
) -> Verdict:
    """The first that holds of better, worse, equivalent; otherwise inconclusive.

    `outer` [L, U] has level 1 − α and decides on a difference: L > 0 or U < 0. `inner` has level 1 − 2α and lies
    inside (−Δ, Δ) exactly when both one-sided tests against the margin Δ reject at α. Where each seed has a margin of
    its own, `beside` holds what decides, and `margin` is their mean. A test of "not worse" is one-sided: it asks
    whether the lower end of the inner interval lies above −Δ.
    """
    size = "within the margin"
    if margin is not None:
        size = f"within {margin:g}" if beside is None else f"within {margin:.4g} on average"
        beside = beside or beside_number(outer, inner, margin)
    if test == "not worse" and beside is not None and beside.is_not_worse:
        return Verdict("not worse", _sign(outer))
    if outer[0] > 0:
        return Verdict("better", _size(beside, beside is not None and beside.outer_less[0] > 0))
    if outer[1] < 0:
        return Verdict("worse", _size(beside, beside is not None and beside.outer_plus[1] < 0))
    if beside is not None and beside.is_within:
        return Verdict("equivalent", size)
    return Verdict("inconclusive")


def _sign(outer: Pair) -> str:
    """What an interval that excludes zero adds to `not worse`."""
    if outer[0] > 0:
        return ALSO_BETTER
    return YET_WORSE if outer[1] < 0 else ""


def _size(beside: BesideMargin | None, is_more: bool) -> str:
    """How a difference compares with the margin, where that can be said."""
    if beside is not None and beside.is_within:
        return LESS
    return MORE if is_more else ""
