"""What arms of a rung miss their laws by together: found, and no noise of a difference."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from planted_laws import (
    N_CELLS,
    RUNG_NOISE,
    SEED_NOISE,
    PlantedRuns,
    arms_with_one_floor,
    fit_planted,
    interval_coverage,
    planted_laws,
    planted_runs,
)
from planted_words import OWN, SHARED, Misses, planted_ladder
from scipy.optimize import least_squares

from paribus.analyse.laws.exponents import compare_exponents
from paribus.analyse.laws.fit import effective_df, fit_arms
from paribus.analyse.laws.points import LawCells
from paribus.analyse.laws.profile import covariance, difference, profile_p, quantity
from paribus.analyse.laws.shared_misfit import (
    can_share,
    fit_of_one_law,
    fit_sharing,
    shared_misfit,
)
from paribus.analyse.laws.solver import (
    LawData,
    RungVariance,
    fitted_log_loss,
    law_jacobian,
    solve,
)

PAIR = [("prefix", "causal")]


def planted_arms(n_laws: int, shared: float, own: float, beta: float = 0.0) -> list[PlantedRuns]:
    """Five arms that are off their laws together and each by itself; β of the second differs."""
    return planted_ladder(n_laws, Misses(RUNG_NOISE, own, shared), beta=beta)


def cells_of(runs: list[PlantedRuns], problem: int = 0) -> dict[str, LawCells]:
    return {one.cells.arm: one.problem(problem) for one in runs}


def whole_covariance(data: LawData) -> np.ndarray:
    assert data.rung_variance is not None
    is_of_CR = data.rung_variance.is_of_CR
    shared = data.rung_variance.shared_P[0] * is_of_CR @ is_of_CR.T
    return np.diag(1 / data.weights_PC[0]) + shared


def data_that_shares(cells: Mapping[str, LawCells]) -> LawData:
    fit = fit_arms(list(cells.values()))
    rungs = [rung for one in cells.values() for rung in one.rungs]
    is_of_CR = (np.array(rungs)[:, None] == np.unique(rungs)).astype(float)
    return replace(fit.data, rung_variance=RungVariance(np.array([SHARED**2]), is_of_CR))


def test_weights_are_the_inverse_of_the_whole_covariance():
    data = data_that_shares(cells_of(planted_arms(1, SHARED, OWN)))
    columns = np.random.default_rng(1).normal(size=(1, len(data.weights_PC[0]), 4))
    exact = np.linalg.solve(whole_covariance(data), columns[0])
    assert data.weighted(columns)[0] == pytest.approx(exact, rel=1e-9, abs=1e-9 * exact.max())


def test_laws_are_those_of_generalised_least_squares():
    data = data_that_shares(cells_of(planted_arms(1, SHARED, OWN)))
    start = fit_planted(planted_arms(1, SHARED, OWN)).best.theta_PQ
    found = solve(data, start)
    whiten = np.linalg.inv(np.linalg.cholesky(whole_covariance(data)))
    exact = least_squares(
        lambda theta: whiten @ (data.log_loss_PC[0] - fitted_log_loss(data.model, theta[None])[0]),
        found.theta_PQ[0],
        x_scale="jac",
    )
    assert found.misfit_P[0] == pytest.approx(2 * exact.cost, rel=1e-6)
    jacobian = law_jacobian(data.model, found.theta_PQ)[1][0]
    inverse = np.linalg.inv(jacobian.T @ np.linalg.solve(whole_covariance(data), jacobian))
    assert np.diag(covariance(data, found)[0]) == pytest.approx(np.diag(inverse), rel=1e-3)


def test_without_a_shared_part_nothing_changes():
    runs = planted_arms(2, 0.0, OWN)
    fit = fit_planted(runs)
    nothing = RungVariance(np.zeros(2), np.ones((len(fit.data.weights_PC[0]), 1)))
    again = solve(replace(fit.data, rung_variance=nothing), fit.best.theta_PQ)
    assert again.misfit_P == pytest.approx(fit.best.misfit_P, rel=1e-8)


def test_both_spreads_are_found():
    spreads = fit_sharing(fit_planted(planted_arms(12, SHARED, OWN))).spreads_P3
    assert np.median(spreads[:, 0]) == pytest.approx(SHARED, rel=0.3)
    assert np.median(spreads[:, 1]) == pytest.approx(OWN, rel=0.3)
    assert (spreads[:, 2] < 1e-6).all()


def test_arms_that_miss_each_by_itself_share_nothing():
    spreads = fit_sharing(fit_planted(planted_arms(12, 0.0, 0.005))).spreads_P3
    assert np.median(spreads[:, 0]) < 0.001
    assert np.median(spreads[:, 1]) == pytest.approx(0.005, rel=0.2)
    assert (spreads[:, 2] < 0.05).mean() < 0.35
    cells = cells_of(planted_arms(1, 0.0, 0.005))
    assert shared_misfit(cells, PAIR, margin=0.05) is None


def test_there_is_no_such_reading_where_laws_fit_or_stand_alone():
    rng = np.random.default_rng(2)
    laws = planted_laws(rng, 1)
    runs = [planted_runs(rng, laws, arm, SEED_NOISE) for arm in ("causal", "prefix")]
    assert not can_share(fit_planted(runs))
    assert shared_misfit(cells_of(runs), PAIR, margin=0.05) is None
    off = cells_of(planted_arms(1, SHARED, OWN))
    assert shared_misfit({"causal": off["causal"]}, PAIR, margin=0.05) is None
    assert shared_misfit(off, [], margin=0.05) is None
    one_seed = {
        arm: replace(cells, n_runs_C=np.ones(N_CELLS), squares_C=np.zeros(N_CELLS))
        for arm, cells in off.items()
    }
    assert shared_misfit(one_seed, PAIR, margin=0.05) is None


def test_differences_are_seen_that_the_common_misfit_hides():
    fit = fit_planted(planted_arms(16, SHARED, OWN, beta=0.1))
    sharing = fit_sharing(fit).fit
    functional = difference(fit.model, "beta", 1, 0)
    seen = []
    for one in (fit, sharing):
        df = effective_df(one, functional.weights_Q[None])
        seen.append(int((profile_p(one.data, one.best, functional, 0.0, df) < 0.005).sum()))
    assert seen[0] <= 4
    assert seen[1] >= 10


def test_a_difference_gets_its_word_and_a_narrower_interval():
    cells = cells_of(planted_arms(1, SHARED, OWN, beta=0.15))
    (plain,) = (one for one in compare_exponents(cells, PAIR) if one.exponent == "beta")
    found = shared_misfit(cells, PAIR, margin=0.05)
    assert found is not None
    assert found.p < 1e-6
    (beta,) = (one for one in found.verdicts if one.exponent == "beta")
    assert (beta.word, beta.larger) == ("β larger", "prefix")
    assert beta.one_floor.low < 0.15 < beta.one_floor.high
    wider = plain.one_floor
    assert beta.one_floor.high - beta.one_floor.low < 0.8 * (wider.high - wider.low)


@pytest.mark.slow
@pytest.mark.parametrize(("shared", "own"), [(SHARED, OWN), (0.005, 0.005), (0.0, 0.005)])
def test_equal_exponents_are_seldom_called_different(shared, own):
    fit = fit_sharing(fit_planted(planted_arms(300, shared, own))).fit
    for name in ("alpha", "beta"):
        p = profile_p(fit.data, fit.best, difference(fit.model, name, 1, 0), 0.0, fit.df_P)
        assert 100 * (p < 0.05).mean() < 5 + 3 * 100 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.slow
def test_intervals_of_laws_cover_only_if_what_is_common_is_heeded():
    n_laws = 200
    laws, runs = arms_with_one_floor(n_laws, RUNG_NOISE, OWN, SHARED)
    fit = fit_planted(runs)
    assert interval_coverage(fit, laws)["E"] < 80
    heeding = interval_coverage(fit_of_one_law(fit_sharing(fit).fit), laws)
    assert min(heeding.values()) > 95 - 3 * 100 * np.sqrt(0.05 * 0.95 / n_laws), heeding


def test_degrees_of_freedom_are_those_of_differences_between_arms():
    fit = fit_sharing(fit_planted(planted_arms(1, SHARED, OWN))).fit
    weights = difference(fit.model, "alpha", 1, 0).weights_Q
    assert effective_df(fit, weights[None]).tolist() == [5 * N_CELLS - N_CELLS - 16]


def test_the_law_of_one_arm_has_the_degrees_of_freedom_of_the_places():
    fit = fit_of_one_law(fit_sharing(fit_planted(planted_arms(1, SHARED, OWN))).fit)
    weights = quantity(fit.model, "E").weights_Q
    assert effective_df(fit, weights[None]).tolist() == [N_CELLS - 5]
