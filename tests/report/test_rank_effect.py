"""Sentences about rank and effect, from planted runs."""

from math import log2

from paribus.analyse.rank_effect import RankedRun, rank_effects, slope_difference
from paribus.report.rank_effect import (
    OBSERVED_NOTE,
    describe_observed_ranks,
    describe_rank_effect,
    describe_slope_difference,
)
from paribus.spec.measure import LIKELIHOOD


def planted_intervention(ranks, slopes):
    """One seed for each slope: bits per byte that fall by it for each doubling of the rank."""
    intervention = {}
    for level, rank in ranks.items():
        runs = {}
        for seed, slope in enumerate(slopes):
            runs[seed] = RankedRun(rank, 2 - slope * log2(rank))
        intervention[level] = runs
    return intervention


def test_an_intervention_that_moved_the_rank_has_its_check_and_its_slope_in_words():
    intervention = planted_intervention({"8": 8.0, "16": 16.0, "32": 32.0}, [0.04, 0.05, 0.06])
    (effect,) = rank_effects({"head size, causal": intervention}, LIKELIHOOD)
    assert describe_rank_effect(effect) == (
        'Head size, causal: the effective rank of attention goes from 8 ("8") to 32 ("32"), 300 %'
        " more, 2.00 doublings. A doubling of the effective rank goes with a gain of +0.050 bits"
        " per byte (+0.025 to +0.075, 95 %, 3 seeds). The score gets better with the rank under"
        " this intervention."
    )


def test_an_intervention_that_did_not_move_the_rank_says_not_moved_and_no_slope():
    intervention = planted_intervention({"8": 20.0, "16": 20.5, "32": 21.0}, [0.04, 0.05, 0.06])
    (effect,) = rank_effects({"head size, causal": intervention}, LIKELIHOOD)
    assert describe_rank_effect(effect) == (
        'Head size, causal: the effective rank of attention goes from 20 ("8") to 21 ("32"), 5 %'
        " more. Not moved: less than 10 %, so no slope is read."
    )


def test_too_few_seeds_are_undecided():
    intervention = planted_intervention({"8": 8.0, "16": 16.0, "32": 32.0}, [0.04, 0.05])
    (effect,) = rank_effects({"head size, causal": intervention}, LIKELIHOOD)
    assert describe_rank_effect(effect).endswith(
        "Undecided: 2 seeds with all levels, and a slope needs 3."
    )


def test_every_word_of_a_slope_has_a_sentence():
    ranks, endings = {"8": 8.0, "16": 16.0, "32": 32.0}, []
    for slopes, margin in (
        ([-0.04, -0.05, -0.06], None),
        ([-0.04, 0.0, 0.05], None),
        ([-0.001, 0.0, 0.001], 0.05),
    ):
        interventions = {"head size": planted_intervention(ranks, slopes)}
        (effect,) = rank_effects(interventions, LIKELIHOOD, margin)
        endings.append(describe_rank_effect(effect).split("seeds). ")[1])
    assert endings == [
        "The score gets worse with the rank under this intervention.",
        "Whether the score follows the rank is undecided.",
        "Over the whole range of ranks, the score moves by less than the margin.",
    ]


def test_interventions_are_held_against_each_other():
    ranks = {"8": 8.0, "16": 16.0, "32": 32.0}
    interventions = {
        "head size": planted_intervention(ranks, [0.04, 0.05, 0.06]),
        "score scale": planted_intervention(ranks, [-0.05, -0.04, -0.04]),
    }
    one, other = rank_effects(interventions, LIKELIHOOD)
    differ, agree = slope_difference(one, other), slope_difference(one, one)
    assert differ is not None
    assert agree is not None
    assert describe_slope_difference(differ).endswith("so rank alone does not explain the effect.")
    assert describe_slope_difference(agree).endswith("No difference between the slopes is shown.")


def test_observed_ranks_are_described_without_a_verdict():
    text = describe_observed_ranks({"causal": [10.0, 12.0], "full": [20.0]})
    assert text.startswith(
        'Effective rank of attention: "causal" 11 (10 to 12, 2 runs); "full" 20 (20 to 20, 1 run).'
    )
    assert text.endswith(OBSERVED_NOTE)
