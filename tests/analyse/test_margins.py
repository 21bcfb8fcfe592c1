"""Margins by seed: two paired t tests, on gain − margin and on gain + margin."""

import re

import numpy as np
import pytest
from margin_simulation import (
    CORRELATIONS,
    POWERS,
    VARIATIONS,
    draw_gains_and_margins,
    share_equivalent,
    share_equivalent_at_mean,
)
from measures import HIGHER
from scipy.stats import ttest_1samp

from paribus.analyse import compare, judge_family
from paribus.analyse.criterion import Criterion
from paribus.analyse.verdict import decide_verdict
from paribus.errors import SpecError

GAINS = [0.8, 1.1, 0.9, 1.4, 1.2]


@pytest.mark.parametrize("margin", [0.5, 0.7, 1.0, 1.3, 1.5, 4.0])
def test_equal_margins_decide_as_one_number_does(margin: float) -> None:
    one, each = (
        compare(GAINS, Criterion(margin=margin)),
        compare(GAINS, Criterion(margin=[margin] * 5)),
    )
    assert (one.verdict.word, each.verdict.word) == ("better", "better")
    assert one.verdict.detail == each.verdict.detail
    near = [gain - 1.0 for gain in GAINS]
    assert (
        compare(near, Criterion(margin=margin)).verdict.word
        == compare(near, Criterion(margin=[margin] * 5)).verdict.word
    )


def test_equivalence_is_two_paired_tests_on_gain_less_and_plus_margin() -> None:
    rng = np.random.default_rng(3)
    for n in (3, 5, 10):
        for _ in range(200):
            gains, margins = rng.normal(0.2, 0.5, n), rng.normal(0.9, 0.5, n)
            if margins.mean() <= 0:
                continue
            made = compare(gains.tolist(), Criterion(margin=margins.tolist(), n_comparisons=2))
            above = ttest_1samp(gains + margins, 0, alternative="greater").pvalue
            below = ttest_1samp(gains - margins, 0, alternative="less").pvalue
            within = max(above, below) < 0.025
            said = (
                made.verdict.word == "equivalent"
                or made.verdict.detail == "by less than the margin"
            )
            assert said == within
            more = ttest_1samp(gains - margins, 0).pvalue < 0.025 and np.mean(gains - margins) > 0
            assert (
                made.verdict.word == "better" and made.verdict.detail == "by more than the margin"
            ) == (more and made.low > 0 and not within)


def test_a_margin_that_follows_the_gain_decides_what_its_mean_would_not() -> None:
    gains = [0.1, 0.5, 0.9, 1.3, 1.7]
    margins = [gain + 0.2 + 0.01 * place for place, gain in enumerate(gains)]
    assert (
        compare(gains, Criterion(margin=float(np.mean(margins)))).verdict.detail
        != "by less than the margin"
    )
    made = compare(gains, Criterion(margin=margins))
    assert (made.verdict.word, made.verdict.detail) == ("better", "by less than the margin")
    assert made.margin_intervals is not None
    assert made.margin_intervals.inner_minus[1] < 0 < made.margin_intervals.inner_plus[0]


def test_negative_margins_of_single_seeds_are_used_as_they_are() -> None:
    made = compare([0.01, -0.02, 0.0, 0.01, -0.01], Criterion(margin=[0.5, 0.4, -0.02, 0.6, 0.5]))
    assert made.margins == (0.5, 0.4, -0.02, 0.6, 0.5)
    assert made.margin == pytest.approx(0.396)
    assert made.verdict.word == "equivalent"


def test_the_words_of_equivalent_give_the_interval_that_decides_with_its_level() -> None:
    gains = [0.8, 1.1, 0.9, 1.4, -4.0]
    made = compare(gains, Criterion(margin=2.3))
    assert made.verdict.word == "equivalent"
    assert made.low < -2.3 < made.inner_low
    decided = (
        r"90 % interval -2\.1\d* to 2\.2\d*, inside the margin of ±2\.3; 95 % interval -2\.\d+ to"
    )
    assert re.search(decided, made.description)
    each = compare(gains, Criterion(margin=[2.7, 2.6, 2.5, 2.6, 2.6]))
    assert each.verdict.word == "equivalent"
    assert (
        "90 % intervals, each seed with its own margin: gain − margin is at most -0.3"
        in each.description
    )
    assert "; gain + margin is at least 0.4" in each.description
    assert "margin 2.6 on average" in each.description


def test_as_many_digits_are_printed_as_keep_the_interval_inside_the_margin() -> None:
    gains = [0.1, 0.2, -0.3, 0.05, 0.0]
    inner = compare(gains)
    made = compare(gains, Criterion(margin=max(-inner.inner_low, inner.inner_high) + 1e-9))
    assert made.verdict.word == "equivalent"
    low, high, margin = re.search(
        r"90 % interval (\S+) to (\S+), inside the margin of ±(\S+);", made.description
    ).groups()
    assert -float(margin) < float(low) < float(high) < float(margin)


def test_an_open_number_of_seeds_uses_its_own_bound_beside_the_margin() -> None:
    gains = [0.1, -0.1, 0.05, 0.0, -0.05, 0.02, 0.08, -0.02]
    fixed = compare(gains, Criterion(margin=[0.15, 0.16, 0.14, 0.15, 0.15, 0.16, 0.14, 0.15]))
    opened = compare(
        gains, Criterion(margin=[0.15, 0.16, 0.14, 0.15, 0.15, 0.16, 0.14, 0.15], open_ended=True)
    )
    assert fixed.margin_intervals is not None
    assert opened.margin_intervals is not None
    assert opened.margin_intervals.inner_plus[0] < fixed.margin_intervals.inner_plus[0]
    assert (opened.inner_level, fixed.inner_level) == (opened.level, pytest.approx(0.9))


def test_too_few_seeds_of_an_open_number_have_no_interval_in_words() -> None:
    made = compare([0.1, 0.2, 0.3], Criterion(open_ended=True))
    assert "no interval at 95 % yet" in made.description
    assert "inf" not in made.description


@pytest.mark.parametrize(
    ("margin", "words"),
    [
        ([0.1, 0.2], "margin has 2 numbers for 5 gains; give one for each seed"),
        ([], "margin has 0 numbers for 5 gains; give one for each seed"),
        (
            [0.1, 0.2, float("nan"), 0.1, 0.1],
            "margin has nan for a seed; give a number for each seed, or no margin",
        ),
        ([0.1, -0.2, 0.0, 0.0, 0.0], "margin is -0.02 on average over seeds; use one above 0"),
    ],
)
def test_margins_that_do_not_fit_are_refused(margin: list[float], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        compare(GAINS, Criterion(margin=margin))


def test_pairs_take_the_margins_of_the_arm_they_are_judged_against_in_the_seeds_that_trained() -> (
    None
):
    arms = {
        "a": {1: 0.0, 2: 0.1, 3: -0.1, 4: 0.05},
        "b": {1: 0.1, 2: 0.1, 3: 0.0, 4: None},
        "c": {1: 0.1, 2: 0.2, 3: 0.1, 4: 0.2},
    }
    margins = {"a": {1: 3.0, 2: 3.1, 3: 2.9, 4: 3.0}, "b": {1: 1.0, 2: 1.1, 3: 0.9}}
    found = judge_family(
        arms,
        "a",
        measure=HIGHER,
        comparisons=[("b", "a"), ("c", "b")],
        criterion=Criterion(margin_by_reference_arm=margins),
    )
    assert found["b", "a"].comparison is not None
    assert found["c", "b"].comparison is not None
    assert found["b", "a"].comparison.margins == (3.0, 3.1, 2.9)
    assert found["c", "b"].comparison.margins == (1.0, 1.1, 0.9)
    with pytest.raises(SpecError, match="margin has none for seeds 2; give one for each seed"):
        judge_family(
            {"a": arms["a"], "c": arms["c"]},
            "a",
            measure=HIGHER,
            criterion=Criterion(margin_by_reference_arm={"a": {1: 1.0, 3: 1.0, 4: 1.0}}),
        )


def test_not_worse_is_one_sided_against_a_loss_of_the_margin() -> None:
    assert str(decide_verdict((-0.4, 0.9), (-0.3, 0.8), 0.35, test="not worse")) == "not worse"
    assert str(decide_verdict((-0.4, 0.9), (-0.3, 0.8), 0.35)) == "inconclusive"
    assert (
        str(decide_verdict((0.1, 0.9), (0.2, 0.8), 0.35, test="not worse"))
        == "not worse, and better"
    )
    assert str(decide_verdict((-0.3, -0.1), (-0.28, -0.12), 0.35, test="not worse")) == (
        "not worse, though worse by less than the margin"
    )
    assert str(decide_verdict((-0.5, -0.1), (-0.4, -0.12), 0.35, test="not worse")) == "worse"
    assert str(decide_verdict((-0.5, 0.1), (-0.4, 0.05), 0.35, test="not worse")) == "inconclusive"
    assert (
        str(decide_verdict((-0.9, -0.4), (-0.8, -0.5), 0.35, test="not worse"))
        == "worse, by more than the margin"
    )


def test_not_worse_prints_its_one_sided_bound() -> None:
    made = compare([0.3, -0.2, 1.4, 0.2, 0.9], Criterion(margin=0.5, test="not worse"))
    assert str(made.verdict) == "not worse"
    assert "one-sided 95 % bound: at least -0.08" in made.description
    assert "above the margin of −0.5" in made.description
    each = compare(
        [0.3, -0.2, 1.4, 0.2, 0.9], Criterion(margin=[0.5, 0.4, 0.6, 0.5, 0.5], test="not worse")
    )
    assert (
        "one-sided 95 % bound, each seed with its own margin: gain + margin is at least 0.3"
        in each.description
    )


@pytest.mark.parametrize("n", [3, 5, 10])
def test_a_loss_of_the_margin_is_seldom_called_not_worse(n: int) -> None:
    rng = np.random.default_rng(41)
    gains = rng.normal(-1.0, 1.0, (2000, n))
    said = [
        compare(one, Criterion(margin=1.0, test="not worse")).verdict.word == "not worse"
        for one in gains.tolist()
    ]
    assert 3 <= 100 * np.mean(said) <= 7


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize("cv", VARIATIONS)
@pytest.mark.parametrize("rho", CORRELATIONS)
def test_a_gain_of_the_margin_in_compute_is_seldom_called_smaller(
    n: int, cv: float, rho: float
) -> None:
    for power in (None, *POWERS):
        assert share_equivalent(*draw_gains_and_margins(n, cv, rho, power)) <= 6.4


def test_to_take_the_mean_margin_as_known_would_call_it_smaller_too_often() -> None:
    assert share_equivalent_at_mean(*draw_gains_and_margins(5, 0.5, -0.7, None)) > 10


def test_simulated_studies_are_decided_as_compare_decides() -> None:
    gains, margins = draw_gains_and_margins(5, 0.5, 0.7, 0.35, truth=0.4)
    for one, own in zip(gains[:200].tolist(), margins[:200].tolist(), strict=True):
        verdict = compare(one, Criterion(margin=own)).verdict
        within = share_equivalent(np.array([one]), np.array([own])) == 100
        assert (
            verdict.word == "equivalent" or verdict.detail == "by less than the margin"
        ) == within


def test_arms_that_do_not_differ_are_found_within_the_margin_in_compute() -> None:
    assert share_equivalent(*draw_gains_and_margins(10, 0.2, 0.0, None, truth=0.0)) > 99


def test_seeds_left_after_failures_whose_margins_are_not_above_zero_have_no_margin() -> None:
    arms = {"a": {1: 0.0, 2: 0.1, 3: -0.1, 4: 0.05}, "b": {1: 0.1, 2: 0.1, 3: 0.0, 4: None}}
    margins = {"a": {1: 0.1, 2: -0.2, 3: 0.0, 4: 3.0}}
    own = judge_family(
        arms, "a", measure=HIGHER, criterion=Criterion(margin_by_reference_arm=margins)
    )["b", "a"].comparison
    assert own is not None
    assert (own.margin, own.margins) == (None, ())
