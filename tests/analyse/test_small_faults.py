"""Faults of one line that a verdict does not show at a glance: for each, a case by hand that does show it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from crossed_study import crossed
from paribus.analyse import Verdict, always_valid_t, compare, early_order, findings, judged
from paribus.analyse.verdict import MORE
from paribus.record import Study, answers_path, evaluations, write_answers
from shorter_runs import with_curved_lengths
from small_study import GAINS, MANY, SEEDS, at_a_look, made

BY_HAND = (0.8, 1.1, 0.9, 1.4, 1.2)  # outer interval 0.7836 to 1.3764, inner 0.8524 to 1.3076


@pytest.mark.parametrize(("margin", "detail"), [(0.75, MORE), (0.8, ""), (0.84, ""), (0.9, "")])
@pytest.mark.parametrize(("sign", "word"), [(1, "better"), (-1, "worse")])
def test_by_more_than_the_margin_needs_the_outer_interval(margin: float, detail: str, sign: int, word: str) -> None:
    found = compare([sign * gain for gain in BY_HAND], margin=margin)
    assert found.verdict == Verdict(word, detail)


def test_one_half_of_the_seeds_is_set_against_the_other() -> None:
    """Three seeds gain and three lose, to the end: no half agrees with the other, and every half with itself."""
    level = {seed: {1: 3.0, 2: 3.0} for seed in range(6)}
    split = {seed: {1: 3.0 - gain, 2: 3.0 - gain} for seed, gain in enumerate((1, 1, 1, -1, -1, -1))}
    arms = {"base": level, "split": split, "third": level, "fourth": level}
    found = early_order(arms, "base", lower_is_better=True, decided=["split"])
    assert found.agreement == {1: 0.0, 2: 0.0}


def test_mcnemar_counts_seeds_that_failed_in_one_arm_alone() -> None:
    """The baseline failed in seeds 1 and 2, the arm in 2 to 5: alone 1 against 3, so p = 2 · (1 + 4) / 16."""
    baseline = {seed: None if seed in (1, 2) else 2.0 + 0.01 * seed for seed in range(1, 13)}
    arm = {seed: None if seed in (2, 3, 4, 5) else 2.0 + 0.02 * seed for seed in range(1, 13)}
    assert judged(baseline, arm, lower_is_better=True).mcnemar == pytest.approx(0.625)
    assert judged(arm, baseline, lower_is_better=True).mcnemar == pytest.approx(0.625)
    both = {seed: None if seed < 4 else 2.0 + 0.01 * seed for seed in range(1, 13)}
    assert judged(both, {**both, 12: 2.5}, lower_is_better=True).mcnemar is None


def with_looks(study: Study, looks: dict[str, float]) -> Study:
    plan = study.plan()
    plan["design"]["looks"] = looks
    study.write_plan(plan)
    return study


def test_the_last_look_that_is_done_is_read_with_its_own_share(tmp_path: Path) -> None:
    found = findings(with_looks(made(tmp_path), {"3": 0.01, "4": 0.04}))
    assert (found.seeds, found.share) == (SEEDS, 0.04)
    own = found.arm("prefix").judgement.comparison
    assert own is not None
    assert (own.n, own.level) == (4, pytest.approx(1 - 0.04 / found.n_comparisons))


def several_items_a_document(study: Study) -> None:
    """Answers on disk of twelve items: eleven documents, the first of which has two of them."""
    for cell in study.cells():
        found = next(iter(evaluations(study.root / cell.run)))
        answers = [replace(one, document="document0" if one.item == "item1" else one.document) for one in found.answers]
        path = answers_path(study.root / cell.run, found.head.yardstick, found.head.items)
        write_answers(path, replace(found, answers=tuple(answers)))


def test_items_of_one_document_are_one_document(tmp_path: Path) -> None:
    study = made(tmp_path)
    several_items_a_document(study)
    text = findings(study).arm("prefix").other_text
    assert text is not None
    assert text.interval is not None
    assert text.interval.n_items == 11


def gains_of(study: Study, weights: dict[str, float]) -> np.ndarray:
    table = findings(study).table
    scores = {(row["arm"], row["seed"]): row["halves.test"] for row in table if row["purpose"] == "reported"}
    return np.array([-sum(weight * scores[arm, seed] for arm, weight in weights.items()) for seed in SEEDS])


def contrasting(study: Study) -> Study:
    plan = study.plan()
    plan["design"]["contrasts"] = {"gap": {"prefix": 1.0, "causal": -0.5, "input hidden": -0.5}}
    study.write_plan(plan)
    return study


@pytest.mark.parametrize("kind", ["written", "default"])
def test_contrasts_are_read_at_the_share_of_the_look(tmp_path: Path, kind: str) -> None:
    study = contrasting(made(tmp_path)) if kind == "written" else crossed(tmp_path, contrasts="default")
    found = findings(with_looks(study, {"3": 0.01, "4": 0.04}))
    for one in found.contrasts:
        assert one.comparison is not None
        gains = gains_of(study, dict(one.weights))
        level = 1 - 0.04 / found.n_comparisons
        ends = stats.t.interval(level, 3, gains.mean(), stats.sem(gains))
        assert (one.comparison.low, one.comparison.high) == pytest.approx(ends, abs=1e-12)


@pytest.mark.parametrize("kind", ["written", "default"])
def test_contrasts_of_an_open_number_have_its_bound(tmp_path: Path, kind: str) -> None:
    study = contrasting(made(tmp_path)) if kind == "written" else crossed(tmp_path, contrasts="default")
    plan = study.plan()
    plan["design"]["seeds"] = "open"
    study.write_plan(plan)
    found = findings(study)
    assert found.contrasts
    for one in found.contrasts:
        assert one.comparison is not None
        gains = gains_of(study, dict(one.weights))
        half = always_valid_t(4, 0.05 / found.n_comparisons) * stats.sem(gains)
        ends = (gains.mean() - half, gains.mean() + half)
        assert (one.comparison.low, one.comparison.high) == pytest.approx(ends, abs=1e-12)


def test_the_family_keeps_its_size_where_an_arm_failed_in_every_seed(tmp_path: Path) -> None:
    whole = findings(made(tmp_path / "whole", gains=MANY))
    failed = findings(made(tmp_path / "failed", gains=MANY, failed=[("prefix", seed) for seed in SEEDS]))
    assert failed.n_comparisons == whole.n_comparisons
    for name in set(MANY) - {"prefix", *list(GAINS)[:1]}:
        assert failed.arm(name).judgement.comparison == whole.arm(name).judgement.comparison


def test_the_first_look_is_read_while_the_last_is_open(tmp_path: Path) -> None:
    found = findings(at_a_look(tmp_path))
    assert (found.seeds, found.share) == (SEEDS[:3], 0.01)


def test_a_margin_in_compute_comes_from_the_arm_a_pair_is_judged_against(tmp_path: Path) -> None:
    """Half length costs causal 0.15 bits per byte and prefix 0.30: its margin is twice as wide."""
    study = with_curved_lengths(made(tmp_path), ["causal", "prefix"])
    plan = study.plan()
    plan["design"]["comparisons"] = [["prefix", "causal"], ["input hidden", "prefix"]]
    study.write_plan(plan)
    found = findings(study)
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
