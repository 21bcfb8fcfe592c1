"""Differences to the parent: at the floor where no arm changed, at the ceiling by own scores."""

import pytest

from paribus.analyse.bound_verdict import compare_scores
from paribus.analyse.criterion import Criterion
from paribus.analyse.family import judge_family
from paribus.analyse.own_ceiling import own_scores, with_own_ceiling
from paribus.analyse.score_bounds import Floor, ScoreBounds
from paribus.spec.measure import TASK_MEASURES, minus_parent

REWARD = TASK_MEASURES["reward"]
DIFFERENCE = minus_parent(REWARD)
BOUNDS = ScoreBounds(Floor("parent", 0.0), None, 0.2)
CRITERION = Criterion(margin=2.0, bounds=BOUNDS)
Scores = dict[int, float]


def word(baseline: list[float], arm: list[float]) -> str:
    gains = [own - other for own, other in zip(arm, baseline, strict=True)]
    return compare_scores([baseline, arm], gains, DIFFERENCE, CRITERION).verdict.word


def test_arms_that_do_not_differ_from_their_parents_are_at_the_floor() -> None:
    assert word([0.1, -0.2, 0.1, 0.0, 0.05], [-0.1, 0.2, 0.0, 0.1, -0.1]) == "at floor"


def test_a_stage_that_harms_has_changed_something() -> None:
    harmed = [-9.0, -10.0, -11.0, -10.5, -9.5]
    assert word([-20.0, -21.0, -19.0, -20.5, -20.0], harmed) == "better"
    assert word(harmed, [-9.2, -10.1, -11.1, -10.2, -9.6]) == "equivalent"


@pytest.mark.parametrize(("parents", "expected"), [((95.0, 90.0), "at ceiling"), ((50, 45), None)])
def test_arms_that_end_at_the_ceiling_are_not_told_apart(
    parents: tuple[float, float], expected: str | None
) -> None:
    scores: dict[str, Scores] = {
        "one": {seed: 5.0 - 0.01 * seed for seed in range(1, 6)},
        "two": {seed: 10.0 - 0.02 * seed for seed in range(1, 6)},
    }
    rows = []
    for (arm, own), parent in zip(scores.items(), parents, strict=True):
        for seed, score in own.items():
            rows.append({"arm": arm, "seed": seed, "task": score, "parent_score": parent})
    judgements = judge_family(scores, "one", DIFFERENCE, CRITERION)
    assert judgements["two", "one"].verdict.word == "better"
    found = with_own_ceiling(judgements, own_scores(rows, "task"), REWARD)
    assert found["two", "one"].verdict.word == (expected or "better")
