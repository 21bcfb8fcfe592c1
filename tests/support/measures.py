"""Measures without a unit, and in a unit that a test names."""

from paribus.spec.measure import Measure


def measure_in(unit: str, *, lower_is_better: bool) -> Measure:
    return Measure(kind="likelihood", unit=unit, lower_is_better=lower_is_better)


LOWER = measure_in("", lower_is_better=True)
HIGHER = measure_in("", lower_is_better=False)
