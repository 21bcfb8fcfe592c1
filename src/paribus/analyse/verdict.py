"""Which word an interval has earned."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

VerdictWord = Literal[
    "identical",
    "better",
    "worse",
    "equivalent",
    "not worse",
    "inconclusive",
    "unstable",
    "no verdict",
    "withheld",
    "at floor",
    "at ceiling",
    "manipulation not shown",
    "bimodal",
]
# nothing was learnt of a difference: the task has no room for one
BOUND_WORDS: tuple[VerdictWord, ...] = ("at floor", "at ceiling")
# words that need no t, in the order in which they are decided; the first that holds is the word
WORDS_BEFORE_T: tuple[VerdictWord, ...] = (
    "withheld",
    "identical",
    "unstable",
    "no verdict",
    *BOUND_WORDS,
    "manipulation not shown",
    "bimodal",
)
# words that say nothing of a difference, and whose detail is the reason
REASONED_WORDS: tuple[VerdictWord, ...] = (
    "no verdict",
    *BOUND_WORDS,
    "manipulation not shown",
    "bimodal",
)
Ends = tuple[float, float]
# what a design asks: any difference, or only that nothing is lost
Test = Literal["two-sided", "not worse"]

LESS_THAN_MARGIN = "by less than the margin"
MORE_THAN_MARGIN = "by more than the margin"
ALSO_BETTER = "and better"
YET_WORSE = "though worse by less than the margin"


@dataclass(frozen=True)
class Verdict:
    """A word, what narrows it, and what could overturn it; `seeds` where it is not of all of them:
    `in 4 of 5 seeds`.
    """

    word: VerdictWord
    detail: str = ""
    doubt: str = ""
    seeds: str = ""

    @property
    def label(self) -> str:
        """The word as it is shown, with the seeds that it is of where some runs failed."""
        return f"{self.word} {self.seeds}".rstrip()

    def __str__(self) -> str:
        joint = ": " if self.word in REASONED_WORDS else ", "
        text = f"{self.label}{joint}{self.detail}" if self.detail else self.label
        if self.doubt:
            return f"{text} ({self.doubt})"
        return text


def is_decided_before(word: VerdictWord, other: VerdictWord) -> bool:
    """Is a word decided before another? Every word that needs no t is decided before those of t."""
    if word not in WORDS_BEFORE_T:
        return False
    if other not in WORDS_BEFORE_T:
        return True
    return WORDS_BEFORE_T.index(word) < WORDS_BEFORE_T.index(other)


class MarginIntervals(NamedTuple):
    """Intervals of gain − margin and of gain + margin: the outer ones have level 1 − α, the
    inner ones 1 − 2α.
    """

    outer_minus: Ends
    outer_plus: Ends
    inner_minus: Ends
    inner_plus: Ends

    @property
    def deciding_ends(self) -> Ends:
        """The lower end of gain + margin, and the upper end of gain − margin, at the inner
        level.
        """
        return self.inner_plus[0], self.inner_minus[1]

    @property
    def is_within(self) -> bool:
        """Do both one-sided tests against the margin reject?"""
        return self.inner_minus[1] < 0 < self.inner_plus[0]

    @property
    def is_not_worse(self) -> bool:
        """Does the one-sided test against a loss of the margin reject?"""
        return self.inner_plus[0] > 0


IDENTICAL = Verdict("identical", "the same runs: nothing was compared")


def constant_margin_intervals(outer: Ends, inner: Ends, margin: float) -> MarginIntervals:
    """The intervals beside a margin that is one number in every seed: those of the gain, moved
    by it.
    """
    return MarginIntervals(
        _shift(outer, -margin), _shift(outer, margin), _shift(inner, -margin), _shift(inner, margin)
    )


def _shift(ends: Ends, by: float) -> Ends:
    return ends[0] + by, ends[1] + by


def decide_verdict(
    outer: Ends,
    inner: Ends,
    margin: float | None,
    margin_intervals: MarginIntervals | None = None,
    test: Test = "two-sided",
) -> Verdict:
    """The first that holds of better, worse, equivalent; otherwise inconclusive.

    `outer` [L, U] has level 1 − α and decides on a difference: L > 0 or U < 0. `inner` has level 1
    − 2α and lies inside (−Δ, Δ) exactly when both one-sided tests against the margin Δ reject at α.
    Where each seed has a margin of its own, `margin_intervals` hold what decides, and `margin` is
    their mean. A test of "not worse" is one-sided: it asks whether the lower end of the inner
    interval lies above −Δ.
    """
    size = "within the margin"
    if margin is not None:
        if margin_intervals is None:
            size = f"within {margin:g}"
        else:
            size = f"within {margin:.4g} on average"
        margin_intervals = margin_intervals or constant_margin_intervals(outer, inner, margin)
    if test == "not worse" and margin_intervals is not None and margin_intervals.is_not_worse:
        return Verdict("not worse", _sign_detail(outer))
    if outer[0] > 0:
        return Verdict(
            "better",
            _size_detail(
                margin_intervals,
                margin_intervals is not None and margin_intervals.outer_minus[0] > 0,
            ),
        )
    if outer[1] < 0:
        return Verdict(
            "worse",
            _size_detail(
                margin_intervals,
                margin_intervals is not None and margin_intervals.outer_plus[1] < 0,
            ),
        )
    if margin_intervals is not None and margin_intervals.is_within:
        return Verdict("equivalent", size)
    return Verdict("inconclusive")


def _sign_detail(outer: Ends) -> str:
    """What an interval that excludes zero adds to `not worse`."""
    if outer[0] > 0:
        return ALSO_BETTER
    if outer[1] < 0:
        return YET_WORSE
    return ""


def _size_detail(margin_intervals: MarginIntervals | None, is_more: bool) -> str:
    """How a difference compares with the margin, where that can be said."""
    if margin_intervals is not None and margin_intervals.is_within:
        return LESS_THAN_MARGIN
    if is_more:
        return MORE_THAN_MARGIN
    return ""
