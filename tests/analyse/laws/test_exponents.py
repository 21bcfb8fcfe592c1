"""Words for exponents: larger, the same, undecided."""

from dataclasses import replace

import numpy as np
import pytest
from planted_laws import one_arm, planted_laws, steeper

from paribus.analyse.laws.exponents import (
    ExponentDifference,
    ExponentVerdict,
    compare_exponents,
)
from paribus.errors import SpecError

LAW = np.array(
    [1.7, np.log(1.2) + 0.34 * np.log(2e6), np.log(1.1) + 0.37 * np.log(2e7), 0.34, 0.37]
)


def two_arms(alpha=0.0, beta=0.0, noise=0.0032):
    other = steeper(LAW[None], alpha, beta)[0]
    return {
        "causal": one_arm(1, LAW, "causal", noise),
        "prefix": one_arm(2, other, "prefix", noise),
    }


def by_exponent(verdicts):
    return {one.exponent: one for one in verdicts}


def test_a_larger_alpha_is_named_with_its_arm():
    found = by_exponent(compare_exponents(two_arms(alpha=0.1)))
    assert (found["alpha"].word, found["alpha"].larger) == ("α larger", "prefix")
    assert found["alpha"].n_tests == 2
    assert found["alpha"].adjusted_p == pytest.approx(2 * found["alpha"].one_floor.p)
    assert found["beta"].word != "β larger"


def test_the_order_of_a_pair_does_not_change_the_word():
    arms = two_arms(beta=0.1)
    for pair in (("causal", "prefix"), ("prefix", "causal")):
        verdict = by_exponent(compare_exponents(arms, [pair]))["beta"]
        assert (verdict.word, verdict.larger) == ("β larger", "prefix")


def test_equal_exponents_with_little_noise_are_the_same():
    found = by_exponent(compare_exponents(two_arms(noise=0.001)))
    assert {one.word for one in found.values()} == {"same exponent"}
    assert found["alpha"].larger is None


def test_much_noise_leaves_exponents_undecided():
    found = compare_exponents(two_arms(alpha=0.02, noise=0.02))
    assert {one.word for one in found} == {"undecided"}


def test_the_interval_and_the_word_agree():
    for alpha in (0.0, 0.03, 0.06):
        for one in compare_exponents(two_arms(alpha=alpha)):
            excludes_zero = one.one_floor.low > 0 or one.one_floor.high < 0
            assert excludes_zero == (one.adjusted_p < 0.05)
            assert one.one_floor.low <= one.one_floor.inner_low <= one.one_floor.estimate


DECIDED = ExponentDifference(
    estimate=0.06, low=0.03, high=0.09, inner_low=0.035, inner_high=0.085, p=1e-4
)
OPEN = ExponentDifference(
    estimate=0.04, low=-0.1, high=0.2, inner_low=-0.08, inner_high=0.18, p=0.4
)


def verdict(one_floor, own_floors):
    return ExponentVerdict(
        arm="prefix",
        against="causal",
        exponent="alpha",
        margin=0.05,
        n_tests=2,
        one_floor=one_floor,
        own_floors=own_floors,
    )


SMALL = replace(OPEN, inner_low=-0.01, inner_high=0.02, estimate=0.005)


def test_a_word_holds_only_if_it_is_also_said_with_a_floor_each():
    both = verdict(DECIDED, replace(DECIDED, p=0.02))
    assert (both.word, both.larger, both.rests_on_one_floor) == ("α larger", "prefix", False)
    # at the same level: 2 tests share the 5 %
    assert verdict(DECIDED, replace(DECIDED, p=0.03)).word == "undecided"
    assert verdict(SMALL, SMALL).word == "same exponent"


@pytest.mark.parametrize(
    ("one_floor", "own_floors"),
    [
        (DECIDED, OPEN),
        (DECIDED, replace(DECIDED, estimate=-0.06)),
        (DECIDED, SMALL),
        (SMALL, DECIDED),
        (SMALL, OPEN),
    ],
)
def test_a_word_that_rests_on_one_floor_becomes_undecided(one_floor, own_floors):
    found = verdict(one_floor, own_floors)
    assert found.rests_on_one_floor
    assert found.one_floor_word != "undecided"
    assert (found.word, found.larger) == ("undecided", None)


def test_what_is_undecided_with_one_floor_stays_so():
    found = verdict(OPEN, DECIDED)
    assert not found.rests_on_one_floor
    assert (found.word, found.larger) == ("undecided", None)


def test_a_higher_floor_of_one_arm_is_not_taken_for_a_smaller_exponent():
    words = []
    for number in range(8):
        higher = LAW.copy()
        higher[0] += 0.2
        arms = {
            "causal": one_arm(10 + number, LAW, "causal"),
            "prefix": one_arm(30 + number, higher, "prefix"),
        }
        words.append(by_exponent(compare_exponents(arms))["alpha"])
    assert sum(one.one_floor_word == "α larger" for one in words) >= 4
    assert {one.word for one in words} == {"undecided"}


@pytest.mark.parametrize(
    ("pairs", "margin", "words"),
    [
        ([("causal", "full")], 0.05, "pairs: 'full' is not an arm; arms are causal, prefix"),
        ([("causal", "causal")], 0.05, "pairs: 'causal' is compared with itself; name two arms"),
        ([], 0.05, "arms: 2 given; exponents are compared between 2 or more"),
        (None, 0.0, "margin is 0; use a number above 0, such as 0.05"),
    ],
)
def test_pairs_that_cannot_be_compared_are_refused(pairs, margin, words):
    with pytest.raises(SpecError, match=words):
        compare_exponents(two_arms(), pairs, margin)


def test_one_arm_alone_has_nothing_to_be_compared_with():
    arms = {"causal": one_arm(1, planted_laws(np.random.default_rng(1), 1)[0])}
    with pytest.raises(SpecError, match="arms: 1 given"):
        compare_exponents(arms)


@pytest.mark.slow
def test_the_same_exponent_is_seldom_said_of_exponents_a_margin_apart():
    rng, said = np.random.default_rng(5), 0
    n_laws = 150
    for number, law in enumerate(planted_laws(rng, n_laws)):
        other = steeper(law[None], alpha=0.05)[0]
        arms = {
            "causal": one_arm(2 * number, law, "causal"),
            "prefix": one_arm(2 * number + 1, other, "prefix"),
        }
        said += by_exponent(compare_exponents(arms))["alpha"].word == "same exponent"
    assert said <= 0.08 * n_laws
