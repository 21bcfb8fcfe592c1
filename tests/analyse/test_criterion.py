"""What gains are judged by: every field is obeyed, or refused by name."""

import pytest
from measures import LOWER

from paribus.analyse import Criterion, compare, judge_arm
from paribus.analyse.pooled_noise import pool_noise
from paribus.errors import SpecError

GAINS = [0.9, 1.1, 1.3, 0.8, 1.3]
ARMS = {"a": {1: 1.0, 2: 1.2, 3: 1.1}, "b": {1: 1.1, 2: 1.3, 3: 1.0}, "c": {1: 0.9, 2: 1.2, 3: 1.3}}


def test_without_a_criterion_a_difference_is_asked_for_at_five_percent() -> None:
    assert compare(GAINS) == compare(GAINS, Criterion())
    assert (compare(GAINS).level, compare(GAINS).n_comparisons) == (0.95, 1)


def test_a_margin_by_seed_is_that_of_each_gain() -> None:
    by_seed = Criterion(margin={3: 0.5, 1: 0.1, 2: 0.3, 5: 0.2, 4: 0.4}, seeds=(1, 2, 3, 4, 5))
    assert compare(GAINS, by_seed) == compare(GAINS, Criterion(margin=[0.1, 0.3, 0.5, 0.4, 0.2]))


def test_a_look_gives_the_share_of_the_declared_seeds_failures_included() -> None:
    looks = {5: 0.01, 10: 0.04}
    assert compare(GAINS, Criterion(looks=looks)).level == 1 - 0.01
    baseline = dict(enumerate([3.0] * 5, 1))
    arm = {**dict(enumerate((3 - gain for gain in GAINS), 1)), 2: None}
    made = judge_arm(baseline, arm, LOWER, Criterion(looks=looks)).comparison
    assert made is not None
    assert (made.n, made.level) == (4, 1 - 0.01)


def test_the_next_look_is_the_first_with_more_seeds() -> None:
    looks = {5: 0.01, 10: 0.02, 20: 0.02}
    assert Criterion(looks=looks, seeds=tuple(range(5))).next_look == 10
    assert Criterion(looks=looks, seeds=tuple(range(20))).next_look is None
    assert Criterion(seeds=tuple(range(5))).next_look is None


@pytest.mark.parametrize(
    ("criterion", "why"),
    [
        (
            Criterion(margin_by_reference_arm={"a": 0.1}),
            "margin is given against a; give the margin of one",
        ),
        (Criterion(seeds=(1, 2, 3)), "seeds: 3 are named for 5 gains; name the seed of each"),
        (Criterion(margin={1: 0.1}), "margin is by seed, and the seeds of the gains are not named"),
    ],
)
def test_what_does_not_fit_the_gains_is_refused(criterion: Criterion, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        compare(GAINS, criterion)


def test_one_noise_takes_one_margin_and_a_declared_number_of_seeds() -> None:
    with pytest.raises(SpecError, match="equal_noise: the margin is given by seed; use one number"):
        pool_noise(ARMS, "a", LOWER, Criterion(margin={1: 0.1, 2: 0.1, 3: 0.1}))
    with pytest.raises(SpecError, match="equal_noise: the number of seeds is open; declare how"):
        pool_noise(ARMS, "a", LOWER, Criterion(open_ended=True))
