"""Laws with a break: a planted one is found, and laws without one are seldom called broken."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from paribus.analyse.laws.broken import broken_law, fit_both
from paribus.analyse.laws.broken_solver import broken_jacobian, broken_log_loss
from paribus.analyse.laws.points import LawPoint, path_cells
from paribus.errors import SpecError

SIZES = np.geomspace(1e6, 1e9, 8)
X = np.log(SIZES) - np.log(SIZES).mean()
CENTRE = float(np.exp(np.log(SIZES).mean()))
BREAK = 0.5  # ln of the planted break over the centre
PLANTED = np.array([[0.5, np.log(1.5), 0.1, 0.2, BREAK, np.log(0.3)]])
PLAIN = np.array([[1.7, np.log(1.5), 0.3, 0.0, 0.0, 0.0]])
OTHER_PLAIN = np.array([[0.0, np.log(1.5), 0.1, 0.0, 0.0, 0.0]])


def points(theta, rng, noise=0.003, n_seeds=3):
    log_loss = broken_log_loss(X, theta)[0]
    return [
        LawPoint(size, 1e10, float(np.exp(value + noise * rng.standard_normal())), seed=seed)
        for size, value in zip(SIZES, log_loss, strict=True)
        for seed in range(n_seeds)
    ]


def f_values(theta, rng, n_laws):
    """F of many laws without repeated seeds."""
    cells = path_cells(points(theta, rng, n_seeds=1))
    drawn = broken_log_loss(X, theta) + 0.003 * rng.standard_normal((n_laws, len(X)))
    return fit_both(X, cells, drawn, np.zeros(n_laws))


def test_the_jacobian_is_that_of_differences():
    theta = np.array([[1.2, 0.3, 0.3, -0.2, 0.4, -0.5]])
    fitted, jacobian = broken_jacobian(X, theta)
    assert fitted == pytest.approx(broken_log_loss(X, theta))
    for place, step in enumerate(1e-6 * np.eye(6)):
        moved = broken_log_loss(X, theta + step) - broken_log_loss(X, theta - step)
        assert jacobian[..., place] == pytest.approx(moved / 2e-6, abs=1e-8)


def test_exact_points_give_the_planted_law():
    law = broken_law(points(PLANTED, np.random.default_rng(1), noise=0.0), n_draws=9)
    assert law.floor == pytest.approx(0.5, abs=0.02)
    assert law.before == pytest.approx(0.1, abs=0.01)
    assert law.after == pytest.approx(0.3, abs=0.01)
    assert law.break_at.estimate == pytest.approx(CENTRE * np.exp(BREAK), rel=0.03)
    assert law.width == pytest.approx(0.3, abs=0.1)
    for size, value in zip(SIZES, broken_log_loss(X, PLANTED)[0], strict=True):
        assert law.loss(size) == pytest.approx(np.exp(value), rel=1e-4)


def test_a_planted_break_is_found_with_its_place():
    law = broken_law(points(PLANTED, np.random.default_rng(2)), n_draws=39)
    assert law.is_broken
    assert law.p == 1 / 40
    assert law.break_at.low < CENTRE * np.exp(BREAK) < law.break_at.high
    assert law.break_at.low > CENTRE / 10
    assert law.break_at.high < CENTRE * 10
    assert law.after > law.before


def test_a_law_without_a_break_is_not_called_broken():
    law = broken_law(points(PLAIN, np.random.default_rng(3)), n_draws=39)
    assert not law.is_broken
    assert law.plain_exponent == pytest.approx(0.3, abs=0.05)
    assert law.plain_floor == pytest.approx(1.7, abs=0.3)


def test_f_of_one_law_without_a_break_holds_for_another():
    """So the F of draws from the fitted law can judge the F of the runs."""
    rng = np.random.default_rng(4)
    limit = np.quantile(f_values(PLAIN, rng, 150).f_P, 0.95)
    assert (f_values(OTHER_PLAIN, rng, 150).f_P > limit).mean() < 0.12


@pytest.mark.slow
def test_laws_without_a_break_are_called_broken_in_about_one_of_twenty():
    rng = np.random.default_rng(5)
    called = []
    for theta in (PLAIN, OTHER_PLAIN):
        for n_seeds in (1, 3):
            for _ in range(50):
                law = broken_law(points(theta, rng, n_seeds=n_seeds), n_draws=59)
                called.append(law.p <= 0.05)
    assert 0.01 <= np.mean(called) <= 0.09


def test_no_other_solver_fits_better():
    rng = np.random.default_rng(6)
    cells = path_cells(points(PLANTED, np.random.default_rng(7), n_seeds=1))
    fits = fit_both(X, cells, cells.log_loss_C[None], np.zeros(1))
    low, high = [0, -9, -5, -5, X[1], -3], [9, 9, 5, 5, X[-2], np.log((X[-1] - X[0]) / 4)]
    for _ in range(5):
        start = rng.uniform([0.0, -1.0, 0.0, 0.0, X[2], -2.0], [1.0, 1.0, 0.4, 0.4, X[5], 0.0])
        found = least_squares(
            lambda theta: cells.log_loss_C - broken_log_loss(X, theta[None])[0],
            start,
            bounds=(low, high),
        )
        assert fits.broken.misfit_P[0] <= 2 * found.cost * (1 + 1e-4)


def test_too_few_sizes_are_refused():
    few = points(PLAIN, np.random.default_rng(1))[:21]
    with pytest.raises(SpecError, match="7 sizes for a broken law; use 8 or more"):
        broken_law(few)
