"""Cells off their laws: what one arm shows by itself, and what arms show together."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_laws import (
    N_CELLS,
    PARAMETERS,
    RUNG_NOISE,
    SEED_NOISE,
    PlantedRuns,
    fit_planted,
    planted_laws,
    planted_runs,
)
from scipy.stats import combine_pvalues

from paribus.analyse.laws.fit import fit_arm, fit_arms
from paribus.analyse.laws.misfit import COMMON_DF
from paribus.analyse.laws.points import LawCells

FIT_DF = N_CELLS - 5
SEEDS_DF = 26


def arms_off(
    n_laws: int, cells_off: float, noise: float | NDArray[np.float64] = SEED_NOISE
) -> list[PlantedRuns]:
    """Five arms under the same laws, whose cells are off by so much."""
    rng = np.random.default_rng(5)
    laws = planted_laws(rng, n_laws)
    return [planted_runs(rng, laws, arm, noise, cells_off) for arm in PARAMETERS]


def one_problem(runs: PlantedRuns, number: int) -> PlantedRuns:
    """One of many problems, by itself."""
    here = slice(number, number + 1)
    return PlantedRuns(runs.cells, runs.log_loss_PC[here], runs.squares_PC[here])


def test_seeds_are_the_noise_where_laws_fit():
    fit = fit_planted(arms_off(1, 0.0))
    assert fit.pools_misfit
    assert fit.misfit_p_P[0] > 0.05
    for noise in fit.noises:
        assert not noise.uses_cells[0]
        assert noise.df[0] == SEEDS_DF
        assert noise.off_law[0] == 0
        assert noise.variance[0] == noise.seed_variance[0]


def test_the_p_of_all_arms_is_that_of_fishers_method():
    fit = fit_planted(arms_off(3, 0.001))
    p_AP = np.array([noise.lack_of_fit for noise in fit.noises])
    expected = [combine_pvalues(p_A, method="fisher").pvalue for p_A in p_AP.T]
    assert fit.misfit_p_P == pytest.approx(expected, rel=1e-9)


def test_arms_that_show_less_than_all_together_get_a_variance_between_the_two():
    runs = arms_off(2, 0.005)
    together, alone = fit_planted(runs), fit_planted(runs, pools_misfit=False)
    assert (together.misfit_p_P < 1e-6).all()
    assert not alone.pools_misfit
    share = COMMON_DF / (COMMON_DF + FIT_DF)
    for problem in range(2):
        of_all: list[float] = []
        for noise, own in zip(together.noises, alone.noises, strict=True):
            assert noise.uses_cells[problem]
            if noise.off_law[problem] == own.off_law[problem]:
                assert noise.df[problem] == FIT_DF
                continue
            assert noise.df[problem] == COMMON_DF + FIT_DF
            rest = noise.off_law[problem] - (1 - share) * own.off_law[problem]
            of_all.append(rest / share)
            assert own.off_law[problem] < noise.off_law[problem] < of_all[-1]
        assert 0 < len(of_all) < len(PARAMETERS)
        assert of_all == pytest.approx([of_all[0]] * len(of_all), rel=1e-6)
        assert np.sqrt(of_all[0]) == pytest.approx(0.005, rel=0.35)


def test_the_variance_that_other_arms_help_to_find_scatters_less():
    runs = arms_off(20, 0.005)
    alone, together = (fit_planted(runs, pools_misfit=pools) for pools in (False, True))
    own, pooled = (np.log(fit.noises[0].off_law) for fit in (alone, together))
    assert pooled.std() < 0.85 * own.std()
    assert np.sqrt(np.exp(pooled.mean())) == pytest.approx(0.005, rel=0.15)


def test_the_spread_of_several_problems_is_that_of_each():
    runs = arms_off(2, 0.004, RUNG_NOISE)[:2]
    many = fit_planted(runs)
    one = fit_planted([one_problem(run, 1) for run in runs])
    for several, single in zip(many.noises, one.noises, strict=True):
        assert several.off_law[1] == pytest.approx(single.off_law[0], rel=1e-6)
    assert many.misfit_p_P[1] == pytest.approx(one.misfit_p_P[0], rel=1e-6)


def test_an_arm_without_seeds_is_judged_by_itself_and_the_others_together():
    cells = [run.problem(0) for run in arms_off(1, 0.005)]
    without_seeds = replace(cells[-1], n_runs_C=np.ones(N_CELLS), squares_C=np.zeros(N_CELLS))
    together, fit = fit_arms(cells[:-1]), fit_arms([*cells[:-1], without_seeds])
    assert fit.misfit_p_P == pytest.approx(together.misfit_p_P)
    for one, other in zip(fit.noises, together.noises, strict=False):
        assert one.off_law == pytest.approx(other.off_law)
        assert one.df == pytest.approx(other.df)
    assert fit.noises[-1].off_law.tolist() == [0.0]
    assert fit.noises[-1].df.tolist() == [FIT_DF]


def some_cells(cells: LawCells, places: Sequence[int]) -> LawCells:
    """The cells at some places alone."""
    kept = list(places)
    return replace(
        cells,
        log_parameters_C=cells.log_parameters_C[kept],
        log_tokens_C=cells.log_tokens_C[kept],
        log_loss_C=cells.log_loss_C[kept],
        n_runs_C=cells.n_runs_C[kept],
        squares_C=cells.squares_C[kept],
        rungs=tuple(cells.rungs[place] for place in kept),
        relative_variance_C=cells.relative_variance_C[kept],
    )


def test_arms_of_few_cells_have_no_more_degrees_of_freedom_in_common_than_they_leave():
    three_sizes = (0, 2, 3, 5, 6, 8)  # of two durations each
    cells = [some_cells(run.problem(0), three_sizes) for run in arms_off(1, 0.02)[:2]]
    fit = fit_arms(cells)
    assert fit.misfit_p_P[0] < 0.05
    assert max(noise.df[0] for noise in fit.noises) == 3  # its own one, and two of both arms


def test_one_arm_and_arms_without_seeds_are_judged_by_what_they_show_themselves():
    runs = arms_off(1, 0.005)
    assert fit_arm(runs[0].problem(0)).misfit_p_P is None
    cells = [run.problem(0) for run in runs]
    seedless = [
        replace(one, n_runs_C=np.ones(N_CELLS), squares_C=np.zeros(N_CELLS)) for one in cells
    ]
    assert fit_arms(cells).pools_misfit
    assert not fit_arms(seedless).pools_misfit
