"""Do arms differ in an exponent? F tests and two one-sided tests against a margin, in the joint
fit with one E and in that with an E for each arm. What is said must hold in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from paribus.analyse.laws.fit import LawFit, effective_df, fit_arms
from paribus.analyse.laws.points import LawCells
from paribus.analyse.laws.profile import difference, profile_interval, profile_p
from paribus.errors import SpecError
from paribus.spec.ladder import EXPONENT_MARGIN

LEVEL = 0.05  # shared by all tests
SYMBOLS = {"alpha": "α", "beta": "β"}
SAME, UNDECIDED = "same exponent", "undecided"


@dataclass(frozen=True)
class ExponentDifference:
    """An exponent of an arm less that of another, its p, and the two intervals that decide."""

    estimate: float
    low: float  # at the level 1 − α*: what `larger` is decided by
    high: float
    inner_low: float  # at 1 − 2α*: what `same exponent` is decided by
    inner_high: float
    p: float  # of the F test, not adjusted


@dataclass(frozen=True)
class ExponentVerdict:
    """What a pair of arms gets for one exponent, by one E, beside what an E each would say."""

    arm: str
    against: str
    exponent: str  # alpha or beta
    margin: float
    n_tests: int  # that share the level
    one_floor: ExponentDifference
    own_floors: ExponentDifference

    @property
    def adjusted_p(self) -> float:
        """The p times the number of tests, at most 1."""
        return min(1.0, self.one_floor.p * self.n_tests)

    @property
    def word(self) -> str:
        """`α larger`, `β larger`, `same exponent` or `undecided`."""
        if self.rests_on_one_floor:
            return UNDECIDED
        return self._word(self.one_floor)[0]

    @property
    def larger(self) -> str | None:
        """The arm whose exponent is larger: its loss falls faster; None where no word says so."""
        if self.rests_on_one_floor:
            return None
        return self._word(self.one_floor)[1]

    @property
    def one_floor_word(self) -> str:
        """What would be said if it were known that all arms have one E."""
        return self._word(self.one_floor)[0]

    @property
    def rests_on_one_floor(self) -> bool:
        """Is something said with one E that is not said, at the same level, with an E for each
        arm? An arm whose E is higher looks as if its exponent were smaller.
        """
        found = self._word(self.one_floor)
        return found[0] != UNDECIDED and found != self._word(self.own_floors)

    def _word(self, found: ExponentDifference) -> tuple[str, str | None]:
        if found.p * self.n_tests < LEVEL:
            larger = self.arm if found.estimate > 0 else self.against
            return f"{SYMBOLS[self.exponent]} larger", larger
        if -self.margin < found.inner_low and found.inner_high < self.margin:
            return SAME, None
        return UNDECIDED, None


def compare_exponents(
    arms: Mapping[str, LawCells],
    pairs: Sequence[tuple[str, str]] | None = None,
    margin: float = EXPONENT_MARGIN,
    pools_misfit: bool = True,
) -> list[ExponentVerdict]:
    """α and β of each pair of arms: all pairs, or those that are declared.

    The 5 % are shared by 2 × pairs tests (Bonferroni).
    """
    if pairs is None:
        pairs = list(combinations(arms, 2))
    _require_pairs(arms, pairs, margin)
    cells = list(arms.values())
    shared = fit_arms(cells, pools_misfit=pools_misfit)
    separate = fit_arms(cells, shared_floor=False, pools_misfit=pools_misfit)
    return list(exponent_verdicts(list(arms), pairs, margin, shared, separate))


def _require_pairs(
    arms: Mapping[str, LawCells], pairs: Sequence[tuple[str, str]], margin: float
) -> None:
    if not pairs:
        raise SpecError(f"arms: {len(arms)} given; exponents are compared between 2 or more")
    if not margin > 0:
        raise SpecError(f"margin is {margin:g}; use a number above 0, such as {EXPONENT_MARGIN:g}")
    for pair in pairs:
        for arm in pair:
            if arm not in arms:
                raise SpecError(f"pairs: {arm!r} is not an arm; arms are {', '.join(arms)}")
        if pair[0] == pair[1]:
            raise SpecError(f"pairs: {pair[0]!r} is compared with itself; name two arms")


def exponent_verdicts(
    names: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    margin: float,
    shared: LawFit,
    separate: LawFit,
) -> Iterator[ExponentVerdict]:
    """α and β of each pair of arms, from the fits with one E and with an E for each arm."""
    n_tests = 2 * len(pairs)
    for arm, against in pairs:
        places = names.index(arm), names.index(against)
        for exponent in SYMBOLS:
            yield ExponentVerdict(
                arm=arm,
                against=against,
                exponent=exponent,
                margin=margin,
                n_tests=n_tests,
                one_floor=exponent_difference(shared, exponent, places, LEVEL / n_tests),
                own_floors=exponent_difference(separate, exponent, places, LEVEL / n_tests),
            )


def exponent_difference(
    fit: LawFit, exponent: str, arms: tuple[int, int], alpha: float
) -> ExponentDifference:
    """The difference of an exponent between two arms of a fit, at the level 1 − alpha."""
    functional = difference(fit.model, exponent, *arms)
    df_P = effective_df(fit, functional.weights_Q[None])
    low, high = profile_interval(fit.data, fit.best, functional, df_P, 1 - alpha)
    inner = profile_interval(fit.data, fit.best, functional, df_P, 1 - 2 * alpha)
    return ExponentDifference(
        estimate=float(fit.best.theta_PQ[0] @ functional.weights_Q),
        low=float(low[0]),
        high=float(high[0]),
        inner_low=float(inner[0][0]),
        inner_high=float(inner[1][0]),
        p=float(profile_p(fit.data, fit.best, functional, 0.0, df_P)[0]),
    )
