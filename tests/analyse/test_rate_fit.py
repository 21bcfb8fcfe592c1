"""A parabola through a sweep: least squares, the interval of its vertex, and how well it fits."""

from math import log2, sqrt

import numpy as np
import pytest
from scipy import stats

from paribus.analyse.rate_fit import fit_rates

X = (-11.0, -10.5, -10.0, -9.5, -9.0)


def _losses(rng: np.random.Generator, noise: float = 0.01) -> dict[float, list[float]]:
    return {
        2.0**x: [float(2 + 0.04 * (x + 10.2) ** 2 + noise * rng.normal()) for _ in range(2)]
        for x in X
    }


def test_the_fit_is_the_least_squares_parabola() -> None:
    losses = _losses(np.random.default_rng(3))
    x = [log2(rate) for rate in losses for _ in range(2)]
    y = [loss for own in losses.values() for loss in own]
    expected, residual, *_ = np.polyfit(np.array(x), y, 2, full=True)
    found = fit_rates(losses)
    assert (found.a, found.b, found.c) == pytest.approx(expected, rel=1e-6)
    assert found.rss == pytest.approx(float(residual[0]))
    assert (found.n_points, found.n_rates, found.df) == (10, 5, 7)


def test_the_half_width_is_that_of_the_delta_method() -> None:
    losses = _losses(np.random.default_rng(5), 0.002)
    found = fit_rates(losses)
    design = np.array(
        [[1, log2(rate) + 10, (log2(rate) + 10) ** 2] for rate in losses for _ in range(2)]
    )
    y = np.array([loss for own in losses.values() for loss in own])
    (_, b, a), *_ = np.linalg.lstsq(design, y, rcond=None)
    covariance = found.rss / 7 * np.linalg.inv(design.T @ design)
    slope = np.array([0, -1 / (2 * a), b / (2 * a * a)])
    expected = stats.t.ppf(0.975, 7) * sqrt(slope @ covariance @ slope)
    assert found.half_width == pytest.approx(expected, rel=1e-6)
    assert found.excess_loss(found.vertex) == pytest.approx(a * expected**2, rel=1e-6)
    assert found.vertex_interval(found.vertex) == pytest.approx(
        (found.vertex - expected, found.vertex + expected)
    )


def test_the_interval_covers_the_true_vertex_in_about_95_of_100() -> None:
    rng, covered = np.random.default_rng(7), 0
    for _ in range(2000):
        found = fit_rates(_losses(rng, 0.002))
        covered += abs(found.vertex + 10.2) <= found.half_width
    assert 93 <= covered / 20 <= 97


def test_the_interval_is_clipped_to_an_octave_either_side_where_the_bend_is_not_seen() -> None:
    losses = {2.0**x: [2.0, 2.1] for x in X}
    losses[2.0**-10] = [1.99, 2.09]
    found = fit_rates(losses)
    assert found.half_width == float("inf")
    assert found.vertex_interval(-10.0) == (-11.0, -9.0)
    assert found.excess_loss(-10.0) == pytest.approx(found.a)


def test_a_parabola_that_opens_downward_has_no_vertex() -> None:
    found = fit_rates({2.0**x: [2 - 0.01 * (x + 10) ** 2] * 2 for x in X})
    assert (found.vertex, found.vertex_interval(-10.0), found.excess_loss(-10.0)) == (
        None,
        None,
        None,
    )


def test_lack_of_fit_is_the_f_test_against_the_difference_between_seeds() -> None:
    losses = {2.0**x: [2 + 0.1 * abs(x + 10), 2.001 + 0.1 * abs(x + 10)] for x in X}
    found = fit_rates(losses)
    pure = 5 * 2 * 0.0005**2
    ratio = ((found.rss - pure) / 2) / (pure / 5)
    assert found.pure_error == pytest.approx(pure)
    assert found.lack_of_fit == pytest.approx(stats.f.sf(ratio, 2, 5))
    assert found.lack_of_fit < 0.01
    assert (
        fit_rates({rate: own for rate, own in losses.items() if rate <= 2**-10}).lack_of_fit is None
    )
    assert fit_rates({rate: own[:1] for rate, own in losses.items()}).lack_of_fit is None
