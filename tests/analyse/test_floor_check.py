"""Whether a sweep is above the floor of a task, by its items."""

import numpy as np
import pytest
from task_answers import task_evaluation

from paribus.analyse.floor_check import best_point, is_above_floor, sweep_floor
from paribus.analyse.score_bounds import Floor
from paribus.record import TaskEvaluation

RATES = (0.1, 0.2, 0.4, 0.8, 1.6)


def guesses(rng: np.random.Generator, share: float, n_items: int = 200) -> TaskEvaluation:
    return task_evaluation(*(rng.random(n_items) < share).astype(float).tolist())


def test_a_sweep_that_guesses_is_above_the_floor_in_five_percent_at_most():
    rng, n_above = np.random.default_rng(1), 0
    for _ in range(200):
        sweep = {rate: [guesses(rng, 0.5), guesses(rng, 0.5)] for rate in RATES}
        n_above += is_above_floor(sweep)
    assert n_above <= 22  # 5 % and four standard errors


def test_one_rate_that_does_the_task_is_enough():
    rng = np.random.default_rng(2)
    sweep = {rate: [guesses(rng, 0.5), guesses(rng, 0.5)] for rate in RATES}
    sweep[0.4] = [guesses(rng, 0.75), guesses(rng, 0.75)]
    assert is_above_floor(sweep)
    assert sweep_floor(sweep) == Floor("majority", 52.0)


def test_a_rate_whose_runs_failed_is_not_above():
    assert not is_above_floor({0.1: []})
    assert sweep_floor({0.1: []}) is None


def test_items_of_one_document_are_one_piece_of_evidence():
    alone = task_evaluation(*[1.0] * 60, *[0.0] * 30)
    assert is_above_floor({0.1: [alone, alone]})
    documents = ["a"] * 60 + ["b"] * 30
    assert not is_above_floor(
        {0.1: [task_evaluation(*[1.0] * 60, *[0.0] * 30, documents=documents)]}
    )


@pytest.mark.parametrize(("lower_is_better", "best"), [(False, (0.2, 60.0)), (True, (0.1, 40.0))])
def test_the_best_rate_has_the_best_mean(lower_is_better: bool, best: tuple[float, float]):
    points = [(0.1, 30.0), (0.1, 50.0), (0.2, 60.0), (0.2, 60.0), (0.4, None)]
    assert best_point(points, lower_is_better) == best
    assert best_point([(0.1, None)], lower_is_better) is None
