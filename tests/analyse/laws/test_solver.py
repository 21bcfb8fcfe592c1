"""Least squares of laws: the Jacobian, exact points, an E of 0, and starts."""

import numpy as np
import pytest
from planted_laws import (
    PARAMETERS,
    exact_points,
    fit_planted,
    ladder_cells,
    planted_laws,
    planted_runs,
)
from scipy.optimize import least_squares

from paribus.analyse.laws.fit import fit_arm, fit_arms, one_floor_p
from paribus.analyse.laws.noise import law_noise
from paribus.analyse.laws.points import cells_by_arm
from paribus.analyse.laws.profile import QUANTITIES, quantity
from paribus.analyse.laws.solver import law_jacobian, law_model


def values_of(fit, arm=0):
    return np.array(
        [fit.best.theta_PQ[0] @ quantity(fit.model, q, arm).weights_Q for q in QUANTITIES]
    )


def test_the_jacobian_is_that_of_finite_differences():
    model = law_model([ladder_cells("causal"), ladder_cells("2P")])
    theta = np.array([[1.7, 0.3, 0.1, 0.31, 0.37, 0.2, -0.1, 0.43, 0.29]])
    _, jacobian = law_jacobian(model, theta)
    for place in range(model.n_parameters):
        step = np.zeros_like(theta)
        step[0, place] = 1e-6
        ahead, behind = (law_jacobian(model, theta + side * step)[0] for side in (1, -1))
        assert jacobian[:, :, place] == pytest.approx((ahead - behind) / 2e-6, abs=1e-8)


def test_exact_points_give_back_their_law():
    for law in planted_laws(np.random.default_rng(2), 20):
        (cells,) = cells_by_arm(exact_points(law)).values()
        assert values_of(fit_arm(cells)) == pytest.approx(law, rel=1e-4)


def test_the_law_says_the_loss_at_a_place():
    law = planted_laws(np.random.default_rng(2), 1)[0]
    points = exact_points(law)
    (cells,) = cells_by_arm(points).values()
    found = fit_arm(cells).law()
    for point in points:
        assert found.loss(point.parameters, point.tokens) == pytest.approx(point.loss, rel=1e-6)


def test_points_without_a_floor_are_fitted_with_an_e_of_0():
    law = planted_laws(np.random.default_rng(3), 1)[0]
    law[0] = 0.0
    (cells,) = cells_by_arm(exact_points(law)).values()
    assert fit_arm(cells).law().floor == pytest.approx(0, abs=1e-3)


def test_no_other_solver_finds_a_better_fit():
    rng = np.random.default_rng(5)
    laws = planted_laws(rng, 30)
    runs = planted_runs(rng, laws, noise=0.01)
    fit = fit_planted([runs])
    cells = runs.cells
    for number, law in enumerate(laws):

        def residual(theta, number=number):
            log_a, log_b, alpha, beta = theta[1:]
            size = np.exp(log_a - alpha * cells.log_parameters_C)
            data = np.exp(log_b - beta * cells.log_tokens_C)
            off = runs.log_loss_PC[number] - np.log(np.maximum(theta[0], 0) + size + data)
            return np.sqrt(fit.data.weights_PC[number]) * off

        bounds = ([0, *[-np.inf] * 4], [np.inf] * 5)
        reference = least_squares(residual, law, bounds=bounds, x_scale="jac", xtol=1e-14)
        assert fit.best.misfit_P[number] <= 2 * reference.cost * (1 + 1e-6)


def test_arms_share_one_floor_and_keep_their_own_exponents():
    rng = np.random.default_rng(7)
    laws = planted_laws(rng, 5)
    laws[:, 0] = 1.7
    arms = [
        planted_runs(rng, law[None], arm, noise=1e-6).problem(0)
        for law, arm in zip(laws, PARAMETERS, strict=True)
    ]
    fit = fit_arms(arms)
    assert fit.model.n_parameters == 21
    for number, law in enumerate(laws):
        assert values_of(fit, number) == pytest.approx(law, rel=1e-3)


def test_a_joint_fit_is_never_better_than_fits_with_a_floor_each():
    rng = np.random.default_rng(9)
    laws = planted_laws(rng, 20)
    runs = [planted_runs(rng, laws, arm) for arm in ("causal", "2P")]
    shared, separate = fit_planted(runs), fit_planted(runs, shared_floor=False)
    assert (shared.best.misfit_P >= separate.best.misfit_P - 1e-6).all()
    p = one_floor_p(shared, separate)
    assert ((p > 0) & (p <= 1)).all()
    assert (p < 0.05).mean() <= 0.25


def test_arms_whose_floors_differ_are_told_apart():
    rng = np.random.default_rng(9)
    laws = planted_laws(rng, 20)
    runs = [planted_runs(rng, laws + np.array([d, 0, 0, 0, 0])) for d in (0, 0.4)]
    p = one_floor_p(fit_planted(runs), fit_planted(runs, shared_floor=False))
    assert (p < 0.05).mean() > 0.8


def test_noise_by_hand():
    # 8 degrees of freedom over cells, 26 between seeds: F = (0.8/8)/(2.6/26) = 1
    noise = law_noise(0.8, 8, 2.6, 26)
    assert noise.variance == pytest.approx(0.1)
    assert noise.df == 26
    assert noise.lack_of_fit == pytest.approx(0.4594, abs=1e-4)
    missed = law_noise(8.0, 8, 2.6, 26)
    assert missed.lack_of_fit < 1e-4
    assert missed.variance == pytest.approx(1.0)
    assert missed.df == 8
    alone = law_noise(0.8, 8, 0.0, 0)
    assert np.isnan(alone.lack_of_fit)
    assert (alone.variance, alone.df) == (pytest.approx(0.1), 8)
