"""Studies that get arms called equal which are not: a control that was not trained, a margin as
wide as what was learnt, runs that did not learn. As rows, each beside an honest twin.
"""

from math import log

import numpy as np
import pytest
from handmade_study import N_STEPS
from planted_rows import (
    ARM,
    BASELINE,
    CONTROL,
    UNIGRAM,
    Margin,
    Planted,
    judge_planted,
    planted_plan,
    planted_rows,
)

from paribus.analyse import column_of
from paribus.analyse.study_findings import judge_table
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord

NOISE = np.array([0.0, 0.01, -0.01, 0.005, -0.005])


def runs(mean: float, turn: int = 0) -> list[float]:
    return (mean + np.roll(NOISE, turn)).tolist()


def study(arm: list[float], control: list[float]) -> Planted:
    return {BASELINE: runs(2.0), ARM: arm, CONTROL: control}


NEAR = runs(2.01, 1)  # as good as the baseline
FAR = runs(2.4, 1)  # half as bad as hiding the input
BLIND = runs(2.8, 2)
UNTRAINED = runs(8.0, 2)
BARELY_TRAINED = runs(UNIGRAM - 0.02, 2)  # a rate just large enough to beat the unigram model
ONE_UNTRAINED = [*BLIND[:4], 8.0]
HALF_STUCK = [2.0, 2.01, 2.9, 2.91, 2.01]
REAL = "25 % of control"

SLY = [
    # the control is sabotaged, so that all of its loss is the margin
    (
        "100 % of control",
        study(FAR, UNTRAINED),
        "did not work: 5 of its 5 runs learnt",
    ),
    (REAL, study(FAR, UNTRAINED), "did not work: 5 of its 5 runs learnt"),
    (REAL, study(FAR, ONE_UNTRAINED), "did not work: 1 of its 5 runs learnt"),
    (REAL, study(FAR, BARELY_TRAINED), "more than a tenth of what the baseline gained"),
    # the margin is a number that the sabotaged control no longer shows to be large
    (0.25, study(runs(2.2, 1), UNTRAINED), "the control input hidden did not work"),
    # the margin is as wide as the control, or as what was learnt
    (
        "100 % of control",
        study(FAR, BLIND),
        "more than half of what the control input hidden loses",
    ),
    (0.5, study(FAR, BLIND), "more than half of what the control input hidden loses"),
    (0.6, study(FAR, runs(4.0, 2)), "more than a tenth of what the baseline gained"),
]


@pytest.mark.parametrize(("margin", "scores", "said"), SLY)
def test_a_margin_that_is_no_small_difference_calls_nothing_equal(
    margin: Margin, scores: Planted, said: str
) -> None:
    for test in ("two-sided", "not worse"):
        plan = _with_test(planted_plan(5, margin), test)
        judged = judge_planted(plan, scores)
        verdict = judged.verdicts.pairs[ARM, BASELINE].verdict
        assert (verdict.word, verdict.detail) == ("worse", "")
        assert said in judged.margins.description


@pytest.mark.parametrize(
    ("margin", "control"), [(REAL, 2.8), ("50 % of control", 2.5), (0.1, 2.5), (0.29, 2.8)]
)
def test_an_honest_margin_beside_a_trained_control_calls_near_arms_equal(
    margin: Margin, control: float
) -> None:
    plan, scores = planted_plan(5, margin), study(NEAR, runs(control, 2))
    judged = judge_planted(plan, scores)
    assert judged.verdicts.pairs[ARM, BASELINE].verdict.word == "equivalent"
    one_sided = judge_planted(_with_test(plan, "not worse"), scores)
    assert one_sided.verdicts.pairs[ARM, BASELINE].verdict.word == "not worse"


@pytest.mark.parametrize(("slope", "word"), [(3.2, "worse"), (1.5, "equivalent")])
def test_a_margin_in_compute_that_is_a_tenth_of_all_that_was_learnt_is_none(
    slope: float, word: str
) -> None:
    plan = planted_plan(5, "10 % compute")
    lengths = plan.design.model_copy(update={"lengths": [0.25, 0.5, 1.0]})
    plan = plan.model_copy(update={"design": lengths})
    scores = study(runs(2.25, 1) if word == "worse" else NEAR, BLIND)
    rows, column = planted_rows(plan, scores), column_of(plan.design.primary.measure.table)
    for row in list(rows):
        row["tokens_read"] = 512 * N_STEPS
        for n_steps in (8, 15):
            score = row[column] + slope * log(N_STEPS / n_steps)
            more = {"purpose": "length", "n_steps": n_steps, "tokens_read": 512 * n_steps}
            rows.append({**row, **more, column: score})
    judged = judge_table(plan, rows, plan.design.declared_seeds)
    assert judged.verdicts.pairs[ARM, BASELINE].verdict.word == word
    assert bool(judged.margins.refusal) == (word == "worse")


def test_runs_on_a_plateau_are_not_hidden_in_a_mean() -> None:
    stuck = judge_planted(planted_plan(5, REAL), study(HALF_STUCK, BLIND))
    found = stuck.verdicts.pairs[ARM, BASELINE]
    assert (found.verdict.word, found.comparison) == ("bimodal", None)
    assert "3 of 5 runs of prefix learnt, 5 of 5 runs of causal learnt" in found.description
    # its twins: an arm that is worse in every seed, and one that scatters as far without a gap
    worse = judge_planted(planted_plan(5, REAL), study(runs(2.9, 1), BLIND))
    assert worse.verdicts.pairs[ARM, BASELINE].verdict.word == "worse"
    wide = judge_planted(planted_plan(5, REAL), study([1.75, 2.6, 2.0, 2.4, 2.2], BLIND))
    assert wide.verdicts.pairs[ARM, BASELINE].verdict.word == "inconclusive"


def test_runs_that_diverged_beside_heaps_are_not_dropped() -> None:
    lost: list[float | None] = [2.0, 2.01, 2.9, 2.91, None]
    found = judge_planted(planted_plan(5, REAL), {**study([], BLIND), ARM: lost})
    verdict = found.verdicts.pairs[ARM, BASELINE].verdict
    assert verdict.word == "unstable"
    assert "bimodal: 2 of 5 runs of prefix learnt" in verdict.detail


def _with_test(plan: PlanRecord, test: str) -> PlanRecord:
    primary = plan.design.primary.model_copy(update={"test": test})
    return plan.model_copy(update={"design": plan.design.model_copy(update={"primary": primary})})


def test_a_share_of_the_control_without_one_is_still_refused(plan_design) -> None:
    arms = """
    factor = "architecture.mask"
    [arms.plain]
    [arms.prefix]
    architecture.mask = "prefix"
    """
    margin = 'primary = { margin = "25 % of control" }\n'
    with pytest.raises(SpecError, match="and the design has no control"):
        plan_design(margin + arms)
    blind = '[arms.blind]\narchitecture.mask = "causal & same_side"\n'
    plan_design('control = "blind"\n' + margin + arms + blind)
