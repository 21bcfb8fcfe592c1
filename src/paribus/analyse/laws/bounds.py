"""Up to where a number of a law means anything: an interval that ends beyond has no end there."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, isnan

from paribus.analyse.laws.fit import LawEstimate

# An interval that ends beyond these has no end that means anything: of exponents, of A and B.
MAX_EXPONENT, MAX_FACTOR = 10.0, 1e30
EXPONENTS, FACTORS = ("alpha", "beta"), ("A", "B")
NO_BOUND = "no bound"


def bounded(name: str, one: LawEstimate) -> LawEstimate:
    """A number of a law with the ends that mean something; the others are infinite, or 0 below
    where the number is never negative.

    An E that rests at 0 in every draw has no upper end: so many zeros say nothing of how large it
    may be.
    """
    if isnan(one.low):
        return one
    if name in EXPONENTS:
        low = one.low if abs(one.low) <= MAX_EXPONENT else -inf
        return LawEstimate(one.estimate, low, one.high if abs(one.high) <= MAX_EXPONENT else inf)
    if name in FACTORS:
        low = one.low if _is_factor(one.low) else 0.0
        return LawEstimate(one.estimate, low, one.high if _is_factor(one.high) else inf)
    return LawEstimate(one.estimate, one.low, one.high if one.high > 0 else inf)


def known_ends(name: str, one: LawEstimate) -> tuple[float | None, float | None]:
    """Both ends of an interval; None where it is not bounded or not known."""
    never_negative = name not in EXPONENTS
    low = one.low if isfinite(one.low) and not (never_negative and one.low <= 0) else None
    return low, one.high if isfinite(one.high) else None


def unbounded_exponents(estimates: Mapping[str, LawEstimate]) -> list[str]:
    """The exponents that the points do not bound, or that are beyond all that means something."""
    names: list[str] = []
    for name in EXPONENTS:
        numbers = (estimates[name].estimate, estimates[name].low, estimates[name].high)
        if max(abs(value) for value in numbers if not isnan(value)) > MAX_EXPONENT:
            names.append(name)
    return names


def _is_factor(value: float) -> bool:
    return 1 / MAX_FACTOR <= value <= MAX_FACTOR
