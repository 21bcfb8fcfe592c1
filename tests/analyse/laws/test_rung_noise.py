"""Noise that differs between the rungs of a ladder, and points that count by it."""

from dataclasses import replace

import numpy as np
import pytest
from planted_laws import (
    N_CELLS,
    PARAMETERS,
    RUNG_NOISE,
    fit_planted,
    ladder_cells,
    planted_laws,
    planted_runs,
)
from scipy import stats

from paribus.analyse.laws.fit import fit_arm
from paribus.analyse.laws.off_law import off_law_variance
from paribus.analyse.laws.points import LawPoint, cells_by_arm, noise_of_rungs
from paribus.analyse.laws.prediction import predict_loss
from paribus.analyse.laws.profile import covariance, quantity
from paribus.analyse.laws.rung_noise import rung_noise

TOKENS_R = np.linspace(0.0, 4.0, 9)


def test_variances_on_a_trend_are_found_exactly_whatever_the_arms_noise():
    true_R = np.exp(1.0 - 1.5 * TOKENS_R + 0.2 * TOKENS_R**2)
    squares_AR = 2 * np.array([1e-5, 4e-4])[:, None] * true_R
    found = rung_noise(squares_AR[None], np.full((2, 9), 2.0), TOKENS_R)
    assert found.differs_P.tolist() == [True]
    expected = true_R / np.exp(np.log(true_R).mean())
    assert found.relative_PR[0] == pytest.approx(expected, rel=1e-6)


def test_a_rung_without_repeated_seeds_has_the_trend():
    true_R = np.exp(-2.0 * TOKENS_R)
    df_R = np.where(np.arange(9) == 4, 0.0, 10.0)
    found = rung_noise((df_R * true_R)[None, None], df_R[None], TOKENS_R)
    assert found.relative_PR[0] == pytest.approx(np.exp(-2 * (TOKENS_R - 2)), rel=1e-6)


def test_a_rung_off_the_trend_is_drawn_half_way_by_ten_degrees_of_freedom():
    true_R = np.exp(-2.0 * TOKENS_R)
    alone = rung_noise((10 * true_R)[None, None], np.full((1, 9), 10.0), TOKENS_R)
    true_R[4] *= 4
    found = rung_noise((10 * true_R)[None, None], np.full((1, 9), 10.0), TOKENS_R)
    # the trend moves, too, and the geometric mean is 1: so not exactly (1 + 4)/2
    assert 2 < found.relative_PR[0, 4] / alone.relative_PR[0, 4] < 3


def test_equal_noise_is_seldom_called_different():
    rng, n_problems = np.random.default_rng(2), 4000
    for n_arms in (1, 5):
        squares = rng.chisquare(2, size=(n_problems, n_arms, N_CELLS)) * 1e-6
        found = rung_noise(
            squares, np.full((n_arms, N_CELLS), 2.0), np.arange(N_CELLS, dtype=float)
        )
        assert found.differs_P.mean() == pytest.approx(0.05, abs=0.0125)
        assert (found.relative_PR[~found.differs_P] == 1).all()


def test_of_one_arm_the_test_is_bartletts():
    runs_RS = np.random.default_rng(3).normal(size=(9, 4)) * np.exp(-0.3 * TOKENS_R)[:, None]
    squares_R = ((runs_RS - runs_RS.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    found = rung_noise(squares_R[None, None], np.full((1, 9), 3.0), TOKENS_R)
    assert found.p_P[0] == pytest.approx(stats.bartlett(*runs_RS).pvalue, rel=1e-6)


def test_two_rungs_or_seeds_that_agree_say_nothing():
    few = rung_noise(np.array([[[1e-4, 1e-8]]]), np.full((1, 2), 2.0), TOKENS_R[:2])
    assert few.relative_PR.tolist() == [[1, 1]]
    same = rung_noise(np.zeros((1, 1, 9)), np.full((1, 9), 2.0), TOKENS_R)
    assert same.relative_PR[0] == pytest.approx(1)


def noisy_points(n_seeds: int = 3) -> list[LawPoint]:
    rng = np.random.default_rng(4)
    points = []
    for arm in PARAMETERS:
        cells = ladder_cells(arm)
        for place in range(N_CELLS):
            for seed in range(n_seeds):
                loss = 2 + np.exp(4 - 0.3 * cells.log_tokens_C[place])
                points.append(
                    LawPoint(
                        float(np.exp(cells.log_parameters_C[place])),
                        float(np.exp(cells.log_tokens_C[place])),
                        float(loss * np.exp(RUNG_NOISE[place] * rng.normal())),
                        arm,
                        seed,
                        str(place),
                    )
                )
    return points


def test_cells_of_all_arms_have_the_noise_of_their_rung():
    cells = cells_by_arm(noisy_points(n_seeds=20))
    rungs, noise = noise_of_rungs(list(cells.values()))
    assert noise.p_P[0] < 1e-6
    for own in cells.values():
        relative = dict(zip(own.rungs, own.relative_variance_C, strict=True))
        assert relative == dict(zip(rungs, noise.relative_PR[0], strict=True))
        ratio = own.relative_variance_C[0] / own.relative_variance_C[8]
        assert ratio == pytest.approx((RUNG_NOISE[0] / RUNG_NOISE[8]) ** 2, rel=0.5)
        assert own.pure_error == pytest.approx((own.squares_C / own.relative_variance_C).sum())


def test_the_noisiest_points_do_not_widen_every_interval():
    cells = cells_by_arm(noisy_points())["causal"]
    alike = replace(cells, relative_variance_C=np.ones(N_CELLS))
    errors = []
    for one in (cells, alike):
        fit = fit_arm(one)
        weights_Q = quantity(fit.model, "E").weights_Q
        variance = covariance(fit.data, fit.best)[0]
        errors.append(float(np.sqrt(weights_Q @ variance @ weights_Q)))
    assert errors[0] < errors[1] / 2


def test_a_prediction_has_the_noise_of_its_duration():
    cells = cells_by_arm(noisy_points())["causal"]
    fit = fit_arm(cells)
    short, long = (predict_loss(fit, 2e6, tokens) for tokens in (1.5e6, 95e6))
    assert short.high / short.low - 1 > 5 * (long.high / long.low - 1)


def test_cells_off_a_law_get_the_variance_that_their_residuals_ask_for():
    rng = np.random.default_rng(5)
    laws = planted_laws(rng, 40)
    fit = fit_planted([planted_runs(rng, laws, noise=RUNG_NOISE, cells_off=0.01)])
    (noise,) = fit.noises
    assert noise.uses_cells.all()
    assert fit.best.misfit_P == pytest.approx(N_CELLS - 5, rel=1e-3)
    assert np.sqrt(np.median(noise.off_law)) == pytest.approx(0.01, rel=0.3)
    again = off_law_variance([fit.data], [fit.best.theta_PQ], N_CELLS - 5)
    assert (again < 1e-3 * noise.off_law).all()
