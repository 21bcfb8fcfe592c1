"""The power law of learning rates: one power for all arms, and a level for each."""

from math import exp, log

import numpy as np
import pytest

from paribus.analyse.laws.rates import RatePoint, fit_rate_law
from paribus.errors import SpecError

SIZES = (3e5, 7e5, 1.2e6)
LEVELS = {"causal": 0.3, "prefix": 0.2, "2P": 0.1}


def swept(noise=0.0, power=-0.25, seed=0):
    rng, points = np.random.default_rng(seed), []
    for arm, level in LEVELS.items():
        for size in SIZES:
            rate = level * size**power * exp(noise * rng.normal())
            points.append(RatePoint(arm, size, rate))
    return points


def test_exact_rates_are_found_at_every_size():
    law = fit_rate_law(swept())
    assert law.power == pytest.approx(-0.25)
    assert law.low == pytest.approx(law.high)
    assert law.df == 9 - 4
    for arm, level in LEVELS.items():
        assert law.rate(arm, 9e6) == pytest.approx(level * 9e6**-0.25)


def test_two_sizes_of_two_arms_are_computed_by_hand():
    """ln rates 0, 1, 2 and 0, 1, 5 over ln N of 0, 1, 2: slopes 1 and 2.5, together 1.75."""
    points = [RatePoint("a", exp(x), exp(y)) for x, y in enumerate((0, 1, 2))]
    points += [RatePoint("b", exp(x), exp(y)) for x, y in enumerate((0, 1, 5))]
    law = fit_rate_law(points)
    assert law.power == pytest.approx(1.75)
    assert law.log_levels["a"] == pytest.approx(1 - 1.75)
    assert law.log_levels["b"] == pytest.approx(2 - 1.75)
    # left: (0.75² · 2) and, of b, 1.5 + (2.5 - 1.75)² · 2
    assert law.sd**2 == pytest.approx((1.125 + 1.5 + 1.125) / 3)
    # against own powers: 2.25 more with 1 degree of freedom, 1.5 left with 2
    assert law.equal_powers_p == pytest.approx(0.225, abs=0.001)


def test_the_interval_holds_the_planted_power():
    held = 0
    for seed in range(200):
        law = fit_rate_law(swept(noise=0.2, seed=seed))
        held += law.low <= -0.25 <= law.high
    assert 180 <= held <= 199


def test_one_arm_alone_has_one_degree_of_freedom_and_no_test():
    law = fit_rate_law([point for point in swept(noise=0.1) if point.arm == "causal"])
    assert (law.df, law.equal_powers_p) == (1, None)
    assert law.high - law.low > 10 * law.sd / log(SIZES[-1] / SIZES[0])


def test_two_sizes_are_too_few():
    left = [point for point in swept() if (point.arm, point.parameters) != ("prefix", SIZES[0])]
    with pytest.raises(
        SpecError, match=r"rates of prefix: .* needs sweeps at 3 sizes or more, and has 2"
    ):
        fit_rate_law(left)
