"""The interval that a word was read from: not always the outer one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from paribus.analyse.verdict import LESS, Verdict

Ends = tuple[float, float]
Writer = Callable[[float, int], str]  # a number, in so many digits
MAX_DIGITS = 17  # of a float


@dataclass(frozen=True)
class Deciding:
    """What decided on the margin, at which level.

    `gain`: the inner interval of the gain, `low` to `high`, inside ±margin. `by seed`: `low` is the lower end of
    gain + margin, above 0, and `high` the upper end of gain − margin, below 0. Only `low` counts where `is_one_sided`.
    """

    of: Literal["gain", "by seed"]
    level: float
    low: float
    high: float
    margin: float
    is_one_sided: bool = False

    def digits(self, write: Writer, least: int) -> int:
        """How many digits show both ends on their side of the margin: `least`, or as many more as it takes."""
        enough = (n for n in range(least, MAX_DIGITS) if self._shows(write, n))
        return next(enough, MAX_DIGITS)

    def _shows(self, write: Writer, n: int) -> bool:
        margin = _value(write(self.margin, n)) if self.of == "gain" else 0.0
        low, high = _value(write(self.low, n)), _value(write(self.high, n))
        return low > -margin and (self.is_one_sided or high < margin)


def deciding_interval(
    verdict: Verdict, margin: float | None, level: float, inner: Ends, beside: Ends | None
) -> Deciding | None:
    """What decided where a verdict speaks of the margin; None where the outer interval decides alone.

    `beside` has the lower end of gain + margin and the upper end of gain − margin, where each seed has its margin.
    """
    one_sided = verdict.word == "not worse"
    speaks = one_sided or verdict.word == "equivalent" or verdict.detail == LESS
    if margin is None or not speaks:
        return None
    of, ends = ("gain", inner) if beside is None else ("by seed", beside)
    return Deciding(of, level, *ends, margin, one_sided)


def deciding_words(found: Deciding, write: Writer, least: int, unit: str = "") -> str:
    """The deciding interval in words, with its level, and how it lies beside the margin."""
    n = found.digits(write, least)
    low, high, margin = (write(value, n) for value in (found.low, found.high, found.margin))
    level, unit = f"{100 * found.level:.4g} %", f" {unit}" if unit else ""
    if found.of == "gain" and found.is_one_sided:
        return f"one-sided {_one_sided(found)} bound: at least {low}, above the margin of −{_bare(margin)}{unit}"
    if found.of == "gain":
        return f"{level} interval {low} to {high}, inside the margin of ±{_bare(margin)}{unit}"
    plus = f"gain + margin is at least {low}, above 0"
    if found.is_one_sided:
        return f"one-sided {_one_sided(found)} bound, each seed with its own margin: {plus}"
    return f"{level} intervals, each seed with its own margin: gain − margin is at most {high}, below 0; {plus}"


def _one_sided(found: Deciding) -> str:
    """An end of an interval at 90 % is a bound at 95 %."""
    return f"{50 + 50 * found.level:.4g} %"


def _bare(written: str) -> str:
    return written.removeprefix("+")


def _value(written: str) -> float:
    return float(written.replace("−", "-"))
