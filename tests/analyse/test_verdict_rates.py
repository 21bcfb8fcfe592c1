"""T4 to T8: how often each word is said, in 4,000 simulated experiments."""

import numpy as np
import pytest
from measures import HIGHER
from noise_draws import N_DRAWS, normal_gains

from paribus.analyse import alpha_at_look, always_valid_t, compare, judge_family, p_value
from paribus.analyse.criterion import Criterion
from paribus.analyse.interval import moments
from paribus.analyse.looks import SUGGESTED_LOOKS
from paribus.analyse.verdict import LESS_THAN_MARGIN, Verdict

DECIDED = ("better", "worse")


def _share(said: list[bool]) -> float:
    return 100 * float(np.mean(said))


def _within(verdict: Verdict) -> bool:
    return verdict.word == "equivalent" or verdict.detail == LESS_THAN_MARGIN


def _false_alarms(effects: tuple[float, ...], n: int = 5) -> float:
    """How often any arm without an effect is called better or worse, among arms against one
    baseline.
    """
    rng = np.random.default_rng(17)
    block, noise = 10 * rng.normal(size=(N_DRAWS, 1, n)), rng.normal(size=(N_DRAWS, 4, n))
    scores = block + np.array([0.0, *effects])[:, None] + noise
    nulls = [name for name, effect in zip("bcd", effects, strict=True) if effect == 0]
    false = []
    for table in scores.tolist():
        arms = {name: dict(enumerate(row)) for name, row in zip("abcd", table, strict=True)}
        found = judge_family(arms, "a", measure=HIGHER)
        false.append(any(found[name, "a"].verdict.word in DECIDED for name in nulls))
    return _share(false)


def test_a_family_of_three_without_effects_raises_few_false_alarms_but_some() -> None:
    assert 2 <= _false_alarms((0, 0, 0)) <= 6.4


def test_one_true_effect_does_not_raise_false_alarms_about_the_others() -> None:
    assert _false_alarms((5 * np.sqrt(2), 0, 0)) <= 6.4


@pytest.mark.parametrize("n", [3, 5, 10])
def test_an_effect_as_large_as_the_margin_is_seldom_called_smaller(n: int) -> None:
    assert (
        _share(
            [
                _within(compare(one, Criterion(margin=2)).verdict)
                for one in normal_gains(23, n, effect=2)
            ]
        )
        <= 6.4
    )


@pytest.mark.parametrize(("n", "least", "most"), [(3, 53, 59), (5, 93, 97), (10, 99, 100)])
def test_arms_that_do_not_differ_are_found_within_a_wide_margin(
    n: int, least: float, most: float
) -> None:
    assert (
        least
        < _share(
            [_within(compare(one, Criterion(margin=2)).verdict) for one in normal_gains(29, n)]
        )
        <= most
    )


@pytest.mark.parametrize(
    ("effect", "n", "least", "most"), [(3, 3, 71.5, 77.5), (3, 5, 99, 100), (1, 10, 77.5, 83)]
)
def test_effects_are_seen_as_often_as_the_power_says(
    effect: float, n: int, least: float, most: float
) -> None:
    assert (
        least
        < _share([compare(one).verdict.word == "better" for one in normal_gains(31, n, effect)])
        <= most
    )


def _at_looks(effect: float, margin: float | None) -> list[list[Verdict]]:
    """The verdict at each look, for each of 4,000 experiments that go on to the last."""
    return [
        [
            compare(
                one[:n], Criterion(margin=margin, family_alpha=alpha_at_look(SUGGESTED_LOOKS, n))
            ).verdict
            for n in SUGGESTED_LOOKS
        ]
        for one in normal_gains(37, max(SUGGESTED_LOOKS), effect)
    ]


def test_two_looks_together_raise_few_false_alarms() -> None:
    assert (
        _share([any(verdict.word in DECIDED for verdict in row) for row in _at_looks(0, None)])
        <= 6.1
    )


def test_two_looks_together_seldom_call_the_margin_smaller_than_itself() -> None:
    assert _share([any(map(_within, row)) for row in _at_looks(1.5, 1.5)]) <= 6.1


def test_looking_after_every_seed_without_a_plan_is_what_looks_protect_from() -> None:
    each = np.array(normal_gains(37, 10))
    alarms = [np.asarray(p_value(each[:, :n])) < 0.05 for n in range(3, 11)]
    assert 14 <= _share(np.any(alarms, axis=0).tolist()) <= 19


def test_an_open_number_of_seeds_raises_few_false_alarms_though_every_seed_is_looked_at() -> None:
    each, alarms = np.array(normal_gains(41, 60)), []
    for n in range(3, 61):
        found = moments(each[:, :n])
        alarms.append(np.abs(found.mean / found.standard_error) > always_valid_t(n))
    assert 0.5 <= _share(np.any(alarms, axis=0).tolist()) <= 6.4
