"""Verdicts of scores that end: at the floor and at the ceiling, by hand and by simulation."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from paribus.analyse.bound_verdict import SAME_SCORES, compare_scores
from paribus.analyse.criterion import Criterion
from paribus.analyse.judgement import judge_arm
from paribus.analyse.score_bounds import Floor, ScoreBounds, row_bounds
from paribus.analyse.verdict import Verdict
from paribus.errors import SpecError
from paribus.spec.measure import ACCURACY, LIKELIHOOD

HALF = ScoreBounds(floor=Floor("uniform", 50.0), ceiling=100.0, resolution=0.5)
N_STUDIES = 1000


def judged(
    baseline: list[float], arm: list[float], bounds: ScoreBounds | None = HALF, margin: float = 3.0
) -> Verdict:
    criterion = Criterion(margin=margin, bounds=bounds)
    return judge_arm(dict(enumerate(baseline)), dict(enumerate(arm)), ACCURACY, criterion).verdict


def test_two_arms_at_the_floor_are_not_equivalent():
    before, after = [50.2, 49.8, 50.0, 50.1, 49.9], [50.0, 50.1, 49.9, 49.8, 50.2]
    assert judged(before, after, bounds=None).word == "equivalent"
    verdict = judged(before, after)
    assert verdict.word == "at floor"
    assert verdict.detail == "no arm is above 50 points, which a uniform guess scores"


def test_an_arm_above_the_floor_gets_the_usual_word():
    at_floor, above = [50.2, 49.8, 50.0, 50.1, 49.9], [70.0, 71.0, 69.0, 70.5, 69.5]
    assert judged(at_floor, above).word == "better"
    assert judged(above, at_floor).word == "worse"
    assert judged(above, [score + 0.1 for score in reversed(above)]).word == "equivalent"


def test_arms_below_the_floor_are_at_the_floor_though_they_differ():
    assert judged([30.0, 31.0, 29.0], [40.0, 42.0, 41.0]).word == "at floor"


def test_two_arms_at_the_ceiling_are_not_equivalent():
    before, after = [99.5, 99.0, 99.5, 100.0, 99.5], [99.0, 99.5, 100.0, 99.5, 99.5]
    assert judged(before, after, bounds=replace(HALF, ceiling=None)).word == "equivalent"
    verdict = judged(before, after)
    assert verdict.word == "at ceiling"
    assert verdict.detail == "every arm is at 100 points, the best score there is"
    assert judged(before, [90.0, 91.0, 92.0, 91.5, 90.5]).word == "worse"


def test_without_a_margin_only_every_seed_at_the_best_score_is_at_the_ceiling():
    def word(arm: list[float]) -> str:
        criterion = Criterion(bounds=HALF)
        own = judge_arm(
            {1: 100.0, 2: 100.0, 3: 100.0}, dict(enumerate(arm, 1)), ACCURACY, criterion
        )
        return own.verdict.word

    assert word([100.0, 100.0, 100.0]) == "at ceiling"
    assert word([100.0, 99.5, 100.0]) == "inconclusive"


def test_scores_in_steps_may_be_the_same_in_every_seed():
    """What one item is worth is the spread of gains that are all equal."""
    verdict = judged([60.0, 60.0, 60.0], [80.0, 80.0, 80.0])
    assert verdict.word == "better"
    assert judged([60.0, 60.0, 60.0], [60.0, 60.0, 60.0]) == SAME_SCORES
    # one item above the floor in every seed is not above it by more than one item's spread
    assert judged([50.5, 50.5, 50.5], [50.0, 50.0, 50.0]).word == "at floor"
    with pytest.raises(SpecError, match="the seed does not reach the runs"):
        judged([60.0, 60.0, 60.0], [80.0, 80.0, 80.0], bounds=None)


def test_where_lower_is_better_the_floor_is_a_score_from_above():
    bounds = ScoreBounds(floor=Floor("uniform", 2.0))
    criterion = Criterion(margin=0.1, bounds=bounds)

    def word(before: list[float], after: list[float]) -> str:
        gains = [a - b for a, b in zip(before, after, strict=True)]
        return compare_scores([before, after], gains, LIKELIHOOD, criterion).verdict.word

    assert word([2.0, 2.01, 1.99], [2.01, 1.995, 2.0]) == "at floor"
    assert word([1.0, 1.01, 0.99], [2.01, 1.99, 2.0]) == "worse"


def test_the_bounds_of_a_study_have_the_highest_floor_of_its_rows():
    rows = [
        {"floor": 25.0, "floor_name": "uniform", "item_worth": 0.5},
        {"floor": 31.0, "floor_name": "length", "item_worth": 0.5},
        {"floor": None, "floor_name": None, "item_worth": None},
        {},
    ]
    assert row_bounds(rows, ACCURACY) == ScoreBounds(Floor("length", 31.0), 100.0, 0.5)
    assert row_bounds(rows[2:], ACCURACY) == ScoreBounds(None, 100.0, 0.0)
    assert row_bounds([{"unigram": 2.0}], LIKELIHOOD) is None


def simulated_words(means: tuple[float, float], n: int, seed: int, margin: float) -> Counter[str]:
    """Words of studies whose arms answer 200 items right so often, and vary over seeds too."""
    rng, words = np.random.default_rng(seed), Counter[str]()
    for _ in range(N_STUDIES):
        shares = np.clip(np.array(means)[:, None] + rng.normal(0, 1.0, (2, n)), 0, 100) / 100
        before, after = 100 * rng.binomial(200, shares) / 200
        words[judged(before.tolist(), after.tolist(), margin=margin).word] += 1
    return words


@pytest.mark.parametrize("n", [3, 5, 10])
def test_two_arms_at_the_floor_hardly_ever_get_another_word(n: int):
    """An arm is above the floor by chance in at most 2.5 % of studies, one of two in 5 %; few of
    these are `equivalent` (a wide margin makes it easy). Bounds are four standard errors away.
    """
    words = simulated_words((50.0, 50.0), n, seed=n, margin=20.0)
    assert words["at floor"] >= 0.922 * N_STUDIES
    assert words["equivalent"] <= 0.078 * N_STUDIES
    assert words["better"] + words["worse"] <= 0.02 * N_STUDIES


@pytest.mark.parametrize("n", [3, 5, 10])
def test_an_arm_far_above_the_floor_has_the_words_it_would_have_without_one(n: int):
    words = simulated_words((50.0, 75.0), n, seed=n, margin=3.0)
    assert words["at floor"] == words["at ceiling"] == words["equivalent"] == 0
    assert words["better"] >= 0.9 * N_STUDIES
    equal = simulated_words((75.0, 75.0), n, seed=n, margin=20.0)
    assert equal["at floor"] == 0
    assert equal["equivalent"] >= 0.9 * N_STUDIES


def test_two_arms_at_the_ceiling_are_hardly_ever_called_equivalent():
    words = simulated_words((100.0, 100.0), 5, seed=5, margin=5.0)
    assert words["at ceiling"] >= 0.99 * N_STUDIES
    assert words["at ceiling"] + words["equivalent"] == N_STUDIES
