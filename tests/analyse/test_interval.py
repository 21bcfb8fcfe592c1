"""T1 to T3: how often the interval holds the truth; bands are four standard errors wide on
either side.
"""

import numpy as np
import pytest
from noise_draws import N_DRAWS, NoiseDraw, heavy_tailed, normal, skewed
from numpy.typing import NDArray
from scipy import stats

from paribus.analyse.interval import (
    Moments,
    critical_t,
    interval,
    lower_end_after_test,
    moments,
    p_value,
    t_interval,
)
from paribus.errors import SpecError

SEEDS = (3, 5, 10)
TRUTH = 0.7


def _gains(first: NoiseDraw, second: NoiseDraw, n: int, ratio: float) -> NDArray[np.float64]:
    rng = np.random.default_rng(11)
    block = 10 * rng.normal(size=(N_DRAWS, n))
    baseline = block + first(rng, (N_DRAWS, n))
    return block + TRUTH + ratio * second(rng, (N_DRAWS, n)) - baseline


def _coverage(low: NDArray[np.float64], high: NDArray[np.float64]) -> float:
    return 100 * float(np.mean((low < TRUTH) & (high > TRUTH)))


def _covers(gains: NDArray[np.float64]) -> float:
    return _coverage(*map(np.asarray, interval(gains, 0.95)))


@pytest.mark.parametrize("n", SEEDS)
def test_the_interval_covers_normal_noise_though_one_arm_is_three_times_noisier(n: int) -> None:
    assert 93.6 <= _covers(_gains(normal, normal, n, ratio=3)) <= 96.4


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("draw", [heavy_tailed, skewed])
def test_the_interval_covers_when_both_arms_are_heavy_tailed_or_skewed(
    draw: NoiseDraw, n: int
) -> None:
    assert 94 <= _covers(_gains(draw, draw, n, ratio=1)) <= 99


@pytest.mark.parametrize("n", SEEDS)
def test_the_interval_falls_short_where_one_arm_is_skewed_and_three_times_noisier(n: int) -> None:
    assert 86 <= _covers(_gains(normal, skewed, n, ratio=3)) <= 94


def _with_196(found: Moments) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return found.mean - 1.96 * found.standard_error, found.mean + 1.96 * found.standard_error  # pyright: ignore[reportReturnType]


def _with_ddof_0(found: Moments) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    smaller = found.standard_error * np.sqrt((found.n - 1) / found.n)
    return t_interval(found.mean, smaller, found.n - 1, 0.95)  # pyright: ignore[reportReturnType]


def _with_df_n(found: Moments) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return t_interval(found.mean, found.standard_error, found.n, 0.95)  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize(
    ("mutant", "expected"), [(_with_196, 80.7), (_with_ddof_0, 92.7), (_with_df_n, 91.0)]
)
def test_wrong_quantiles_spreads_and_degrees_of_freedom_are_caught(mutant, expected: float) -> None:
    share = _coverage(*mutant(moments(_gains(normal, normal, 3, ratio=3))))
    assert share < 93.6
    assert share == pytest.approx(
        expected, abs=4 * 100 * np.sqrt(expected / 100 * (1 - expected / 100) / N_DRAWS)
    )


def test_interval_and_p_are_those_of_scipy() -> None:
    baseline, arm = np.random.default_rng(5).normal(size=(2, 7))
    found = stats.ttest_rel(arm, baseline)
    assert interval(arm - baseline, 0.98) == pytest.approx(
        found.confidence_interval(0.98), abs=1e-12
    )
    assert p_value(arm - baseline) == pytest.approx(found.pvalue, rel=1e-12)
    assert critical_t(0.95, 4) == pytest.approx(stats.t.ppf(0.975, 4), rel=1e-12)


def test_many_sets_at_once_are_each_alone() -> None:
    gains = np.random.default_rng(5).normal(size=(3, 5))
    low, high = map(np.asarray, interval(gains, 0.9))
    p = np.asarray(p_value(gains))
    for row, *expected in zip(gains, low, high, p, strict=True):
        assert [*interval(row, 0.9), p_value(row)] == expected


def test_p_is_one_where_nothing_varies_about_zero_and_zero_where_nothing_varies_elsewhere() -> None:
    assert p_value([0.0, 0.0, 0.0]) == 1
    assert p_value([0.5, 0.5, 0.5]) == 0


@pytest.mark.parametrize("ask", [interval, p_value])
def test_two_seeds_give_no_interval(ask) -> None:
    with pytest.raises(SpecError, match="seeds: 2 given, too few for an interval; use 3 or more"):
        ask([0.1, 0.2])


def _ends_after_test(mean: float, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of sets of spread 1 that pass a one-sided test at 5 %: the lower end given that they pass,
    and the plain one.
    """
    gains = mean + np.random.default_rng(53).normal(size=(1500, n))
    least_t = float(critical_t(0.9, n - 1))
    after, plain = [], []
    for one in gains:
        own = moments(one)
        error = float(own.standard_error)
        if float(own.mean) > least_t * error:
            after.append(lower_end_after_test(own, error, least_t))
            plain.append(float(own.mean) - least_t * error)
    return np.asarray(after), np.asarray(plain)


@pytest.mark.parametrize("n", [3, 5, 8])
@pytest.mark.parametrize("mean", [0.25, 1.0, 3.0])
def test_a_lower_end_after_a_test_is_too_high_in_5_percent_of_the_sets_that_pass(
    mean: float, n: int
) -> None:
    after, plain = _ends_after_test(mean, n)
    too_high = float((after > mean).mean())
    assert too_high <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / len(after))
    assert np.all(after <= plain + 1e-9)
    if mean == 0.25:  # sets that pass by luck: the plain end does not hold among them
        assert (plain > mean).mean() > 0.25


@pytest.mark.parametrize(("n", "least"), [(3, 14.089), (5, 5.598), (8, 4.029)])
def test_a_lower_end_after_a_test_at_5_percent_is_above_0_from_a_p_of_a_quarter_percent_on(
    n: int, least: float
) -> None:
    own, least_t = Moments(n, 1.0, 1.0), float(critical_t(0.9, n - 1))
    assert stats.t.sf(least, n - 1) == pytest.approx(0.0025, rel=1e-3)
    assert lower_end_after_test(own, 1 / (0.999 * least), least_t) == 0
    assert lower_end_after_test(own, 1 / (1.001 * least), least_t) > 0
    # of a mean that is far from 0 the test takes nothing away
    assert lower_end_after_test(own, 0.01, least_t) == pytest.approx(1 - 0.01 * least_t, abs=1e-6)
