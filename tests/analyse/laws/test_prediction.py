"""Predictions of larger runs, and their outcomes."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_laws import (
    N_CELLS,
    PARAMETERS,
    PREDICTED_PARAMETERS,
    PREDICTED_TOKENS,
    SEED_NOISE,
    one_arm,
    planted_laws,
    planted_runs,
    relative_variances,
)

from paribus.analyse.laws.fit import ScalingLaw, fit_arm
from paribus.analyse.laws.prediction import compare_with_outcome, predict_loss
from paribus.errors import SpecError

PLACE = (PREDICTED_PARAMETERS, PREDICTED_TOKENS)  # the ladder's largest run
LAW = planted_laws(np.random.default_rng(1), 1)[0]


def test_exact_points_predict_the_loss():
    prediction = predict_loss(fit_arm(one_arm(1, LAW, noise=1e-7)), *PLACE)
    assert prediction.loss == pytest.approx(ScalingLaw(*LAW).loss(*PLACE), rel=1e-5)
    assert prediction.low < prediction.loss < prediction.high
    assert prediction.size_ratio == pytest.approx(PLACE[0] / 5787648)
    assert prediction.token_ratio == pytest.approx(94e6 / 95191040)


def prediction_coverage(
    n_laws: int,
    n_seeds: int,
    noise: float | NDArray[np.float64] = SEED_NOISE,
    cells_off: float = 0.0,
) -> tuple[float, float]:
    """How often the interval of the largest run holds its outcome, and half its width over the
    loss, the median; both in per cent. It is predicted from the law of a decoder; the other arms
    are there to say how noisy each rung is.
    """
    rng = np.random.default_rng(3)
    laws = planted_laws(rng, n_laws)
    arms = [planted_runs(rng, laws, arm, noise, cells_off) for arm in PARAMETERS]
    relative_PC = relative_variances(arms)
    noise_of_largest = np.broadcast_to(noise, N_CELLS)[-1]
    inside, widths = 0, []
    for number, law in enumerate(laws):
        fit = fit_arm(arms[0].problem(number, relative_PC[number]))
        prediction = predict_loss(fit, *PLACE, n_seeds=n_seeds)
        off = cells_off * rng.normal() + noise_of_largest * rng.normal(size=n_seeds)
        outcome = compare_with_outcome(prediction, ScalingLaw(*law).loss(*PLACE) * np.exp(off))
        inside += outcome.inside
        widths.append((prediction.high - prediction.low) / (2 * prediction.loss))
    return 100 * inside / n_laws, 100 * float(np.median(widths))


@pytest.mark.parametrize("cells_off", [0.0, 0.005])
def test_the_interval_holds_outcomes_as_often_as_it_says(cells_off):
    covered, _ = prediction_coverage(50, 3, cells_off=cells_off)
    assert covered >= 86


def test_more_seeds_and_a_lower_level_give_a_narrower_interval():
    fit = fit_arm(one_arm(1, LAW))
    one, three = predict_loss(fit, *PLACE), predict_loss(fit, *PLACE, n_seeds=3)
    half = predict_loss(fit, *PLACE, level=0.5)
    assert one.high - one.low > three.high - three.low
    assert one.high - one.low > half.high - half.low


def test_an_outcome_is_put_into_words():
    prediction = replace(
        predict_loss(fit_arm(one_arm(1, LAW)), *PLACE, n_seeds=2), loss=4.0, low=3.0, high=5.0
    )
    said = [compare_with_outcome(prediction, losses) for losses in ((2, 8), (8, 8), (1, 1))]
    assert [one.words for one in said] == [
        "within the interval",
        "worse than predicted",
        "better than predicted",
    ]
    assert said[0].loss == pytest.approx(4)  # √(2·8)
    assert said[1].error == pytest.approx(1)


def test_what_cannot_be_compared_or_predicted_is_refused():
    fit = fit_arm(one_arm(1, LAW))
    with pytest.raises(SpecError, match="2 losses for a prediction of 1; the interval holds for"):
        compare_with_outcome(predict_loss(fit, *PLACE), [3.0, 3.1])
    with pytest.raises(SpecError, match=r"a loss of \[nan\] is not above 0"):
        compare_with_outcome(predict_loss(fit, *PLACE), [float("nan")])
    with pytest.raises(SpecError, match="prediction: tokens is 0; use a number above 0"):
        predict_loss(fit, 1e6, 0)
