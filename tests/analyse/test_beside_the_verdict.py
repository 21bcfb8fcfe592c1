"""What a report prints beside the verdict is computed here: detection, expected gains, moments,
times and sums.
"""

from dataclasses import replace
from math import inf, isnan, log, sqrt
from typing import Any

import pytest
from handmade_study import make_study

from paribus.analyse import detectable_effect, study_findings, upper_sd
from paribus.analyse.detection import detectable_gain, detectable_in_sds
from paribus.analyse.document_sums import document_sums
from paribus.analyse.expected_gain import ExpectedGain, expected_gain
from paribus.analyse.findings import Findings
from paribus.analyse.pooled_noise import PooledNoise
from paribus.analyse.rate_fit import parabola_points
from paribus.analyse.run_costs import RunTimes, flops_by_purpose, run_times
from paribus.analyse.seed_scores import (
    ExploredGain,
    ScoreMoments,
    explored_gain,
    moments,
    scores_at_rate,
    seed_scores,
)
from paribus.record import Answer


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return study_findings(make_study(tmp_path_factory.mktemp("small")))


def test_seeds_show_an_effect_in_spreads_and_in_units_at_the_largest_noise_they_allow(
    found: Findings,
):
    own = found.arms[0].judgement.comparison
    assert own is not None
    spreads = detectable_effect(4, found.n_comparisons, alpha=0.05)
    assert detectable_in_sds(found) == spreads
    assert detectable_gain(own, found) == spreads * upper_sd(own.sd, 4)


def test_one_noise_of_all_arms_is_that_of_a_difference_of_two(found: Findings):
    own = found.arms[0].judgement.comparison
    assert own is not None
    sds = {"a": 1.0, "b": 1.0, "c": 1.0}
    pooled = PooledNoise(
        effects={},
        intervals={},
        inner_intervals={},
        p={},
        verdicts={},
        level=0.95,
        residual_sd=0.5,
        df=6,
        residual_sds=sds,
        score_sds={},
    )
    shared = replace(found, pooled_noise=pooled)
    spreads = detectable_effect(4, found.n_comparisons, alpha=0.05, n_arms=3)
    assert detectable_gain(own, shared) == spreads * upper_sd(sqrt(2) * 0.5, 7)


def test_a_gain_on_new_documents_is_never_narrower_than_the_verdicts(found: Findings):
    arm = found.arms[0]
    own, other = arm.judgement.comparison, arm.new_documents
    assert own is not None
    assert other is not None
    assert other.interval is not None
    wide = replace(
        other, interval=replace(other.interval, effect=0.5, low=-9.0, high=10.0, level=0.9)
    )
    assert expected_gain(replace(arm, new_documents=wide)) == ExpectedGain(
        0.5, -9.0, 10.0, 0.9, False
    )
    narrow = replace(
        other, interval=replace(other.interval, low=own.high, high=own.high, level=0.9)
    )
    hull = expected_gain(replace(arm, new_documents=narrow))
    assert hull is not None
    assert (hull.low, hull.high, hull.is_hull) == (own.low, own.high, True)
    assert expected_gain(replace(arm, new_documents=None)) is None


def test_scores_of_a_yardstick_have_a_mean_and_a_spread():
    assert moments([1.0, 2.0, 6.0]) == ScoreMoments(3.0, sqrt(7), 3)
    assert moments([2.0]) == ScoreMoments(2.0, None, 1)
    assert moments([]) == ScoreMoments(None, None, 0)


def test_a_gain_to_explore_pairs_the_seeds_that_both_arms_have(found: Findings):
    column = "halves.test"
    scores, before = seed_scores(found, "prefix", column), seed_scores(found, "causal", column)
    assert tuple(scores) == found.seeds
    gain = explored_gain(found, "prefix", column)
    assert gain.effect == pytest.approx(sum(before[seed] - scores[seed] for seed in scores) / 4)
    assert gain.effect is not None
    assert gain.low is not None
    assert gain.high is not None
    assert gain.low < gain.effect < gain.high
    assert explored_gain(found, "prefix", "pseudo.test") == ExploredGain(None, None, None, 0)


def test_scores_at_a_rate_are_of_finished_runs_as_long_as_the_reported_ones():
    def row(
        seed: int,
        rate: float,
        purpose: str = "reported",
        n_steps: int = 7,
        outcome: str = "finished",
    ) -> Any:
        return {
            "arm": "a",
            "seed": seed,
            "rate": rate,
            "purpose": purpose,
            "n_steps": n_steps,
            "outcome": outcome,
            "x": float(seed),
        }

    table = [
        row(1, 0.1),
        row(2, 0.1 * (1 + 1e-12), "bracket"),
        row(3, 0.2),
        row(4, 0.1, "bracket", 3),
        row(5, 0.1, "sweep"),
        row(6, 0.1, outcome="diverged"),
    ]
    assert scores_at_rate(table, "a", 0.1, "x") == {1: 1.0, 2: 2.0}
    assert scores_at_rate(table, "b", 0.1, "x") == {}


def test_times_are_means_over_the_runs_that_kept_a_clock():
    rows = [
        {"arm": "a", "seconds": 2.0, "n_steps": 4, "tokens_read": 8},
        {"arm": "a", "seconds": 4.0, "n_steps": 4, "tokens_read": 8},
        {"arm": "a", "seconds": None, "n_steps": 4, "tokens_read": 8},
    ]
    assert run_times(rows, "a") == RunTimes(3.0, 0.75, 3.0)
    assert run_times(rows, "b") is None


def test_steps_are_timed_without_what_was_compiled():
    rows = [
        {"arm": "a", "seconds": 42.0, "compile_seconds": 34.0, "compile_wait_seconds": 6.0},
        {"arm": "a", "seconds": 4.0, "compile_seconds": None},
        {"arm": "a", "seconds": 5.0, "compile_seconds": 5.0},
    ]
    for row in rows:
        row |= {"n_steps": 4, "tokens_read": 8}
    assert run_times(rows, "a") == RunTimes(23.0, 0.75, 3.0, 17.0, 3.0)
    assert run_times(rows[2:], "a") is None  # it has no speed


def test_flops_are_summed_by_purpose_and_sweeps_are_always_named():
    rows = [
        {"purpose": "reported", "dense_flops": 3.0},
        {"purpose": "reported", "dense_flops": None},
    ]
    assert flops_by_purpose(rows) == {"sweep": 0.0, "reported": 3.0}


def test_items_of_one_document_are_summed(found: Findings):
    evaluation = next(iter(found.evaluations["causal"].values()))
    answers = (
        Answer("1", log(2), 1, 3, 0, "d"),
        Answer("2", 2 * log(2), 1, 4, 0, "d"),
        Answer("3", log(2), 1, 5, 0),
    )
    assert document_sums(replace(evaluation, answers=answers)) == {"d": (3.0, 7), "3": (1.0, 5)}


def test_a_parabola_is_drawn_from_the_lowest_rate_to_the_highest():
    points = parabola_points((1.0, 0.0, 2.0), (4.0, 0.25, 1.0), 3)
    assert points == [(0.25, 6.0), (1.0, 2.0), (4.0, 6.0)]
    assert not any(isnan(loss) or loss == inf for _, loss in points)
