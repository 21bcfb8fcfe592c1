"""Heaps: where some runs of an arm learn and others do not, no t is asked, and no other arm's word
changes.
"""

import csv
import io
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from handmade_study import plan_of_arms
from measures import LOWER
from planted_rows import (
    ARM,
    BASELINE,
    CONTROL,
    Planted,
    judge_planted,
    planted_judgement,
    planted_plan,
    planted_study,
)
from rich.console import Console

from paribus.analyse import study_findings, study_verdicts
from paribus.analyse.heaps import find_heaps, learnt_gain, seeds_that_see, unseen_share
from paribus.analyse.plan_verdicts import judge_plan
from paribus.analyse.verdict import Verdict
from paribus.cli.terminal.verdict_lines import print_verdicts
from paribus.record.plan import PlanRecord
from paribus.report.csv_tables import to_csv, verdict_rows
from paribus.report.latex import latex_table
from paribus.report.limits import limitations
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.trust import trust_checks

STEADY = [2.0, 2.01, 1.99, 2.02, 2.0]
HEAPED = [2.0, 2.01, 2.9, 2.92, 2.02]  # two runs on a plateau; the unigram model takes 5
CUT = [2.5, 2.52, 2.49, 2.5, 2.51]
STUDY: Planted = {BASELINE: STEADY, ARM: HEAPED, CONTROL: CUT}
WORDS = (
    "3 of 5 runs of prefix learnt, 5 of 5 runs of causal learnt (better than 2.46 bits per byte)"
)


def by_seed(*scores: float | None) -> dict[int, float | None]:
    return dict(enumerate(scores, 1))


def middles(learnt: float | None, **arms: dict[int, float | None]) -> dict[str, float]:
    return dict(find_heaps(arms, learnt, LOWER).middles)


def test_an_arm_is_split_at_its_largest_gap_beside_the_spread_of_all_arms() -> None:
    a, b = by_seed(2.0, 2.1, 3.0, 3.2), by_seed(2.0, 2.1, 2.2)
    # within sides: 0.005 + 0.02 of a, 0.02 of b, over 1 + 1 + 2 degrees of freedom
    spread = sqrt((0.005 + 0.02 + 0.02) / 4)
    assert 5 * spread < 0.9
    assert middles(5.0, a=a, b=b) == {"a": pytest.approx(2.55)}
    # a gap of 0.9 is no more than a tenth of 9, and less than five spreads of 0.19
    assert middles(9.0, a=a, b=b) == {}
    assert middles(5.0, a=a, b=by_seed(1.7, 2.1, 2.5)) == {}


def test_a_gap_below_a_tenth_of_what_was_learnt_splits_no_arm() -> None:
    tight = by_seed(2.0, 2.0001, 2.29, 2.2901)
    assert middles(2.8, a=tight) == {"a": pytest.approx((2.0001 + 2.29) / 2)}
    assert middles(2.9, a=tight) == {}


@pytest.mark.parametrize("learnt", [None, 0.0, -1.0])
def test_without_anything_learnt_there_is_no_statement(learnt: float | None) -> None:
    assert middles(learnt, a=by_seed(2.0, 2.0001, 2.9, 2.9001)) == {}


def test_arms_of_one_run_a_side_say_nothing_of_the_spread() -> None:
    assert middles(5.0, a=by_seed(2.0, 3.0, None)) == {}


def test_what_was_learnt_is_the_mean_gain_on_the_unigram_model_or_on_the_floor() -> None:
    rows = [
        {"outcome": "finished", "x": 2.0, "unigram": 5.0},
        {"outcome": "finished", "x": 3.0, "unigram": 5.0},
        {"outcome": "undertrained", "x": 6.0, "unigram": 5.0},
        {"outcome": "diverged", "x": None, "unigram": None},
    ]
    assert learnt_gain(rows, "x", LOWER) == 2.5
    assert learnt_gain(rows[2:], "x", LOWER) is None
    floored = [{"outcome": "finished", "x": 4.0, "unigram": None, "floor": 4.5}]
    assert learnt_gain(floored, "x", LOWER) == 0.5


def test_runs_that_diverged_have_not_learnt() -> None:
    heaps = find_heaps(
        {"a": by_seed(2.0, 2.01, 2.9, 2.92, None), "b": by_seed(2, 2, 2, 2, 2)}, 3, LOWER
    )
    verdict = heaps.verdict(["a", "b"])
    assert verdict is not None
    said = "2 of 5 runs of a learnt, 5 of 5 runs of b learnt (better than 2.455)"
    assert verdict.detail == said
    assert heaps.verdict(["b"]) is None


def test_two_arms_in_heaps_have_a_gap_each() -> None:
    heaps = find_heaps(
        {"a": by_seed(2.0, 2.01, 2.9, 2.92), "b": by_seed(2.0, 2.01, 2.02, 3.8)}, 3, LOWER
    )
    verdict = heaps.verdict(["a", "b"])
    assert verdict is not None
    assert verdict.detail == (
        "2 of 4 runs of a learnt (better than 2.455), 3 of 4 runs of b learnt (better than 2.91)"
    )


def test_a_pair_with_an_arm_in_heaps_is_bimodal_and_its_steady_twin_is_judged() -> None:
    found = planted_judgement(planted_plan(5, 0.2), STUDY)
    assert (found.verdict, found.comparison) == (Verdict("bimodal", WORDS), None)
    assert found.description == f"bimodal: {WORDS}."
    assert [one.gain for one in found.seeds][2] == pytest.approx(-0.91)
    steady = planted_judgement(planted_plan(5, 0.2), {**STUDY, ARM: [2.01, 2, 2.02, 2.01, 2]})
    assert steady.verdict.word == "equivalent"


def test_editions_before_the_fourth_know_no_heaps() -> None:
    found = planted_judgement(planted_plan(5, 0.2, edition=3), STUDY)
    assert (found.verdict.word, found.comparison is None) == ("inconclusive", False)


def test_heaps_of_the_control_change_no_word() -> None:
    lost = {**STUDY, ARM: STEADY[::-1], CONTROL: HEAPED}
    assert planted_judgement(planted_plan(5, 0.2), lost).verdict.word != "bimodal"


def test_an_arm_that_diverged_more_often_is_unstable_and_says_how_many_learnt() -> None:
    found = planted_judgement(planted_plan(5, 0.2), {**STUDY, ARM: [2.0, 2.01, 2.9, 2.92, None]})
    assert str(found.verdict) == (
        "unstable, the arm trained in 4 of 5; where both trained, bimodal: 2 of 5 runs of prefix"
        " learnt, 5 of 5 runs of causal learnt (better than 2.455 bits per byte)"
    )
    assert found.comparison is None


def test_a_run_that_was_too_short_comes_before_heaps() -> None:
    found = planted_judgement(planted_plan(5, 0.2), {**STUDY, ARM: [2.0, 2.01, 2.9, 2.92, 5.1]})
    assert found.verdict.word == "no verdict"


def _square() -> tuple[PlanRecord, dict[str, dict[str, str]]]:
    levels = {
        f"{mask}+{kind}": {"mask": mask, "kind": kind} for mask in ("a", "b") for kind in ("x", "y")
    }
    return plan_of_arms(
        levels,
        edition=4,
        baseline="a+x",
        control=None,
        contrasts={"gap": {"b+x": 1.0, "a+x": -1.0}},
        comparisons=[["b+y", "a+y"]],
        seeds=[1, 2, 3, 4, 5],
    ), levels


def test_contrasts_with_an_arm_in_heaps_are_bimodal_and_the_others_are_judged() -> None:
    plan, levels = _square()
    rng = np.random.default_rng(3)
    scores = {arm: (2 + 0.01 * rng.normal(size=5)).tolist() for arm in levels}
    scores["b+x"][0] = 2.9
    rows = []
    for arm in plan.order:
        for seed, score in enumerate(scores[arm], 1):
            row = {"arm": arm, "seed": seed, "purpose": "reported", "outcome": "finished"}
            rows.append({**row, "halves.test": score, "unigram": 5.0})
    margins = judge_planted(planted_plan(5, 0.02), STUDY).margins
    margins = type(margins)(dict.fromkeys(plan.order, 0.02), "")
    found = judge_plan(plan, rows, [1, 2, 3, 4, 5], margins, ())
    words = {one.name: one.word for one in found.contrasts}
    interaction = next(one for one in found.contrasts if "interaction" in one.name)
    # the interaction is not in the family: it has no word, and no interval either
    assert (words["gap"], interaction.word, interaction.comparison) == ("bimodal", None, None)
    gap = next(one for one in found.contrasts if one.name == "gap")
    assert gap.description.startswith("gap cannot be given: bimodal: 4 of 5 runs of b+x learnt, 5")
    assert found.factorial is None
    assert found.pairs["b+y", "a+y"].verdict.word not in ("bimodal", "no verdict")


@pytest.mark.parametrize(("n", "share"), [(3, 51), (5, 33), (8, 17)])
def test_a_state_of_one_run_in_five_is_often_not_seen(n: int, share: int) -> None:
    assert round(100 * unseen_share(n)) == share


def test_fourteen_seeds_show_a_state_of_one_run_in_five_in_95_percent_of_arms() -> None:
    n = seeds_that_see()
    assert n == 14
    assert unseen_share(n) <= 0.05 < unseen_share(n - 1)


def test_bimodal_stands_in_every_format(tmp_path: Path) -> None:
    study = planted_study(tmp_path, STUDY, 0.2)
    (arm,) = study_findings(study).arms
    assert arm.judgement.verdict == Verdict("bimodal", WORDS)
    assert (arm.new_documents, arm.multiplier) == (None, None)
    row = study_verdicts(study)[0]
    assert (row["verdict"], row["gain"], row["words"]) == ("bimodal", None, f"bimodal: {WORDS}.")
    report = gather_report_data(study)
    headline = (
        'No verdict on "prefix" against "causal", some runs learnt and some did not: ' + WORDS
    )
    terminal = Console(file=io.StringIO(), width=400)
    print_verdicts(report, terminal)
    assert f"bimodal  {headline}" in terminal.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    meaning = "A mean over runs that learnt and runs that did not describes neither"
    for text in (markdown_report(report), render_page(report).replace("&#34;", '"')):
        assert headline in text
        assert meaning in text
    assert f"prefix & 2.3700 & -- & -- & bimodal: {WORDS} " in latex_table(report)
    (told, _) = csv.DictReader(to_csv(verdict_rows(report)).splitlines())
    assert (told["verdict"], told["words"]) == ("bimodal", f"bimodal: {WORDS}.")
    assert any("where the verdict is bimodal" in line for line in limitations(report))
    seeds = next(one for one in trust_checks(report) if one.name == "Seeds")
    assert (
        "A state that 1 run in 5 falls into is not seen in 33 % of arms of 5 seeds; 14 seeds show"
        " it in 95 %." in seeds.text
    )
