"""What tuning could move: where it exceeds the distance of the deciding end, the word says so."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from measures import LOWER

from paribus.analyse import compare, judge_arm
from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.criterion import Criterion
from paribus.analyse.tuning import (
    OVERTURN,
    comparison_with_doubt,
    contrast_with_doubt,
    distance_to_other_verdict,
    judgement_with_doubt,
    pair_tuning_uncertainty,
    tuning_could_overturn,
    tuning_uncertainty,
)

GAINS = (0.8, 1.1, 0.9, 1.4, 1.2)  # mean 1.08, outer [0.7836, 1.3764], inner [0.8524, 1.3076]


def _rates(**excess: float | None) -> dict[str, Any]:
    return {arm: {"optimum": {"excess": own}} for arm, own in excess.items()}


@pytest.mark.parametrize(
    ("margin", "words", "expected"),
    [
        (None, "better", 0.7836),
        (0.7, "better, by more than the margin", 0.0836),
        (0.9, "better", 0.7836),
        (1.35, "better, by less than the margin", 0.0424),
    ],
)
def test_the_distance_of_a_difference_is_that_of_the_ends_that_decide_it(
    margin, words: str, expected: float
) -> None:
    for sign in (1, -1):
        made = compare([sign * one for one in GAINS], Criterion(margin=margin))
        assert str(made.verdict) == (words if sign > 0 else words.replace("better", "worse"))
        assert distance_to_other_verdict(made) == pytest.approx(expected, abs=1e-4)


def test_the_distance_of_an_equivalence_is_from_the_nearer_margin() -> None:
    made = compare([one - 1 for one in GAINS], Criterion(margin=0.5))
    assert made.verdict.word == "equivalent"
    assert distance_to_other_verdict(made) == pytest.approx(0.5 - 0.3076, abs=1e-4)
    assert distance_to_other_verdict(
        compare([1 - one for one in GAINS], Criterion(margin=0.5))
    ) == pytest.approx(0.5 - 0.3076, abs=1e-4)


def test_where_each_seed_has_its_margin_the_distance_is_that_of_gain_and_margin() -> None:
    made = compare([one - 1 for one in GAINS], Criterion(margin=[0.5, 0.52, 0.48, 0.51, 0.49]))
    assert made.verdict.word == "equivalent"
    assert made.margin_intervals is not None
    assert distance_to_other_verdict(made) == pytest.approx(
        min(made.margin_intervals.inner_plus[0], -made.margin_intervals.inner_minus[1])
    )
    less = compare(GAINS, Criterion(margin=[1.5, 1.52, 1.48, 1.51, 1.49]))
    assert less.verdict.detail == "by less than the margin"
    assert less.margin_intervals is not None
    assert distance_to_other_verdict(less) == pytest.approx(-less.margin_intervals.inner_minus[1])


def test_the_distance_of_not_worse_is_from_the_margin_and_from_what_it_adds() -> None:
    made = compare([one - 1 for one in GAINS], Criterion(margin=0.5, test="not worse"))
    assert made.verdict.word == "not worse"
    assert distance_to_other_verdict(made) == pytest.approx(made.inner_low + 0.5)
    better = compare(GAINS, Criterion(margin=0.5, test="not worse"))
    assert better.verdict.detail == "and better"
    assert distance_to_other_verdict(better) == pytest.approx(0.7836, abs=1e-4)


def test_the_distance_of_an_inconclusive_word_is_that_from_a_difference() -> None:
    made = compare([one - 1 for one in GAINS])
    assert made.verdict.word == "inconclusive"
    assert distance_to_other_verdict(made) == pytest.approx(1 - 0.7836, abs=1e-4)
    assert distance_to_other_verdict(compare([0.0] * 5)) == inf


def test_a_word_carries_the_doubt_only_where_tuning_moves_more() -> None:
    made = compare(GAINS)
    assert comparison_with_doubt(made, 0.78) is made
    assert comparison_with_doubt(made, None) is made
    assert not tuning_could_overturn(made, 0.78)
    doubted = comparison_with_doubt(made, 0.79)
    assert str(doubted.verdict) == "better (tuning could overturn it)"
    assert doubted.description.startswith("better (tuning could overturn it): gain 1.08")
    assert doubted.verdict.word == "better"


def test_a_pair_moves_by_the_larger_excess_and_a_contrast_by_its_weights() -> None:
    rates = _rates(a=0.1, b=0.3, c=0.2, d=None)
    assert (
        pair_tuning_uncertainty("a", "b", rates)
        == pair_tuning_uncertainty("b", "a", rates)
        == pytest.approx(0.3)
    )
    assert tuning_uncertainty({"a": 0.5, "b": 0.5, "c": -1.0}, rates) == pytest.approx(0.2)
    assert tuning_uncertainty({"a": 1.0, "b": -1.0, "d": 0.0}, rates) == pytest.approx(0.3)
    assert pair_tuning_uncertainty("a", "d", rates) == inf
    assert pair_tuning_uncertainty("a", "b", None) is None
    assert pair_tuning_uncertainty("a", "b", {**rates, "b": {"optimum": {}}}) is None


def test_a_judgement_carries_it_with_its_own_word_alone() -> None:
    scores = {seed: 2.0 - gain for seed, gain in enumerate(GAINS)}
    baseline = dict.fromkeys(scores, 2.0)
    own = judge_arm(baseline, scores, measure=LOWER)
    assert judgement_with_doubt(own, 0.8).verdict.doubt == OVERTURN
    assert judgement_with_doubt(own, 0.8).description.startswith(
        "better (tuning could overturn it)"
    )
    assert judgement_with_doubt(own, 0.1) == own
    failed = judge_arm(baseline, {**scores, 4: None}, measure=LOWER)
    assert failed.verdict.word == "unstable"
    assert judgement_with_doubt(failed, 5.0) == failed


def test_a_contrast_without_a_word_carries_none() -> None:
    one = ContrastFinding("c", {"a": 1.0, "b": -1.0}, compare(GAINS), True)
    doubted = contrast_with_doubt(one, _rates(a=0.1, b=0.8))
    assert doubted.comparison is not None
    assert doubted.comparison.verdict.doubt == OVERTURN
    shown = replace(one, is_judged=False)
    assert contrast_with_doubt(shown, _rates(a=0.1, b=0.8)) is shown


def test_under_margins_by_seed_the_ends_of_gain_less_and_plus_margin_count() -> None:
    near, margins = [one - 1.0 for one in GAINS], [0.6, 0.8, 0.7, 0.7, 0.9]
    made = compare(near, Criterion(margin=margins))
    assert made.verdict.word == "equivalent"
    assert made.margin_intervals is not None
    assert distance_to_other_verdict(made) == pytest.approx(
        min(made.margin_intervals.inner_plus[0], -made.margin_intervals.inner_minus[1])
    )
    more = compare(list(GAINS), Criterion(margin=[0.2, 0.3, 0.1, 0.2, 0.2]))
    assert more.verdict.detail == "by more than the margin"
    assert more.margin_intervals is not None
    assert distance_to_other_verdict(more) == pytest.approx(more.margin_intervals.outer_minus[0])


def test_tuning_could_overturn_a_test_of_not_worse() -> None:
    made = compare([0.3, -0.2, 1.4, 0.2, 0.9], Criterion(margin=0.5, test="not worse"))
    assert made.verdict.word == "not worse"
    assert distance_to_other_verdict(made) == pytest.approx(made.inner_low + 0.5)
    assert tuning_could_overturn(made, 0.6)
    assert not tuning_could_overturn(made, 0.3)
