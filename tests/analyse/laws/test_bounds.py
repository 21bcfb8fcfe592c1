"""Ends of intervals that mean something, and those that do not."""

from math import inf, nan

from paribus.analyse.laws.bounds import bounded, known_ends, unbounded_exponents
from paribus.analyse.laws.fit import LawEstimate


def test_ends_within_the_limits_stay_as_they_are():
    for name in ("E", "A", "B", "alpha", "beta"):
        own = LawEstimate(2.0, 1.0, 3.0)
        assert bounded(name, own) == own
        assert known_ends(name, own) == (1.0, 3.0)


def test_an_interval_that_lies_beyond_the_limits_has_no_end():
    assert bounded("beta", LawEstimate(73.4, 73.3, 73.5)) == LawEstimate(73.4, -inf, inf)
    assert bounded("alpha", LawEstimate(-20, -21, 0.3)) == LawEstimate(-20, -inf, 0.3)
    assert bounded("B", LawEstimate(inf, inf, inf)) == LawEstimate(inf, 0.0, inf)
    assert bounded("A", LawEstimate(7e-165, 6e-166, 5.0)) == LawEstimate(7e-165, 0.0, 5.0)
    assert known_ends("B", LawEstimate(inf, 0.0, inf)) == (None, None)


def test_an_end_at_zero_bounds_an_exponent_and_no_floor():
    assert known_ends("E", LawEstimate(0.5, 0.0, 1.0)) == (None, 1.0)
    assert known_ends("alpha", LawEstimate(0.5, 0.0, 1.0)) == (0.0, 1.0)
    assert bounded("E", LawEstimate(0.0, 0.0, 0.0)).high == inf


def test_a_number_without_an_interval_has_no_known_end():
    alone = bounded("A", LawEstimate(1e40, nan, nan))
    assert known_ends("A", alone) == (None, None)
    estimates = {"alpha": LawEstimate(12.0, nan, nan), "beta": LawEstimate(0.3, nan, nan)}
    assert unbounded_exponents(estimates) == ["alpha"]
