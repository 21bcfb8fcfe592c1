"""Slopes against the effective rank, on planted runs."""

import random
from math import log2

import pytest

from paribus.analyse.rank_effect import (
    Intervention,
    RankedRun,
    rank_effects,
    rank_move,
    rank_slopes,
    slope_difference,
)
from paribus.analyse.rank_interventions import rank_interventions
from paribus.design.design_files import find_design
from paribus.spec.design import arm_tables
from paribus.spec.measure import ACCURACY, LIKELIHOOD
from paribus.spec.merging import merge_tables

RANKS = {"8": 11.0, "16": 17.0, "32": 23.0, "64": 31.0}
SEEDS = (1, 2, 3, 4, 5)


def planted_intervention(
    slope: float, noise: float = 0.0, draw: int = 0, ranks=None
) -> Intervention:
    """Bits per byte that fall by `slope` for each doubling of the rank; seeds differ in level."""
    source = random.Random(draw)
    own = {seed: 2 + source.gauss(0, 0.3) for seed in SEEDS}
    intervention = {}
    for level, rank in (ranks or RANKS).items():
        runs = {}
        for seed in SEEDS:
            score = own[seed] - slope * log2(rank) + source.gauss(0, noise)
            runs[seed] = RankedRun(rank, score)
        intervention[level] = runs
    return intervention


@pytest.mark.parametrize(("slope", "word"), [(0.05, "rank helps"), (-0.05, "rank hurts")])
def test_a_planted_slope_is_found_in_every_seed(slope, word):
    (effect,) = rank_effects({"head size": planted_intervention(slope)}, LIKELIHOOD)
    assert list(effect.slopes) == list(SEEDS)
    assert list(effect.slopes.values()) == pytest.approx([slope] * 5)
    assert effect.effect == pytest.approx(slope)
    assert (effect.low, effect.high) == pytest.approx((slope, slope))
    assert effect.word == word


def test_a_slope_is_oriented_by_the_measure():
    intervention = planted_intervention(0.05)
    assert rank_slopes(intervention, ACCURACY)[1] == pytest.approx(-0.05)


def test_the_slope_of_one_seed_is_that_of_least_squares():
    # doublings 0, 1, 2 and scores 3, 1, 2: Σ(x−1)(y−2)/Σ(x−1)² = (−1·1 + 1·0)/2 = −½
    intervention = {
        "a": {7: RankedRun(4.0, 3.0)},
        "b": {7: RankedRun(8.0, 1.0)},
        "c": {7: RankedRun(16.0, 2.0)},
    }
    assert rank_slopes(intervention, LIKELIHOOD) == {7: pytest.approx(0.5)}
    (effect,) = rank_effects({"head size": intervention}, LIKELIHOOD)
    assert (effect.word, effect.effect, effect.n_seeds) == ("undecided", None, 1)


@pytest.mark.parametrize(("highest", "is_moved"), [(10.99, False), (11.01, True)])
def test_a_rank_is_moved_from_a_tenth_on(highest, is_moved):
    intervention = planted_intervention(0.5, ranks={"a": 10.0, "b": highest, "c": 10.5})
    assert rank_move(intervention).is_moved == is_moved
    assert (rank_move(intervention).lowest, rank_move(intervention).highest) == ("a", "b")
    (effect,) = rank_effects({"head size": intervention}, LIKELIHOOD)
    assert (effect.word == "not moved") == (not is_moved)
    assert bool(effect.slopes) == is_moved


def test_ranks_of_a_level_are_the_geometric_mean_over_its_seeds():
    intervention = {
        "a": {1: RankedRun(4.0, 1.0), 2: RankedRun(9.0, 1.0)},
        "b": {1: RankedRun(5.0, 1.0), 2: RankedRun(5.0, 1.0)},
    }
    assert (rank_move(intervention).low_rank, rank_move(intervention).high_rank) == pytest.approx(
        (5.0, 6.0)
    )
    assert rank_move(intervention).share == pytest.approx(0.2)


def test_noise_alone_seldom_has_a_direction():
    words = []
    for draw in range(400):
        interventions = {"one": planted_intervention(0.0, noise=0.02, draw=draw)}
        words.append(rank_effects(interventions, LIKELIHOOD)[0].word)
    false_alarms = sum(word != "undecided" for word in words)
    assert 8 <= false_alarms <= 34  # of 400 at 5 %: 20, within 3.3 standard deviations


def test_interventions_share_the_false_alarms():
    one, other = planted_intervention(0.05, noise=0.01), planted_intervention(0.05, noise=0.01)
    alone = rank_effects({"one": one}, LIKELIHOOD)[0]
    both = rank_effects({"one": one, "other": other}, LIKELIHOOD)[0]
    assert (alone.level, both.level) == pytest.approx((0.95, 0.975))
    assert both.high - both.low > alone.high - alone.low
    declared = rank_effects({"one": one}, LIKELIHOOD, n_declared=2)[0]
    assert declared == both


def test_a_small_slope_is_within_a_margin_over_the_range_of_its_intervention():
    # 1.49 doublings of noise alone
    intervention = {"one": planted_intervention(0.0, noise=0.0002, draw=4)}
    assert rank_effects(intervention, LIKELIHOOD, margin=0.01)[0].word == "within the margin"
    assert rank_effects(intervention, LIKELIHOOD, margin=1e-5)[0].word == "undecided"


def test_seeds_that_lack_a_level_have_no_slope():
    intervention = {level: dict(runs) for level, runs in planted_intervention(0.05).items()}
    del intervention["16"][4]
    assert list(rank_slopes(intervention, LIKELIHOOD)) == [1, 2, 3, 5]


def test_two_interventions_that_differ_show_that_rank_is_not_all():
    scales = {"flat": 9.0, "32": 23.0, "sharp": 30.0}
    interventions = {
        "head size": planted_intervention(0.05, noise=0.002, draw=1),
        "score scale": planted_intervention(-0.02, noise=0.002, draw=2, ranks=scales),
    }
    one, other = rank_effects(interventions, LIKELIHOOD)
    difference = slope_difference(one, other)
    assert difference is not None
    assert difference.excludes_zero
    assert difference.effect == pytest.approx(0.07, abs=0.01)
    agreed = slope_difference(one, one)
    assert agreed is not None
    assert not agreed.excludes_zero
    still = planted_intervention(0.05, ranks={"a": 10.0, "b": 10.1, "c": 10.2})
    (unmoved,) = rank_effects({"still": still}, LIKELIHOOD)
    assert slope_difference(one, unmoved) is None


@pytest.mark.parametrize("scale", ["smoke", "laptop", "hour", "paper"])
def test_the_design_has_two_interventions_under_each_mask(scale):
    _, design = find_design("rank", scale)
    architectures = {}
    for arm, table in arm_tables(design).items():
        architectures[arm] = merge_tables(design.base, table)["architecture"]
    interventions = rank_interventions(architectures, design.baseline)
    assert {str(name): arms for name, arms in interventions.items()} == {
        "head size, causal": ("causal+8", "causal+16", "causal+32", "causal+64"),
        "score scale, causal": ("causal+32", "causal+32 flat", "causal+32 sharp"),
        "head size, prefix": ("prefix+8", "prefix+16", "prefix+32", "prefix+64"),
        "score scale, prefix": ("prefix+32", "prefix+32 flat", "prefix+32 sharp"),
    }
    for name, times in (("flat", 0.25), ("sharp", 4.0)):
        attention = architectures[f"causal+32 {name}"]["attention"]
        assert attention["score_scale"] == pytest.approx(times * attention["d_head"] ** -0.5)
        assert attention["qk_norm"] == "fixed"
