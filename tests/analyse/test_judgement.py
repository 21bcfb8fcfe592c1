"""T14: a run that failed is an outcome."""

import pytest
from measures import HIGHER, LOWER
from scipy.stats import binomtest

from paribus.analyse import (
    Scores,
    as_ratio,
    gain,
    judge_arm,
    judge_family,
    mcnemar,
    score_if_trained,
    trained_count,
)
from paribus.analyse.criterion import Criterion
from paribus.analyse.judgement import judgement_with_seed_count, judgement_with_word
from paribus.analyse.verdict import WORDS_BEFORE_T, Verdict, is_decided_before
from paribus.errors import SpecError

BASELINE: dict[int, float] = {1: 3.1, 2: 3.2, 3: 3.0, 4: 3.15, 5: 3.05}
BETTER: dict[int, float | None] = {1: 2.1, 2: 2.3, 3: 2.0, 4: 2.1, 5: 2.0}


def _failing(scores: Scores, *seeds: int) -> Scores:
    return {seed: None if seed in seeds else score for seed, score in scores.items()}


def test_an_arm_that_fails_in_two_of_five_is_unstable_however_good_it_is_elsewhere() -> None:
    found = judge_arm(BASELINE, _failing(BETTER, 2, 5), measure=LOWER)
    assert found.verdict.word == "unstable"
    assert found.verdict.detail == "the arm trained in 3 of 5; where both trained, better"
    assert found.comparison is not None
    assert (found.comparison.n, found.comparison.verdict.word) == (3, "better")
    assert found.description.startswith(
        "unstable: the arm trained in 3 of 5, the baseline in 5 of 5; where both trained, bet"
    )


def test_no_seed_vanishes_from_the_table() -> None:
    found = judge_arm(BASELINE, _failing(BETTER, 2, 5), measure=LOWER)
    assert [row.seed for row in found.seeds] == [1, 2, 3, 4, 5]
    assert [row.gain is None for row in found.seeds] == [False, True, False, False, True]
    assert [row.baseline for row in found.seeds] == list(BASELINE.values())


@pytest.mark.parametrize(
    ("baseline_fails", "arm_fails", "word"),
    [
        ((), (), "better"),
        ((1,), (1,), "better"),
        ((1,), (2,), "better"),
        ((1,), (), "better"),
        ((), (1,), "unstable"),
    ],
)
def test_a_better_arm_stays_better_unless_it_failed_more_often(
    baseline_fails, arm_fails, word: str
) -> None:
    found = judge_arm(
        _failing(BASELINE, *baseline_fails), _failing(BETTER, *arm_fails), measure=LOWER
    )
    assert found.verdict.word == word


@pytest.mark.parametrize(
    ("baseline_fails", "arm_fails", "word"),
    [((), (), "worse"), ((), (1,), "worse"), ((1,), (), "unstable")],
)
def test_a_worse_arm_stays_worse_unless_the_baseline_failed_more_often(
    baseline_fails, arm_fails, word: str
) -> None:
    found = judge_arm(
        _failing(BASELINE, *baseline_fails), _failing(BETTER, *arm_fails), measure=HIGHER
    )
    assert found.verdict.word == word


def test_equal_arms_are_not_equivalent_where_one_failed_more_often() -> None:
    close = {seed: score + 0.01 * (-1) ** seed for seed, score in BASELINE.items()}
    assert (
        judge_arm(BASELINE, close, measure=LOWER, criterion=Criterion(margin=1)).verdict.word
        == "equivalent"
    )
    assert (
        judge_arm(
            BASELINE, _failing(close, 1), measure=LOWER, criterion=Criterion(margin=1)
        ).verdict.word
        == "unstable"
    )
    assert (
        judge_arm(
            _failing(BASELINE, 1), close, measure=LOWER, criterion=Criterion(margin=1)
        ).verdict.word
        == "unstable"
    )


def test_too_few_pairs_that_trained_leave_no_comparison() -> None:
    found = judge_arm(BASELINE, _failing(BETTER, 1, 2, 3), measure=LOWER)
    assert found.comparison is None
    assert (
        found.description
        == "unstable, the arm trained in 2 of 5, the baseline in 5 of 5; fewer than 3 seeds trained"
        " in both."
    )


def test_a_seed_that_was_not_run_is_no_failed_run() -> None:
    short = {seed: score for seed, score in BETTER.items() if seed != 4}
    with pytest.raises(
        SpecError, match=r"arm: seeds 4 were not run; run them \(None is for a run that failed\)"
    ):
        judge_arm(BASELINE, short, measure=LOWER)
    with pytest.raises(SpecError, match="baseline: seeds 6, 7 were not run"):
        judge_arm(BASELINE, BETTER, measure=LOWER, criterion=Criterion(seeds=tuple(range(1, 8))))


def test_a_run_may_not_be_left_out_unsaid() -> None:
    with pytest.raises(
        SpecError, match="arm: seeds 5 were not declared; leave no run out, or declare a new design"
    ):
        judge_arm(BASELINE, BETTER, measure=LOWER, criterion=Criterion(seeds=tuple(range(1, 5))))
    many = {seed: 1.0 * seed for seed in range(20)}
    with pytest.raises(SpecError, match="seeds 3, 4, 5, 6, 7 and 12 more were not declared"):
        judge_arm(many, many, measure=LOWER, criterion=Criterion(seeds=tuple(range(3))))
    with pytest.raises(SpecError, match="seeds: 2 given, too few for a verdict; use 3 or more"):
        judge_arm(many, many, measure=LOWER, criterion=Criterion(seeds=tuple(range(2))))


def test_a_run_failed_if_it_is_no_number_or_worse_than_word_frequencies() -> None:
    assert score_if_trained(3.0, 7.0, LOWER) == 3.0
    assert score_if_trained(7.5, 7.0, LOWER) is None
    assert score_if_trained(float("nan"), 7.0, LOWER) is None
    assert score_if_trained(float("inf"), 0.1, HIGHER) is None
    assert score_if_trained(0.2, 0.1, HIGHER) == 0.2


def test_shares_that_trained_have_exact_intervals() -> None:
    found = trained_count(5, 5)
    assert str(found) == "5 of 5"
    assert (found.low, found.high) == (pytest.approx(0.025 ** (1 / 5)), 1)
    assert 1 - found.low == pytest.approx(0.5218, abs=1e-4)


def test_failures_in_one_arm_alone_are_compared_exactly() -> None:
    assert mcnemar(0, 0) is None
    assert mcnemar(0, 5) == 0.0625
    assert mcnemar(6, 0) == 0.03125
    assert mcnemar(1, 7) == pytest.approx(binomtest(1, 8).pvalue)
    found = judge_arm(_failing(BASELINE, 3), _failing(BETTER, 2, 5), measure=LOWER)
    assert found.mcnemar == 1.0


def test_times_are_compared_as_ratios() -> None:
    slow = {seed: 2.0 * seed for seed in (1, 2, 3, 4)}
    fast = {1: 1.0, 2: 2.1, 3: 3.0, 4: 3.9}
    found = judge_arm(slow, fast, measure=LOWER, scale="log_ratio")
    assert found.comparison is not None
    assert as_ratio(found.comparison.effect) == pytest.approx(2, rel=0.01)
    assert gain(0.5, 0.7, measure=HIGHER) == pytest.approx(0.2)
    with pytest.raises(
        SpecError,
        match="gain: a score of 0 has no logarithm; use scale 'difference', or scores above 0",
    ):
        gain(0.0, 1.0, measure=LOWER, scale="log_ratio")


def test_a_family_has_one_comparison_an_arm_and_reads_at_its_look() -> None:
    arms = {"base": BASELINE, "good": BETTER, "shaky": _failing(BETTER, 2)}
    found = judge_family(
        arms,
        "base",
        measure=LOWER,
        criterion=Criterion(looks={5: 0.01, 10: 0.04}, remarks=("rates tuned at 25 %",)),
    )
    assert found["good", "base"].description.endswith("at these rates; rates tuned at 25 %.")
    assert [found[name, "base"].verdict.word for name in ("good", "shaky")] == [
        "better",
        "unstable",
    ]
    assert {one.comparison.level for one in found.values() if one.comparison} == {1 - 0.01 / 2}
    alone = judge_family(arms, "base", measure=LOWER, comparisons=[("good", "base")])
    (one,) = alone.values()
    assert one.comparison is not None
    assert (list(alone), one.comparison.n_comparisons) == ([("good", "base")], 1)


def test_a_family_may_be_pairs_each_judged_against_its_own() -> None:
    arms = {"base": BASELINE, "good": BETTER, "shaky": _failing(BETTER, 2)}
    pairs = [("good", "base"), ("base", "shaky")]
    found = judge_family(arms, "base", measure=LOWER, comparisons=pairs)
    assert list(found) == pairs
    assert found["good", "base"] == judge_arm(
        BASELINE, BETTER, measure=LOWER, criterion=Criterion(n_comparisons=2)
    )
    other = found["base", "shaky"]
    assert (other.baseline_trained.k, other.arm_trained.k) == (4, 5)
    assert "the arm trained in 5 of 5, shaky in 4 of 5; where both trained" in other.description
    both = judge_family(
        arms, "base", measure=LOWER, comparisons=[("good", "shaky"), ("shaky", "base")]
    )
    assert both["good", "shaky"].verdict.detail.startswith(
        "shaky trained in 4 of 5; where both trained"
    )
    assert both["shaky", "base"].verdict.detail.startswith(
        "the arm trained in 4 of 5; where both trained"
    )


def test_a_family_is_read_at_declared_looks_and_of_named_arms() -> None:
    arms = {"base": BASELINE, "good": BETTER}
    with pytest.raises(SpecError, match="looks: 5 seeds are not a declared look"):
        judge_family(arms, "base", measure=LOWER, criterion=Criterion(looks={10: 0.05}))
    with pytest.raises(SpecError, match="comparisons: best is not an arm; use base, good"):
        judge_family(arms, "base", measure=LOWER, comparisons=[("best", "base")])
    with pytest.raises(
        SpecError, match="comparisons: none; name one or more pairs of different arms, each once"
    ):
        judge_family({"base": BASELINE}, "base", measure=LOWER)
    for pairs in ([("good", "good")], [("good", "base"), ("base", "good")]):
        with pytest.raises(
            SpecError,
            match=r"comparisons: good against .*; name one or more pairs of different arms",
        ):
            judge_family(arms, "base", measure=LOWER, comparisons=pairs)


HEAPS = Verdict("bimodal", "2 of 5 learnt")


def test_words_that_need_no_t_come_before_those_of_t_in_their_order() -> None:
    for place, word in enumerate(WORDS_BEFORE_T):
        assert is_decided_before(word, "better")
        assert not is_decided_before("better", word)
        assert not is_decided_before(word, word)
        assert all(is_decided_before(word, later) for later in WORDS_BEFORE_T[place + 1 :])
    assert not is_decided_before("better", "equivalent")


def test_a_word_that_needs_no_t_takes_the_place_of_one_of_t_and_of_its_interval() -> None:
    found = judgement_with_word(judge_arm(BASELINE, BETTER, measure=LOWER), HEAPS)
    assert (found.verdict, found.comparison) == (HEAPS, None)
    assert found.description == "bimodal: 2 of 5 learnt."


def test_a_word_that_is_decided_earlier_stays() -> None:
    same = judge_arm(BASELINE, BASELINE, measure=LOWER)
    assert judgement_with_word(same, HEAPS) == same
    blind = Verdict("manipulation not shown", "tuned is not better than untuned")
    found = judge_arm(BASELINE, BETTER, measure=LOWER)
    assert judgement_with_word(judgement_with_word(found, blind), HEAPS).verdict == blind


def test_an_arm_that_failed_more_often_stays_unstable_and_says_no_word_of_t() -> None:
    failing = judge_arm(BASELINE, _failing(BETTER, 2, 5), measure=LOWER)
    found = judgement_with_word(failing, HEAPS)
    assert str(found.verdict) == (
        "unstable, the arm trained in 3 of 5; where both trained, bimodal: 2 of 5 learnt"
    )
    assert found.comparison is None


def test_a_word_says_in_how_many_seeds_it_holds_where_runs_failed() -> None:
    counted = judgement_with_seed_count(
        judge_arm(_failing(BASELINE, 3), _failing(BETTER, 3), measure=LOWER)
    )
    assert (counted.verdict.word, counted.verdict.label) == ("better", "better in 4 of 5 seeds")
    assert counted.comparison is not None
    assert str(counted.comparison.verdict) == "better in 4 of 5 seeds"
    assert counted.description.startswith("better in 4 of 5 seeds: the arm trained in 4 of 5")
    more = judge_arm(BASELINE, _failing(BETTER, 2, 5), measure=LOWER)
    assert judgement_with_seed_count(more).verdict.label == "unstable in 2 of 5 seeds"
    few = judge_arm(BASELINE, _failing(BETTER, 1, 2, 5), measure=LOWER)
    assert judgement_with_seed_count(few).verdict.label == "unstable in 3 of 5 seeds"
    whole = judge_arm(BASELINE, BETTER, measure=LOWER)
    assert judgement_with_seed_count(whole) == whole
