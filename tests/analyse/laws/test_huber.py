"""Laws by Huber's loss: a published one is recovered from points like its own."""

import numpy as np
import pytest
from planted_laws import exact_points, planted_laws
from published_points import PUBLISHED, published_points
from scipy.optimize import minimize

from paribus.analyse.laws.huber import huber_law, without_highest
from paribus.analyse.laws.points import LawPoint
from paribus.errors import SpecError

TOLERANCES = {"E": 0.02, "A": 0.25, "B": 0.3, "alpha": 0.05, "beta": 0.05}  # shares of the value


def test_the_published_law_is_recovered_from_240_points():
    estimates = huber_law(published_points(noise=0.005)).estimates()
    assert list(estimates) == list(PUBLISHED)
    for name, value in PUBLISHED.items():
        found = estimates[name]
        assert found.low < value < found.high
        assert found.low < found.estimate < found.high
        assert found.estimate == pytest.approx(value, rel=TOLERANCES[name])


def test_exact_points_give_the_published_law_to_three_digits():
    estimates = huber_law(published_points(noise=0.0), n_draws=10).estimates()
    for name, value in PUBLISHED.items():
        assert estimates[name].estimate == pytest.approx(value, rel=1e-3)


def test_five_points_far_above_the_law_hardly_matter_and_can_be_dropped():
    points = published_points(noise=0.005)
    spoilt = [LawPoint(1e8 * k, 3e8 * k, 9.0 + k) for k in range(1, 6)]
    kept = without_highest([*spoilt, *points], 5)
    assert kept == points
    with_them = huber_law([*spoilt, *points], n_draws=10).law
    assert with_them.alpha == pytest.approx(huber_law(points, n_draws=10).law.alpha, abs=0.03)


def test_no_other_solver_finds_a_lower_loss():
    points = published_points(noise=0.01)
    x, z, y = (np.log([getattr(p, n) for p in points]) for n in ("parameters", "tokens", "loss"))

    def huber(theta):
        floor, log_a, log_b, alpha, beta = theta
        fitted = np.logaddexp(np.logaddexp(log_a - alpha * x, log_b - beta * z), floor)
        size = np.abs(y - fitted)
        return np.where(size < 1e-3, size**2 / 2, 1e-3 * (size - 5e-4)).sum() * 1e3

    law = huber_law(points, n_draws=1).law
    ours = np.array([np.log(law.floor), law.log_a, law.log_b, law.alpha, law.beta])
    truth = np.array([np.log(1.82), np.log(482), np.log(2085), 0.348, 0.366])
    for start in (ours, truth):
        reference = minimize(huber, start, method="Nelder-Mead", options={"maxfev": 4000})
        assert huber(ours) <= reference.fun * (1 + 1e-5)


def test_the_same_seed_gives_the_same_interval():
    points = exact_points(planted_laws(np.random.default_rng(1), 1)[0])
    noisy = [
        LawPoint(p.parameters, p.tokens, p.loss * (1 + 0.01 * (k % 3)))
        for k, p in enumerate(points)
    ]
    first, again = (huber_law(noisy, n_draws=30).estimates() for _ in range(2))
    assert first == again
    assert first != huber_law(noisy, seed=1, n_draws=30).estimates()


def test_seeds_of_a_cell_are_drawn_together():
    points = published_points(noise=0.01)
    double = huber_law([*points, *points], n_draws=200)
    assert double.n_cells == 240
    assert double.n_points == 480
    single = huber_law(points, n_draws=200)
    widths = [
        one.estimates()["alpha"].high - one.estimates()["alpha"].low for one in (double, single)
    ]
    assert widths[0] == pytest.approx(widths[1], rel=0.3)


def test_more_points_than_there_are_cannot_be_dropped():
    with pytest.raises(SpecError, match="--drop-highest is 3 for 3 points; use 0 to 2"):
        without_highest([LawPoint(1, 1, 1)] * 3, 3)


def test_points_that_say_too_little_are_refused():
    with pytest.raises(SpecError, match="a law needs 3 sizes or more"):
        huber_law([LawPoint(1e6 * k, 2e7 * k, 3.0) for k in range(1, 9)])
