"""Slopes, margins and multipliers from annealed lengths; T23: how often a multiplier's interval
covers.
"""

from math import exp, inf, log

import numpy as np
import pytest
from margin_simulation import multiplier_coverage
from measures import HIGHER, LOWER

from paribus.analyse import (
    Comparison,
    LengthCurves,
    compare,
    compute_multiplier,
    end_slopes,
    margins_in_compute,
)
from paribus.analyse.criterion import Criterion
from paribus.analyse.multiplier import linearising_power

SHARES = (0.25, 0.5, 1.0)
FULL = 1_000_000
SPREAD = (0.003, -0.001, 0.0, -0.004, 0.002)


def curves(slope: float, bend: float = 0.0, seeds: int = 5) -> LengthCurves:
    """Curves of losses that fall by `slope` for each e-fold at full length and bend upward
    before it.
    """

    def loss(share: float, seed: int) -> float:
        x = log(share)
        return 2 + 0.1 * seed - slope * x + bend * x * x

    return LengthCurves(
        {
            seed: {round(FULL * share): loss(share, seed) for share in SHARES}
            for seed in range(seeds)
        },
        SHARES,
    )


def gains_of(mean: float) -> dict[int, float]:
    return {seed: mean + noise for seed, noise in enumerate(SPREAD)}


def read(
    mean: float, own: LengthCurves
) -> tuple[Comparison, float | None, float | None, float | None]:
    gains = gains_of(mean)
    made = compare(list(gains.values()))
    found = compute_multiplier(made, gains, own)
    return made, found.factor, found.low, found.high


def test_the_slope_at_full_length_is_the_quadratics_where_the_loss_is_convex() -> None:
    x = np.log(SHARES)
    straight, convex, concave = -0.2 * x, -0.2 * x + 0.05 * x**2, -0.2 * x - 0.05 * x**2
    # of the concave one: the last interval, for the quadratic would say 0.2
    last = 0.2 + 0.05 * log(2)
    assert end_slopes(x, [straight, convex], measure=LOWER) == pytest.approx([0.2, 0.2])
    assert end_slopes(x, concave, measure=LOWER) == pytest.approx(0.2 - 0.05 * log(2))
    assert end_slopes(x, -concave, measure=HIGHER) == pytest.approx(0.2 - 0.05 * log(2))
    assert last > 0.2
    rising = 0.1 * x
    assert end_slopes(x, rising, measure=LOWER) == pytest.approx(-0.1)


def test_of_more_than_three_lengths_the_last_three_count() -> None:
    x = np.log([0.1, 0.25, 0.5, 1.0])
    assert end_slopes(x, [9.0, *(-0.3 * x[1:])], measure=LOWER) == pytest.approx(0.3)


def test_each_seed_has_its_own_margin() -> None:
    found = margins_in_compute(0.1, curves(0.2))
    assert found == pytest.approx(dict.fromkeys(range(5), 0.2 * log(1.1)))
    steep = {round(FULL * share): 2 - 0.4 * log(share) for share in SHARES}
    mixed = LengthCurves({**curves(0.2).by_seed, 4: steep}, SHARES)
    assert margins_in_compute(0.1, mixed)[4] == pytest.approx(0.4 * log(1.1))


def test_a_negative_margin_of_a_seed_stays_and_a_mean_slope_that_may_be_zero_gives_none() -> None:
    rising = {round(FULL * share): 2 + 0.01 * log(share) for share in SHARES}
    mostly = LengthCurves({**curves(0.2, seeds=9).by_seed, 9: rising}, SHARES)
    assert margins_in_compute(0.1, mostly)[9] == pytest.approx(-0.01 * log(1.1))
    either = {
        seed: curves(slope).by_seed[seed] for seed, slope in enumerate((0.2, 0.2, -0.2, -0.1))
    }
    unsure = LengthCurves(either, SHARES)
    assert (
        margins_in_compute(0.1, unsure)
        == "does not clearly improve with more tokens (mean slope 0.025)"
    )
    assert margins_in_compute(0.1, LengthCurves({}, SHARES, "was not trained")) == "was not trained"


def test_below_one_a_multiplier_is_read_off_the_curve() -> None:
    own = curves(0.2, bend=0.03)
    for share in (0.3, 0.5, 0.7, 0.95):
        worse = -(-0.2 * log(share) + 0.03 * log(share) ** 2)
        _, factor, low, high = read(worse, own)
        assert factor == pytest.approx(share, rel=5e-3)
        assert low is not None
        assert high is not None
        assert low < factor < high


def test_above_one_it_is_extrapolated_by_the_slope_up_to_two() -> None:
    made, factor, low, high = read(0.1, curves(0.2, bend=0.03))
    assert factor == pytest.approx(exp(0.5))
    assert (low, high) == pytest.approx((exp(made.low / 0.2), exp(made.high / 0.2)), rel=1e-4)
    assert read(0.2, curves(0.2))[1:] == (inf, inf, inf)
    assert read(-0.4, curves(0.2))[1:] == (0.0, 0.0, 0.0)
    _, factor, low, high = read(0.2 * log(2) - 0.001, curves(0.2))
    assert factor == pytest.approx(2, rel=0.01)
    assert (low < factor, high) == (True, inf)


def test_the_noise_of_the_curve_widens_the_interval() -> None:
    noisy = LengthCurves(
        {
            seed: {at: y + 0.02 * (seed % 3 - 1) * log(at / FULL) for at, y in own.items()}
            for seed, own in curves(0.2).by_seed.items()
        },
        SHARES,
    )
    _, _, low, high = read(-0.1, curves(0.2))
    _, _, wide_low, wide_high = read(-0.1, noisy)
    assert wide_high - wide_low > 1.2 * (high - low)


def test_a_curve_of_a_power_law_is_straight_over_its_power() -> None:
    x = np.log(SHARES)
    assert linearising_power(x, 1 + 0.3 * np.exp(-0.4 * x)) == pytest.approx(0.4, rel=1e-6)
    assert linearising_power(x, -0.2 * x) == 0
    assert linearising_power(x, -0.2 * x - 0.05 * x**2) == 0
    assert linearising_power(x, 0.2 * x) == 0


def test_without_a_curve_or_an_interval_there_is_a_reason_or_no_ends() -> None:
    gains = gains_of(0.1)
    made = compare(list(gains.values()))
    assert (
        compute_multiplier(made, gains, LengthCurves({}, (), "was not trained")).reason
        == "was not trained"
    )
    assert (
        compute_multiplier(made, gains, curves(-0.2)).reason
        == "does not clearly improve with more tokens"
    )
    few = {seed: gains[seed] for seed in range(3)}
    opened = compute_multiplier(
        compare(list(few.values()), Criterion(open_ended=True)), few, curves(0.2)
    )
    assert (opened.low, opened.high) == (None, None)
    assert opened.factor is not None


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize(("power", "factor"), [(0.2, 0.3), (0.5, 0.8)])
def test_an_interval_below_one_covers_the_planted_factor(
    n: int, power: float, factor: float
) -> None:
    assert 90 <= multiplier_coverage(n, power, factor) <= 98


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize(("power", "factor"), [(0.5, 1.1), (0.2, 1.25)])
def test_an_interval_above_one_covers_the_planted_factor(
    n: int, power: float, factor: float
) -> None:
    assert multiplier_coverage(n, power, factor) >= 90
