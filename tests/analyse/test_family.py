"""T24: one family a report. A 2 × 2 in which nothing differs says something false in at most
6.4 % of reports.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factorial_study import INTERACTION, MAIN_EFFECTS, OPPOSITE_GAINS, make_factorial_study
from handmade_study import plan_of_arms
from measures import LOWER
from noise_draws import N_DRAWS

from paribus.analyse import compare, judge_family, study_findings, study_verdicts
from paribus.analyse.contrasts import contrast_findings, plan_factorial
from paribus.analyse.criterion import Criterion
from paribus.analyse.interval import interval
from paribus.analyse.judgement import Scores
from paribus.analyse.plan_family import plan_family, plan_family_size
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord
from paribus.report.contrasts import contrast_texts
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data

ARMS = {"a+c": ("a", "c"), "a+d": ("a", "d"), "b+c": ("b", "c"), "b+d": ("b", "d")}
PAIRS = [["a+d", "a+c"], ["b+c", "a+c"], ["b+d", "a+c"]]
FALSE = ("better", "worse")
N_REAL = 150  # of the reports that are also judged one by one


def plan_for(**design: Any) -> PlanRecord:
    """A plan of two factors of two levels."""
    levels = {arm: dict(zip("pq", own, strict=True)) for arm, own in ARMS.items()}
    return plan_of_arms(
        levels, **{"comparisons": None, "contrasts": None, "control": None, **design}
    )


def report_words(plan: PlanRecord, scores: dict[str, Scores]) -> list[str]:
    """Every word of a report on these scores."""
    n_family, baseline = plan_family_size(plan), plan.baseline
    pairs, _ = plan_family(plan)
    judged = {}
    if pairs:
        judged = judge_family(
            scores,
            baseline,
            measure=LOWER,
            comparisons=pairs,
            criterion=Criterion(n_comparisons=n_family),
        )
    own = Criterion(n_comparisons=n_family)
    factorial = plan_factorial(plan, scores, {}, own)
    found = contrast_findings(plan, scores, {}, own, factorial)
    return [one.verdict.word for one in judged.values()] + [
        one.word for one in found if one.word is not None
    ]


def has_false_word(plan: PlanRecord, draws: np.ndarray) -> np.ndarray:
    """Whether any interval of the family, at the family's level, leaves zero out: reports along
    the first axis.
    """
    pairs, declared = plan_family(plan)
    weights = [{name: 1.0, against: -1.0} for name, against in pairs] + list(declared.values())
    place = {arm: number for number, arm in enumerate(ARMS)}
    false = np.zeros(len(draws), dtype=bool)
    for own in weights:
        gains = -sum(weight * draws[:, place[arm]] for arm, weight in own.items())
        low, high = interval(gains, 1 - 0.05 / len(weights))
        false |= np.asarray(low > 0) | np.asarray(high < 0)
    return false


def null_draws(n: int) -> np.ndarray:
    """Scores of the four arms without any effect: reports by arms by seeds."""
    rng = np.random.default_rng(241 + n)
    return 10 * rng.normal(size=(N_DRAWS, 1, n)) + rng.normal(size=(N_DRAWS, 4, n))


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize(
    "design",
    [
        {},
        {"comparisons": PAIRS},
        {"comparisons": PAIRS, "contrasts": "default"},
        {"contrasts": "default"},
    ],
)
def test_a_two_by_two_without_effects_says_something_false_in_few_reports(
    design: dict[str, Any], n: int
) -> None:
    plan, draws = plan_for(**design), null_draws(n)
    false = has_false_word(plan, draws)
    assert 0.02 <= false.mean() <= 0.064
    for table, wanted in zip(draws[:N_REAL].tolist(), false, strict=False):
        scores: dict[str, Scores] = {
            arm: dict(enumerate(row)) for arm, row in zip(ARMS, table, strict=True)
        }
        words = report_words(plan, scores)
        # A main effect whose simple effects turn gives way to them, and they get no word: never one
        # more.
        assert any(word in FALSE for word in words) <= wanted
        assert len(words) <= plan_family_size(plan)


def test_two_families_of_five_percent_each_would_be_caught() -> None:
    """What the rule protects from: pairs and contrasts each at their own 5 %."""
    rng = np.random.default_rng(245)
    draws = rng.normal(size=(N_DRAWS, 4, 5))
    pairs = has_false_word(plan_for(comparisons=PAIRS), draws)
    both = pairs | has_false_word(plan_for(), draws)
    assert both.mean() > 0.064


@pytest.mark.parametrize(
    ("design", "n_pairs", "n_contrasts"),
    [
        ({}, 0, 3),
        ({"contrasts": "default"}, 0, 3),
        ({"contrasts": {"gap": {"a+d": 1.0, "b+d": -1.0}}}, 0, 1),
        ({"comparisons": PAIRS[:1]}, 1, 0),
        ({"comparisons": PAIRS[:2], "contrasts": "default"}, 2, 3),
    ],
)
def test_the_family_is_exactly_what_is_written(
    design: dict[str, Any], n_pairs: int, n_contrasts: int
) -> None:
    plan = plan_for(**design)
    pairs, declared = plan_family(plan)
    assert (len(pairs), len(declared)) == (n_pairs, n_contrasts)
    assert plan_family_size(plan) == n_pairs + n_contrasts


def test_arms_in_a_list_are_each_judged_but_for_the_control() -> None:
    levels = {name: {"arm": name} for name in ("base", "one", "two", "blind")}
    pairs = [["blind", "base"], ["one", "base"]]
    assert plan_family(plan_of_arms(levels, control="blind")) == (
        [("one", "base"), ("two", "base")],
        {},
    )
    named = plan_of_arms(levels, control="blind", comparisons=pairs)
    assert plan_family(named) == ([("blind", "base"), ("one", "base")], {})
    # the control is an arm like any other
    before = plan_of_arms(levels, edition=1, control="blind")
    assert plan_family(before)[0] == [("one", "base"), ("two", "base"), ("blind", "base")]


def second_edition(root: Path, **design: Any) -> Any:
    study = make_factorial_study(root, **design)
    study.write_plan({**study.read_plan(), "edition": 2})
    return study


def test_a_two_by_two_that_writes_nothing_is_reported_by_its_contrasts_alone(
    tmp_path: Path,
) -> None:
    study = second_edition(tmp_path)
    found = study_findings(study)
    assert found.arms == ()
    assert [(one.name, one.word) for one in found.contrasts] == [
        (name, "better") for name in (INTERACTION, *MAIN_EFFECTS)
    ]
    assert {
        one.comparison.n_comparisons for one in found.contrasts if one.comparison is not None
    } == {3}
    assert [row["verdict"] for row in study_verdicts(study)] == ["better"] * 3
    material = gather_report_data(study)
    assert [one.word for one in contrast_texts(material)] == ["better"] * 3
    for text in (render_page(material), markdown_report(material), latex_table(material)):
        assert INTERACTION in text.casefold()


def test_contrasts_outside_the_family_stand_first_and_get_no_word(tmp_path: Path) -> None:
    study = second_edition(tmp_path, contrasts={"far": {"prefix+far": 1.0, "causal+far": -1.0}})
    said = contrast_texts(gather_report_data(study))
    assert [(one.name, one.word) for one in said] == [
        (INTERACTION, ""),
        (MAIN_EFFECTS[0], ""),
        (MAIN_EFFECTS[1], ""),
        ("far", "better"),
    ]
    assert [
        one.comparison.n_comparisons
        for one in study_findings(study).contrasts
        if one.is_judged and one.comparison
    ] == [1]


def test_simple_effects_in_the_place_of_a_main_effect_get_no_word_anywhere(tmp_path: Path) -> None:
    study = second_edition(tmp_path, gains=OPPOSITE_GAINS)
    found = study_findings(study)
    turned = next(one for one in found.contrasts if one.name == MAIN_EFFECTS[1])
    assert turned.word is None
    assert found.factorial is not None
    told = found.factorial.description.split("no main effect")[1].partition("Effects add")[0]
    assert not any(word in told for word in ("better", "worse", "equivalent", "inconclusive"))


def test_written_pairs_of_a_two_by_two_are_its_whole_family(tmp_path: Path) -> None:
    study = second_edition(
        tmp_path, comparisons=[["prefix", "causal"], ["prefix+far", "causal+far"]]
    )
    found = study_findings(study)
    assert found.n_comparisons == 2
    made = found.arms[0].judgement.comparison
    assert made is not None
    assert made.level == pytest.approx(compare([1.0, 2.0, 3.0], Criterion(n_comparisons=2)).level)
    assert [one.word for one in found.contrasts] == [None] * 3


def test_a_family_of_fewer_than_three_seeds_is_refused() -> None:
    two = {"base": {1: 1.0, 2: 1.1}, "arm": {1: 0.8, 2: 0.7}, "other": {1: 0.9, 2: 1.2}}
    with pytest.raises(
        SpecError, match="seeds: 2 given, too few for a verdict; use 3 or more, 5 by default"
    ):
        judge_family(two, "base", measure=LOWER)
    three = {name: {**scores, 3: 1.0} for name, scores in two.items()}
    with pytest.raises(SpecError, match="seeds: 2 given, too few for a verdict"):
        judge_family(three, "base", measure=LOWER, criterion=Criterion(seeds=(1, 2)))
    with pytest.raises(SpecError, match="seeds: 0 given, too few for a verdict"):
        judge_family({"base": {}, "arm": {}}, "base", measure=LOWER)


def test_a_pair_with_fewer_than_three_seeds_that_trained_is_unstable() -> None:
    scores: dict[str, Scores] = {
        "base": {1: 1.0, 2: 1.1, 3: 1.2},
        "arm": {1: 0.8, 2: 0.7, 3: None},
        "other": {1: 0.8, 2: 0.7, 3: 0.9},
    }
    judgements = judge_family(scores, "base", measure=LOWER)
    judgement = judgements["arm", "base"]
    assert (judgement.verdict.word, judgement.comparison) == ("unstable", None)
    assert "fewer than 3 seeds trained in both" in str(judgement.verdict)
    comparison = judgements["other", "base"].comparison
    assert comparison is not None
    assert (comparison.n, comparison.n_comparisons) == (3, 2)  # the family is not shrunk
