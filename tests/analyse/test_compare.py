"""T11 to T13: one comparison by hand, its words, and what it refuses."""

import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from measures import LOWER
from scipy import stats

from paribus.analyse import (
    Comparison,
    Verdict,
    compare,
    decide_verdict,
    judge_family,
    leave_one_out,
    seeds_needed,
    sign_flip,
)
from paribus.analyse.criterion import Criterion
from paribus.errors import SpecError
from paribus.spec.measure import with_unit

GAINS = (0.8, 1.1, 0.9, 1.4, 1.2)


def test_five_gains_by_hand() -> None:
    found = compare(GAINS)
    assert (found.n, found.effect, found.level) == (5, pytest.approx(1.08), 0.95)
    assert (found.low, found.high) == (
        pytest.approx(0.7836, abs=5e-5),
        pytest.approx(1.3764, abs=5e-5),
    )
    assert (found.inner_low, found.inner_high) == (
        pytest.approx(0.8524, abs=5e-5),
        pytest.approx(1.3076, abs=5e-5),
    )
    assert found.p == pytest.approx(5.376e-4, abs=5e-8)
    assert found.sign_flip is None
    assert found.leave_one_out == pytest.approx((1.0, 1.15))
    assert compare([*GAINS, 1.0]).sign_flip == 0.03125


@pytest.mark.parametrize(
    ("outer", "inner", "margin", "words"),
    [
        ((0.1, 0.5), (0.2, 0.4), None, "better"),
        ((0.1, 0.5), (0.2, 0.4), 0.3, "better"),
        ((0.1, 0.5), (0.2, 0.4), 0.45, "better, by less than the margin"),
        ((0.1, 0.5), (0.2, 0.4), 0.05, "better, by more than the margin"),
        ((-0.5, -0.1), (-0.4, -0.2), None, "worse"),
        ((-0.5, -0.1), (-0.4, -0.2), 0.45, "worse, by less than the margin"),
        ((-0.5, -0.1), (-0.4, -0.2), 0.05, "worse, by more than the margin"),
        ((-0.1, 0.3), (0.0, 0.2), 0.25, "equivalent, within 0.25"),
        ((-0.1, 0.3), (0.0, 0.2), 0.2, "inconclusive"),
        ((-0.3, 0.1), (-0.2, 0.0), 0.2, "inconclusive"),
        ((-0.1, 0.3), (0.0, 0.2), None, "inconclusive"),
        ((0.0, 0.3), (0.1, 0.2), None, "inconclusive"),
    ],
)
def test_the_first_condition_that_holds_gives_the_word(
    outer, inner, margin: float | None, words: str
) -> None:
    assert str(decide_verdict(outer, inner, margin)) == words


def test_the_level_is_shared_by_the_family_and_by_looks() -> None:
    found = compare(GAINS, Criterion(n_comparisons=4, family_alpha=0.01))
    assert found.level == 1 - 0.01 / 4
    assert found.p_adjusted == pytest.approx(4 * 5 * found.p)
    low, high = stats.ttest_1samp(GAINS, 0).confidence_interval(1 - 0.0025)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert compare([0.1, -0.2, 0.3], Criterion(n_comparisons=3)).p_adjusted == 1


@pytest.mark.parametrize("seed", range(20))
def test_interval_adjusted_p_and_word_never_contradict_each_other(seed: int) -> None:
    gains = np.random.default_rng(seed).normal(1.2, 1, size=5).tolist()
    found = compare(gains, Criterion(n_comparisons=3, family_alpha=0.04))
    decided = found.verdict.word in ("better", "worse")
    assert decided == (found.p_adjusted < 0.05) == (found.low > 0 or found.high < 0)


def test_the_sentence_says_on_what_the_verdict_rests() -> None:
    assert (
        compare(GAINS, Criterion(margin=0.5, n_comparisons=3), unit="nats").description
        == "better, by more than the margin: gain 1.08 nats, 98.33 % interval 0.6571 to 1.503, 5"
        " seeds, 1 of 3 comparisons, margin 0.5 nats; on these items, at these rates."
    )
    assert "1 comparison, no margin" in compare(GAINS).description


def test_equal_runs_are_identical() -> None:
    found = compare([0.0] * 5, Criterion(margin=0.1))
    assert str(found.verdict) == "identical, the same runs: nothing was compared"
    assert (found.low, found.high, found.p, found.advice) == (0, 0, 1, None)
    assert compare([0.0] * 5, Criterion(open_ended=True)).verdict.word == "identical"


@pytest.mark.parametrize(
    ("gains", "message"),
    [
        (
            [0.7] * 5,
            (
                "gains: 0.7 in each of 5 seeds, so the seed does not reach the runs; train every"
                " run under a seed"
            ),
        ),
        ([0.7, 0.7 + 1e-15, 0.7], "the seed does not reach the runs"),
        (
            [0.1, float("nan"), 0.3],
            "gains: nan at place 2 of 3 is not a number; mark a run that failed as failed",
        ),
        ([0.1, 0.2, float("inf")], "gains: inf at place 3 of 3 is not a number"),
        ([0.1, 0.2], "gains: 2 seeds, too few for a verdict; use 3 or more, 5 by default"),
    ],
)
def test_what_cannot_be_judged_is_refused(gains: list[float], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        compare(gains)


def test_a_margin_a_family_and_a_share_must_be_possible() -> None:
    with pytest.raises(SpecError, match="margin is 0; use a difference above 0") as refusal:
        compare(GAINS, Criterion(margin=0.0, n_comparisons=0, family_alpha=0.06))
    assert refusal.value.problems[1:] == (
        "n_comparisons is 0; use the size of the family, 1 or more",
        "family_alpha is 0.06; use above 0, up to 0.05",
    )


def _numbers(found: Comparison) -> list[float]:
    flip = [] if found.sign_flip is None else [found.sign_flip]
    values = (
        found.effect,
        found.sd,
        found.low,
        found.high,
        found.inner_low,
        found.inner_high,
        found.p,
    )
    return [*values, found.p_adjusted, *found.leave_one_out, *flip]


def test_the_order_of_seeds_changes_no_bit() -> None:
    rng = np.random.default_rng(3)
    gains = rng.normal(size=11)
    assert compare(rng.permutation(gains).tolist(), Criterion(margin=1)) == compare(
        gains.tolist(), Criterion(margin=1)
    )


def test_names_of_arms_their_order_and_a_constant_for_each_seed_change_nothing() -> None:
    scores = np.random.default_rng(3).normal(size=(3, 7))
    shifted = scores + 10 * np.random.default_rng(4).normal(size=7)
    before = {name: dict(enumerate(row)) for name, row in zip("abc", scores.tolist(), strict=True)}
    after = {
        name: dict(reversed(list(enumerate(row))))
        for name, row in zip("zyx", shifted.tolist()[::-1], strict=True)
    }
    first = judge_family(before, "a", measure=LOWER, criterion=Criterion(margin=0.5))
    second = judge_family(after, "x", measure=LOWER, criterion=Criterion(margin=0.5))
    for old, new in (("b", "y"), ("c", "z")):
        one, other = first[old, "a"].comparison, second[new, "x"].comparison
        assert one and other  # noqa: PT018
        assert (one.verdict, one.advice) == (other.verdict, other.advice)
        assert _numbers(one) == pytest.approx(_numbers(other), rel=1e-12, abs=1e-12)


def test_exchanging_arm_and_baseline_mirrors_the_verdict() -> None:
    there, back = (
        compare(GAINS, Criterion(margin=0.5)),
        compare([-gain for gain in GAINS], Criterion(margin=0.5)),
    )
    assert (there.verdict.word, back.verdict.word) == ("better", "worse")
    assert (back.low, back.high, back.p) == pytest.approx((-there.high, -there.low, there.p))


@pytest.mark.parametrize("n", [6, 7, 10])
def test_turning_signs_is_scipys_permutation_test(n: int) -> None:
    gains = np.random.default_rng(n).normal(0.4, 1, size=n)
    found = stats.permutation_test((gains,), np.mean, permutation_type="samples", n_resamples=2**n)
    assert sign_flip(gains.tolist()) == pytest.approx(found.pvalue, abs=1e-12)


def test_turning_signs_counts_ties_and_needs_six_seeds() -> None:
    assert sign_flip([1.0] * 6) == 2 / 2**6
    assert sign_flip([0.1, 0.2, 0.3, -0.3, -0.2, -0.1]) == 1
    assert sign_flip([0.1, 0.2, 0.3, 0.1, 0.2, -0.3]) == pytest.approx(
        stats.permutation_test(
            ([1, 2, 3, 1, 2, -3],), np.mean, permutation_type="samples", n_resamples=64
        ).pvalue
    )
    assert sign_flip([1.0] * 5) is None
    assert sign_flip(np.linspace(0.1, 1, 40).tolist()) == 2 / 2**40
    assert sign_flip([1.0] * 41) is None


def test_a_verdict_that_signs_do_not_bear_out_says_so() -> None:
    assert compare([1.0, 1.05, 0.95, 1.02, 0.99, 1.1]).remarks == ()
    found = compare([1.0, 1.05, 0.95, 1.02, -0.01, -0.02])
    assert (found.verdict.word, found.sign_flip) == ("better", 0.125)
    assert found.description.endswith(
        "at these rates; rests on normal noise: turning signs alone does not show it."
    )


def test_the_mean_without_one_seed_is_by_hand() -> None:
    assert leave_one_out([1.0, 2.0, 6.0]) == (1.5, 4.0)


def test_an_inconclusive_comparison_says_what_the_margin_would_need() -> None:
    gains = [1.5, -1.0, 0.9, -0.4, 0.5]
    assert (
        str(compare(gains, Criterion(margin=1)).advice)
        == "To see a difference of the margin, 1, with 80 % power, if the noise is as large as 5"
        " seeds allow: 22 fresh seeds, judged alone"
    )
    assert (
        str(compare(gains, Criterion(margin=0.0001)).advice)
        == "A difference of the margin, 0.0001, is not within reach of 60 fresh seeds, judged"
        " alone, nor is one of 100 margins: it takes longer runs, another yardstick or a wider"
        " margin"
    )
    assert compare(gains).description.endswith("longer runs, another yardstick or a margin.")
    assert compare(gains, Criterion(margin=1)).description.endswith("22 fresh seeds, judged alone.")


def test_a_margin_out_of_reach_is_told_with_what_fresh_seeds_would_see() -> None:
    found = compare([0.5, 0.58, 1.0], Criterion(margin=0.02381, n_comparisons=3))
    assert found.verdict.word == "inconclusive"
    wider = [
        (times, seeds_needed(times * 0.02381, found.sd, 3, 0.05 / 3)) for times in (2, 5, 10, 20)
    ]
    assert [times for times, n in wider if n is None] == [2, 5, 10]
    assert found.advice is not None
    assert (
        f": {wider[-1][1]} fresh seeds, judged alone, for 20 margins (0.4762); "
        in found.advice.description
    )
    assert found.advice.brief.startswith(
        f"{wider[-1][1]} fresh seeds, judged alone, for 20 margins (0.4762); "
    )
    assert "seeds in all" not in found.description


def test_seeds_of_an_open_number_may_go_on() -> None:
    gains = [1.5, -1.0, 0.9, -0.4, 0.5]
    assert str(compare(gains, Criterion(margin=2, open_ended=True)).advice).endswith(
        ": 14 seeds of this open number"
    )


def test_advice_knows_the_margin_and_the_noise_but_not_the_effect() -> None:
    gains = np.array([1.5, -1.0, 0.9, -0.4, 0.5])
    for margin in (1, 0.1):
        assert (
            compare((gains - 0.2).tolist(), Criterion(margin=margin)).advice
            == compare(gains.tolist(), Criterion(margin=margin)).advice
        )


def test_an_open_number_of_seeds_widens_the_interval() -> None:
    fixed, open_ended = (
        compare(GAINS, Criterion(margin=2)),
        compare(GAINS, Criterion(margin=2, open_ended=True)),
    )
    half = 5.3574 * fixed.sd / np.sqrt(5)
    assert (open_ended.low, open_ended.high) == pytest.approx((1.08 - half, 1.08 + half), abs=1e-4)
    assert (open_ended.inner_low, open_ended.inner_high) == (open_ended.low, open_ended.high)
    assert fixed.p < open_ended.p < 0.05
    assert (
        "; the number of seeds was left open, and the interval holds at any; "
        in open_ended.description
    )
    assert open_ended.description.endswith(
        "rests on symmetric noise: a sign test, which does not, is read from 8 seeds on."
    )
    assert str(open_ended.verdict) == "better, by less than the margin"
    assert compare(GAINS[:3], Criterion(open_ended=True)).verdict == Verdict("inconclusive")


def test_what_rounding_leaves_of_no_gain_is_zero_in_words() -> None:
    gains = [0.1, 0.2, -0.3]
    assert 0 < abs(float(np.mean(np.sort(gains)))) < 1e-15
    found = compare(gains, Criterion(margin=1.0), unit="points")
    assert ": gain 0 points, " in found.description
    assert "margin 1 point;" in found.description
    small = compare([1e-9, 2e-9, 4e-9], unit="points")
    assert ": gain 2.333e-09 points, " in small.description


def test_one_has_a_unit_in_the_singular() -> None:
    assert with_unit("1", "points") == "1 point"
    assert with_unit("±1", "points") == "±1 point"
    assert with_unit("−1", "bits per byte") == "−1 bit per byte"
    assert with_unit("1.0", "points") == "1.0 points"
    assert with_unit("2", "points") == "2 points"
    assert with_unit("1", "") == "1"


def test_a_comparison_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        compare(GAINS).effect = 2  # pyright: ignore[reportAttributeAccessIssue]
