"""Faults of one line that a verdict does not show at a glance: for each, a case by hand that
does show it.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from extra_runs import add_curved_lengths
from factorial_study import make_factorial_study
from handmade_study import GAINS, MANY_ARMS, SEEDS, make_study, make_study_at_look
from measures import LOWER
from scipy import stats

from paribus.analyse import Verdict, always_valid_t, compare, early_order, judge_arm, study_findings
from paribus.analyse.criterion import Criterion
from paribus.analyse.verdict import MORE_THAN_MARGIN
from paribus.record import Study, evaluation_path, read_evaluations, write_evaluation

BY_HAND = (0.8, 1.1, 0.9, 1.4, 1.2)  # outer interval 0.7836 to 1.3764, inner 0.8524 to 1.3076


@pytest.mark.parametrize(
    ("margin", "detail"), [(0.75, MORE_THAN_MARGIN), (0.8, ""), (0.84, ""), (0.9, "")]
)
@pytest.mark.parametrize(("sign", "word"), [(1, "better"), (-1, "worse")])
def test_by_more_than_the_margin_needs_the_outer_interval(
    margin: float, detail: str, sign: int, word: str
) -> None:
    found = compare([sign * gain for gain in BY_HAND], Criterion(margin=margin))
    assert found.verdict == Verdict(word, detail)


def test_one_half_of_the_seeds_is_set_against_the_other() -> None:
    """Three seeds gain and three lose, to the end: no half agrees with the other, and every
    half with itself.
    """
    level = {seed: {1: 3.0, 2: 3.0} for seed in range(6)}
    split = {
        seed: {1: 3.0 - gain, 2: 3.0 - gain} for seed, gain in enumerate((1, 1, 1, -1, -1, -1))
    }
    arms = {"base": level, "split": split, "third": level, "fourth": level}
    found = early_order(arms, "base", measure=LOWER, decided_arms=["split"])
    assert found.agreement == {1: 0.0, 2: 0.0}


def test_mcnemar_counts_seeds_that_failed_in_one_arm_alone() -> None:
    """The baseline failed in seeds 1 and 2, the arm in 2 to 5: alone 1 against 3, so p = 2 · (1
    + 4) / 16.
    """
    baseline = {seed: None if seed in (1, 2) else 2.0 + 0.01 * seed for seed in range(1, 13)}
    arm = {seed: None if seed in (2, 3, 4, 5) else 2.0 + 0.02 * seed for seed in range(1, 13)}
    assert judge_arm(baseline, arm, measure=LOWER).mcnemar == pytest.approx(0.625)
    assert judge_arm(arm, baseline, measure=LOWER).mcnemar == pytest.approx(0.625)
    both = {seed: None if seed < 4 else 2.0 + 0.01 * seed for seed in range(1, 13)}
    assert judge_arm(both, {**both, 12: 2.5}, measure=LOWER).mcnemar is None


def with_looks(study: Study, looks: dict[str, float]) -> Study:
    plan = study.read_plan()
    plan["design"]["looks"] = looks
    study.write_plan(plan)
    return study


def test_the_last_look_that_is_done_is_read_with_its_own_share(tmp_path: Path) -> None:
    found = study_findings(with_looks(make_study(tmp_path), {"3": 0.01, "4": 0.04}))
    assert (found.seeds, found.family_alpha) == (SEEDS, 0.04)
    own = found.arm("prefix").judgement.comparison
    assert own is not None
    assert (own.n, own.level) == (4, pytest.approx(1 - 0.04 / found.n_comparisons))


def several_items_a_document(study: Study) -> None:
    """Answers on disk of twelve items: eleven documents, the first of which has two of them."""
    for cell in study.read_cells():
        found = next(iter(read_evaluations(study.root / cell.run)))
        answers = [
            replace(one, document="document0" if one.item == "item1" else one.document)
            for one in found.answers
        ]
        path = evaluation_path(study.root / cell.run, found.head.yardstick, found.head.items)
        write_evaluation(path, replace(found, answers=tuple(answers)))


def test_items_of_one_document_are_one_document(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    several_items_a_document(study)
    text = study_findings(study).arm("prefix").new_documents
    assert text is not None
    assert text.interval is not None
    assert text.interval.n_items == 11


def gains_of(study: Study, weights: dict[str, float]) -> np.ndarray:
    table = study_findings(study).table
    scores = {
        (row["arm"], row["seed"]): row["halves.test"]
        for row in table
        if row["purpose"] == "reported"
    }
    return np.array(
        [-sum(weight * scores[arm, seed] for arm, weight in weights.items()) for seed in SEEDS]
    )


def contrasting(study: Study) -> Study:
    plan = study.read_plan()
    plan["design"]["contrasts"] = {"gap": {"prefix": 1.0, "causal": -0.5, "input hidden": -0.5}}
    study.write_plan(plan)
    return study


@pytest.mark.parametrize("kind", ["written", "default"])
def test_contrasts_are_read_at_the_share_of_the_look(tmp_path: Path, kind: str) -> None:
    study = (
        contrasting(make_study(tmp_path))
        if kind == "written"
        else make_factorial_study(tmp_path, contrasts="default")
    )
    found = study_findings(with_looks(study, {"3": 0.01, "4": 0.04}))
    for one in found.contrasts:
        assert one.comparison is not None
        gains = gains_of(study, dict(one.weights))
        level = 1 - 0.04 / found.n_comparisons
        ends = stats.t.interval(level, 3, gains.mean(), stats.sem(gains))
        assert (one.comparison.low, one.comparison.high) == pytest.approx(ends, abs=1e-12)


@pytest.mark.parametrize("kind", ["written", "default"])
def test_contrasts_of_an_open_number_have_its_bound(tmp_path: Path, kind: str) -> None:
    study = (
        contrasting(make_study(tmp_path))
        if kind == "written"
        else make_factorial_study(tmp_path, contrasts="default")
    )
    plan = study.read_plan()
    plan["design"]["seeds"] = "open"
    study.write_plan(plan)
    found = study_findings(study)
    assert found.contrasts
    for one in found.contrasts:
        assert one.comparison is not None
        gains = gains_of(study, dict(one.weights))
        half = always_valid_t(4, 0.05 / found.n_comparisons) * stats.sem(gains)
        ends = (gains.mean() - half, gains.mean() + half)
        assert (one.comparison.low, one.comparison.high) == pytest.approx(ends, abs=1e-12)


def test_the_family_keeps_its_size_where_an_arm_failed_in_every_seed(tmp_path: Path) -> None:
    whole = study_findings(make_study(tmp_path / "whole", gains=MANY_ARMS))
    failed = study_findings(
        make_study(
            tmp_path / "failed", gains=MANY_ARMS, failed=[("prefix", seed) for seed in SEEDS]
        )
    )
    assert failed.n_comparisons == whole.n_comparisons
    for name in set(MANY_ARMS) - {"prefix", *list(GAINS)[:1]}:
        assert failed.arm(name).judgement.comparison == whole.arm(name).judgement.comparison


def test_the_first_look_is_read_while_the_last_is_open(tmp_path: Path) -> None:
    found = study_findings(make_study_at_look(tmp_path))
    assert (found.seeds, found.family_alpha) == (SEEDS[:3], 0.01)


def test_a_margin_in_compute_comes_from_the_arm_a_pair_is_judged_against(tmp_path: Path) -> None:
    """Half length costs causal 0.15 bits per byte and prefix 0.30: its margin is twice as wide."""
    study = add_curved_lengths(make_study(tmp_path), ["causal", "prefix"])
    plan = study.read_plan()
    plan["design"]["comparisons"] = [["prefix", "causal"], ["input hidden", "prefix"]]
    study.write_plan(plan)
    found = study_findings(study)
    margins = {}
    for arm in found.arms:
        own = arm.judgement.comparison
        assert own is not None
        assert own.margin is not None
        margins[arm.against] = own.margin
    assert margins["prefix"] == pytest.approx(2 * margins["causal"], rel=0.02)
    half, quarter = 0.15 / np.log(2), 0.25 / np.log(15 / 8)
    bend = (quarter - half) / np.log(30 / 8)
    assert margins["causal"] == pytest.approx(np.log(1.1) * (half - bend * np.log(2)), rel=0.05)
