"""The kept ladder: planted laws stand where its runs do, and its arms miss their laws together."""

import json

import numpy as np
import pytest
from kept_studies import RESULTS, rows_of
from planted_laws import N_SEEDS, PARAMETERS, PREDICTED_PARAMETERS, PREDICTED_TOKENS, RUNG_NOISE
from planted_laws import TOKENS as PLANTED_TOKENS

from paribus.analyse.laws.fit import LawFit, fit_arms
from paribus.analyse.laws.points import LawCells, LawPoint, cells_by_arm
from paribus.analyse.laws.profile import difference, profile_interval, profile_p
from paribus.analyse.laws.shared_misfit import SharingFit, fit_sharing

STUDY = "ladder-hour"
ARMS = dict(
    zip(
        ("causal", "prefix", "encoder-decoder P", "encoder-decoder shared", "encoder-decoder 2P"),
        PARAMETERS,
        strict=True,
    )
)
SHARED_AGAINST_CAUSAL = (3, 0)
LEVEL = 0.995  # what 10 tests leave of 5 %


@pytest.fixture(scope="module")
def cells() -> dict[str, LawCells]:
    points: list[LawPoint] = []
    for row in rows_of(RESULTS / STUDY / "rows.csv"):
        if row["purpose"] == "ladder":
            points.append(
                LawPoint(
                    parameters=float(row["parameters"]),
                    tokens=float(row["planned_tokens"]),
                    loss=float(row["halves.test"]),
                    arm=row["arm"],
                    seed=int(row["seed"]),
                    rung=f"{row['size']}:{row['n_steps']}",
                )
            )
    return cells_by_arm(points)


@pytest.fixture(scope="module")
def sharing(cells: dict[str, LawCells]) -> SharingFit:
    return fit_sharing(fit_arms(list(cells.values())))


def test_laws_are_planted_where_the_runs_of_the_ladder_stand(cells):
    rungs = json.loads((RESULTS / STUDY / "plan.json").read_text())["rungs"]
    assert tuple(tuple(rung["tokens"]) for rung in rungs[:-1]) == PLANTED_TOKENS
    for arm, planted in ARMS.items():
        sizes = [rung["arms"][arm]["price"]["parameters"] for rung in rungs]
        assert tuple(sizes[:-1]) == PARAMETERS[planted]
        assert set(cells[arm].n_runs_C) == {N_SEEDS}
    last = rungs[-1]
    assert last["is_predicted"]
    assert last["arms"]["causal"]["price"]["parameters"] == PREDICTED_PARAMETERS
    assert last["tokens"] == [PREDICTED_TOKENS]


def test_planted_noise_is_that_of_its_seeds(cells):
    variances = [cells[arm].squares_C / (N_SEEDS - 1) for arm in ARMS]
    assert np.sqrt(np.mean(variances, axis=0)) == pytest.approx(RUNG_NOISE, rel=0.03)


def test_no_law_fits_and_arms_miss_theirs_together(cells, sharing):
    for noise in fit_arms(list(cells.values())).noises:
        assert noise.lack_of_fit[0] < 1e-5
    shared, own, p = sharing.spreads_P3[0]
    assert shared == pytest.approx(0.0073, abs=5e-5)
    assert own == pytest.approx(0.0018, abs=5e-5)
    assert p < 1e-10


def test_an_interval_knows_of_a_second_valley(sharing):
    """The best fit has an E of 0. Other values of α's difference belong to a valley of another E:
    a search that stays in the first valley would leave out 0, which is not rejected.
    """
    fit: LawFit = sharing.fit
    assert fit.best.theta_PQ[0, 0] == 0
    functional = difference(fit.model, "alpha", *SHARED_AGAINST_CAUSAL)
    low, high = profile_interval(fit.data, fit.best, functional, fit.df_P, LEVEL)
    assert profile_p(fit.data, fit.best, functional, 0.0, fit.df_P)[0] > 1 - LEVEL
    assert low[0] < -0.05
    assert high[0] > 0.05
