from math import exp, inf, log

import pytest

from paribus.analyse import compare, margin_of, multiplier, slope
from paribus.errors import SpecError


def _curve(fall: float, offset: float = 0.0) -> dict[int, float]:
    """A loss that falls by `fall` for each e-fold of tokens, after a start that does not."""
    return {tokens: 5 + offset - fall * log(tokens) if tokens >= 600 else 9.0 for tokens in range(0, 1000, 100)}


CURVES = {1: _curve(0.2), 2: _curve(0.3, 0.4), 3: _curve(0.25, -0.2)}


def test_the_slope_is_that_of_the_last_third_in_log_tokens() -> None:
    found = slope(CURVES, lower_is_better=True)
    assert found.each == pytest.approx((0.2, 0.3, 0.25))
    assert (found.mean, found.sd, found.tokens) == (pytest.approx(0.25), pytest.approx(0.05), 900)
    rising = {1: {tokens: -loss for tokens, loss in _curve(0.2).items()}}
    assert slope(rising, lower_is_better=False).mean == pytest.approx(0.2)


def test_a_margin_is_what_more_tokens_buy() -> None:
    found = slope(CURVES, lower_is_better=True)
    assert margin_of(10, found) == pytest.approx(0.25 * log(1.1))


def test_an_effect_is_a_multiple_of_the_baselines_tokens() -> None:
    found = multiplier(compare([0.1, 0.11, 0.09, 0.1]), slope(CURVES, lower_is_better=True))
    assert found.factor == pytest.approx(exp(0.1 / 0.25))
    assert (found.low, found.high) == pytest.approx((exp(0.087 / 0.25), exp(0.113 / 0.25)), rel=1e-3)
    worse = multiplier(compare([-0.1, -0.11, -0.09, -0.1]), slope(CURVES, lower_is_better=True))
    assert worse.factor == pytest.approx(exp(-0.4))


def test_beyond_a_factor_of_four_no_number_is_said() -> None:
    found = multiplier(compare([0.5, 0.51, 0.49]), slope(CURVES, lower_is_better=True))
    assert (found.factor, found.low, found.high, found.said) == (inf, inf, inf, None)
    worse = multiplier(compare([-0.5, -0.51, -0.49]), slope(CURVES, lower_is_better=True))
    assert (worse.factor, worse.low, worse.high, worse.said) == (0.0, 0.0, 0.0, None)
    noisy = multiplier(compare([0.1, 0.9, 0.5]), slope(CURVES, lower_is_better=True))
    assert (noisy.factor, noisy.low, noisy.high) == (inf, 0.0, inf)
    wide = multiplier(compare([0.2, 0.5, 0.1]), slope(CURVES, lower_is_better=True))
    assert wide.said == wide.factor == pytest.approx(exp(0.8 / 3 / 0.25))
    assert (wide.low, wide.high) == (pytest.approx(exp(-0.25045 / 0.25), rel=1e-3), inf)


def test_a_curve_that_no_longer_improves_has_no_multiplier_and_no_margin() -> None:
    flat = slope({**CURVES, 4: _curve(-0.1)}, lower_is_better=True)
    found = multiplier(compare([0.1, 0.2, 0.3]), flat)
    assert (found.factor, found.reason) == (None, "no longer improves in every seed (slope −0.1)")
    assert margin_of(10, flat) is None


def test_curves_and_margins_must_be_possible() -> None:
    with pytest.raises(SpecError, match="learning curve: no seeds given; give the baseline's curve"):
        slope({}, lower_is_better=True)
    with pytest.raises(SpecError, match="learning curve: seed 7 has 1 points in its last third; measure 3 there"):
        slope({7: {100: 3.0, 900: 2.0}}, lower_is_better=True)
    with pytest.raises(SpecError, match="margin: 400 % more compute; use above 0, up to 300 %"):
        margin_of(400, slope(CURVES, lower_is_better=True))
