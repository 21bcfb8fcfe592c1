"""Contrasts of a study: one family with the pairs, the interaction always there, and why where
it cannot be given.
"""

from pathlib import Path

import numpy as np
import pytest
from factorial_study import (
    FACTORIAL_GAINS,
    INTERACTION,
    MAIN_EFFECTS,
    OPPOSITE_GAINS,
    make_factorial_study,
)
from handmade_study import MANY_ARMS, SEEDS, make_study, make_study_at_look
from measures import measure_in
from undertrained_answers import below_unigrams

from paribus.analyse import compare, factorial_effects, study_findings, study_rows, study_verdicts
from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.criterion import Criterion
from paribus.record import Study


def by_name(study: Study) -> dict[str, ContrastFinding]:
    return {one.name: one for one in study_findings(study).contrasts}


def gains_by_hand(study: Study, weights: dict[str, float]) -> list[float]:
    scores = {(row["arm"], row["seed"]): row["halves.test"] for row in study_rows(study)}
    return [-sum(weight * scores[arm, seed] for arm, weight in weights.items()) for seed in SEEDS]


def test_a_two_by_two_that_declares_none_has_its_interaction_first_and_no_word(
    tmp_path: Path,
) -> None:
    study = make_factorial_study(tmp_path)
    found = study_findings(study)
    assert [one.name for one in found.contrasts] == [INTERACTION, *MAIN_EFFECTS]
    assert [one.word for one in found.contrasts] == [None] * 3
    assert found.n_comparisons == 3
    weights = {"causal": 1.0, "prefix": -1.0, "causal+far": -1.0, "prefix+far": 1.0}
    assert found.contrasts[0].weights == weights
    by_hand = compare(gains_by_hand(study, weights), Criterion(margin=0.02, n_comparisons=3))
    made_of = found.contrasts[0].comparison
    assert made_of is not None
    assert (made_of.effect, made_of.low, made_of.high) == (
        by_hand.effect,
        by_hand.low,
        by_hand.high,
    )
    assert found.factorial is not None
    assert found.factorial.contrasts["interaction"].effect == made_of.effect
    assert found.contrasts[0].description.endswith(
        "4 seeds; the design does not declare it, so it gets no verdict."
    )


def test_default_contrasts_share_one_family_with_the_pairs(tmp_path: Path) -> None:
    found = study_findings(make_factorial_study(tmp_path, contrasts="default"))
    assert found.n_comparisons == 6
    assert [one.word for one in found.contrasts] == ["better"] * 3
    made_of = [one.comparison for one in found.contrasts] + [
        arm.judgement.comparison for arm in found.arms
    ]
    assert {one.n_comparisons for one in made_of if one is not None} == {6}
    assert [one.level for one in made_of if one is not None] == [pytest.approx(1 - 0.05 / 6)] * 6


def test_written_contrasts_are_judged_with_the_pairs_and_their_weights(tmp_path: Path) -> None:
    weights = {"long-window+near": 1.0, "prefix": -0.5, "causal": -0.5}
    study = make_study(tmp_path, gains=MANY_ARMS)
    plan = study.read_plan()
    plan["design"]["contrasts"] = {"far sight": weights}
    study.write_plan(plan)
    found = study_findings(study)
    assert found.n_comparisons == 5
    (one,) = found.contrasts
    by_hand = compare(gains_by_hand(study, weights), Criterion(margin=0.02, n_comparisons=5))
    assert one.comparison is not None
    assert (one.comparison.effect, one.comparison.low) == (
        pytest.approx(by_hand.effect),
        pytest.approx(by_hand.low),
    )
    assert one.word == by_hand.verdict.word == "better"
    assert {
        arm.judgement.comparison.n_comparisons for arm in found.arms if arm.judgement.comparison
    } == {5}


def test_written_contrasts_of_a_two_by_two_stand_after_its_interaction(tmp_path: Path) -> None:
    found = by_name(
        make_factorial_study(tmp_path, contrasts={"far": {"prefix+far": 1.0, "causal+far": -1.0}})
    )
    assert list(found) == [INTERACTION, *MAIN_EFFECTS, "far"]
    assert [one.word is None for one in found.values()] == [True, True, True, False]
    assert found["far"].comparison is not None
    assert found["far"].comparison.n_comparisons == 4


@pytest.mark.parametrize("contrasts", [None, "default"])
def test_with_a_failed_cell_the_interaction_says_why_it_cannot_be_given(
    tmp_path: Path, contrasts: str | None
) -> None:
    study = make_factorial_study(tmp_path, failed=(("prefix+far", 2),), contrasts=contrasts)
    found = study_findings(study)
    assert [one.name for one in found.contrasts] == [INTERACTION, *MAIN_EFFECTS]
    assert {one.reason for one in found.contrasts} == {"prefix+far did not train in 1 of 4 seeds"}
    assert found.contrasts[0].description == (
        f"{INTERACTION} cannot be given: prefix+far did not train in 1 of 4 seeds."
    )
    assert found.n_comparisons == (3 if contrasts is None else 6)
    assert {
        arm.judgement.comparison.n_comparisons for arm in found.arms if arm.judgement.comparison
    } == {found.n_comparisons}


def test_a_cell_that_was_not_trained_long_enough_is_told_as_such(tmp_path: Path) -> None:
    study = make_factorial_study(tmp_path)
    below_unigrams(study, "prefix", 1, 2)
    assert (
        study_findings(study).contrasts[0].reason
        == "prefix was not trained long enough in 2 of 4 seeds"
    )
    below_unigrams(study, "causal", 1, 2)
    below_unigrams(study, "causal+far", 3)
    assert study_findings(study).contrasts[0].reason == (
        "causal and prefix were each not trained long enough in 2 of 4 seeds; "
        "causal+far was not trained long enough in 1 of 4 seeds"
    )


def test_a_written_contrast_without_the_failed_arm_is_given(tmp_path: Path) -> None:
    weights = {
        "near": {"prefix": 1.0, "causal": -1.0},
        "far": {"prefix+far": 1.0, "causal+far": -1.0},
    }
    found = by_name(make_factorial_study(tmp_path, failed=(("prefix+far", 2),), contrasts=weights))
    assert found["near"].word is not None
    assert found["far"].word is None
    assert found["far"].reason == "prefix+far did not train in 1 of 4 seeds"


def test_small_weights_do_not_make_a_difference_equivalent(tmp_path: Path) -> None:
    found = by_name(
        make_factorial_study(tmp_path, contrasts={"small": {"prefix": 0.001, "causal": -0.001}})
    )["small"]
    assert found.comparison is not None
    assert found.comparison.margin == pytest.approx(0.02 * 0.001)
    assert found.word == "better"


def test_a_look_and_an_open_number_reach_the_contrasts(tmp_path: Path) -> None:
    study = make_study_at_look(tmp_path / "look")
    plan = study.read_plan()
    plan["design"]["contrasts"] = {"gap": {"prefix": 1.0, "input hidden": -1.0}}
    study.write_plan(plan)
    looked = study_findings(study).contrasts[0].comparison
    assert looked is not None
    assert (looked.n, looked.level) == (3, pytest.approx(1 - 0.01 / 3))
    opened = by_name(make_factorial_study(tmp_path / "open", contrasts="default", seeds="open"))[
        INTERACTION
    ].comparison
    fixed = by_name(make_factorial_study(tmp_path / "fixed", contrasts="default"))[
        INTERACTION
    ].comparison
    assert opened is not None
    assert fixed is not None
    assert opened.high - opened.low > fixed.high - fixed.low


@pytest.mark.parametrize("contrasts", [None, "default"])
def test_a_main_effect_that_turns_gives_way_to_simple_effects_without_a_word(
    tmp_path: Path, contrasts: str | None
) -> None:
    found = by_name(make_factorial_study(tmp_path, gains=OPPOSITE_GAINS, contrasts=contrasts))
    turned = found[MAIN_EFFECTS[1]]
    assert (turned.word, turned.comparison) == (None, None)
    assert [place for place, _ in turned.simple_effects] == ["at mask causal", "at mask prefix"]
    effects = [made.effect for _, made in turned.simple_effects]
    assert effects == [pytest.approx(-0.05, abs=0.01), pytest.approx(0.3, abs=0.01)]
    assert (
        "cannot be given: it turns with mask, so its mean over the levels of mask describes neither"
        in turned.description
    )
    assert "better" not in turned.description
    assert (found[INTERACTION].word, found[MAIN_EFFECTS[0]].word) == (
        (None, None) if contrasts is None else ("better",) * 2
    )


def test_verdicts_have_a_row_for_each_contrast(tmp_path: Path) -> None:
    table = study_verdicts(make_factorial_study(tmp_path, contrasts="default"))
    assert [row["arm"] for row in table] == [*list(FACTORIAL_GAINS)[1:], None, None, None]
    assert [row["contrast"] for row in table] == [None] * 3 + [INTERACTION, *MAIN_EFFECTS]
    last = table[3]
    assert (last["verdict"], last["seeds"]) == ("better", 4)
    assert last["low"] < last["gain"] < last["high"]
    assert [row["verdict"] for row in study_verdicts(make_factorial_study(tmp_path / "b"))][3:] == [
        None
    ] * 3


def test_a_two_by_two_without_any_effect_gets_false_words_in_one_family_only() -> None:
    """Pairs and default contrasts together: any false word in at most 6.4 % of studies."""
    rng, n_false, n_draws = np.random.default_rng(5), 0, 400
    for _ in range(n_draws):
        scores = rng.normal(size=(4, 5)) + rng.normal(size=5)
        cells = {
            cell: dict(enumerate(row))
            for cell, row in zip(((0, 0), (0, 1), (1, 0), (1, 1)), scores, strict=True)
        }
        found = factorial_effects(
            cells,
            measure=measure_in("bits", lower_is_better=True),
            criterion=Criterion(n_comparisons=6),
        )
        pairs = [
            compare(list(scores[0] - scores[place]), Criterion(n_comparisons=6))
            for place in (1, 2, 3)
        ]
        words = {one.verdict.word for one in (*found.contrasts.values(), *pairs)}
        n_false += bool(words & {"better", "worse"})
    assert n_false / n_draws <= 0.064
