"""The interval that a word was read from: not always the outer one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from paribus.analyse.verdict import LESS_THAN_MARGIN, Verdict
from paribus.spec.measure import with_unit

Ends = tuple[float, float]
NumberFormat = Callable[[float, int], str]  # a number, in so many digits
MAX_DIGITS = 17  # of a float


@dataclass(frozen=True)
class DecidingInterval:
    """What decided on the margin, at which level.

    `gain`: the inner interval of the gain, `low` to `high`, inside ±margin. `by seed`: `low` is the
    lower end of gain + margin, above 0, and `high` the upper end of gain − margin, below 0. Only
    `low` counts where `is_one_sided`.
    """

    kind: Literal["gain", "by seed"]
    level: float
    low: float
    high: float
    margin: float
    is_one_sided: bool = False

    def digits_needed(self, number_format: NumberFormat, min_digits: int) -> int:
        """How many digits show both ends on their side of the margin: `min_digits`, or as many more
        as it takes.
        """
        for n in range(min_digits, MAX_DIGITS):
            if self._digits_suffice(number_format, n):
                return n
        return MAX_DIGITS

    def _digits_suffice(self, number_format: NumberFormat, n: int) -> bool:
        if self.kind == "gain":
            margin = _parse_number(number_format(self.margin, n))
        else:
            margin = 0.0
        low, high = (
            _parse_number(number_format(self.low, n)),
            _parse_number(number_format(self.high, n)),
        )
        return low > -margin and (self.is_one_sided or high < margin)


def deciding_interval(
    verdict: Verdict, margin: float | None, level: float, inner: Ends, margin_ends: Ends | None
) -> DecidingInterval | None:
    """What decided where a verdict speaks of the margin; None where the outer interval decides
    alone.

    `margin_ends` are the lower end of gain + margin and the upper end of gain − margin, where each
    seed has its margin.
    """
    one_sided = verdict.word == "not worse"
    speaks = one_sided or verdict.word == "equivalent" or verdict.detail == LESS_THAN_MARGIN
    if margin is None or not speaks:
        return None
    if margin_ends is None:
        kind, (low, high) = "gain", inner
    else:
        kind, (low, high) = "by seed", margin_ends
    return DecidingInterval(
        kind=kind, level=level, low=low, high=high, margin=margin, is_one_sided=one_sided
    )


def describe_deciding_interval(
    interval: DecidingInterval, number_format: NumberFormat, min_digits: int, unit: str = ""
) -> str:
    """The deciding interval in words, with its level, and how it lies beside the margin."""
    n = interval.digits_needed(number_format, min_digits)
    low, high = number_format(interval.low, n), number_format(interval.high, n)
    margin = with_unit(_without_plus(number_format(interval.margin, n)), unit)
    level = f"{100 * interval.level:.4g} %"
    if interval.kind == "gain" and interval.is_one_sided:
        return (
            f"one-sided {_one_sided_level(interval)} bound: at least {low}, above the margin of"
            f" −{margin}"
        )
    if interval.kind == "gain":
        return f"{level} interval {low} to {high}, inside the margin of ±{margin}"
    plus = f"gain + margin is at least {low}, above 0"
    if interval.is_one_sided:
        return (
            f"one-sided {_one_sided_level(interval)} bound, each seed with its own margin: {plus}"
        )
    return (
        f"{level} intervals, each seed with its own margin: gain − margin is at most {high}, below"
        f" 0; {plus}"
    )


def _one_sided_level(interval: DecidingInterval) -> str:
    """An end of an interval at 90 % is a bound at 95 %."""
    return f"{50 + 50 * interval.level:.4g} %"


def _without_plus(text: str) -> str:
    return text.removeprefix("+")


def _parse_number(text: str) -> float:
    return float(text.replace("−", "-"))
