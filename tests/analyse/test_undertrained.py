"""Not trained long enough is another outcome than diverged, and no word is read from it."""

import json
import math
from pathlib import Path

import pytest
from handmade_study import GAINS, MANY_ARMS, SEEDS, make_study
from measures import LOWER
from undertrained_answers import (
    below_unigrams,
)

from paribus.analyse import judge_family, study_findings, study_rows
from paribus.analyse.undertrained import UndertrainedRuns, has_risen
from paribus.record import Study
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.overview import comparison_lines, describe_tally
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.tables import score_summary

BASE = {1: 2.0, 2: 2.1, 3: 1.9, 4: 2.05}


def with_losses(
    study: Study, arm: str, seed: int, losses: list[float | None], name: str = "valid_nats"
) -> None:
    """The rows of a run with these losses, from the last row back; earlier rows have none."""
    cell = next(cell for cell in study.read_cells() if (cell.arm, cell.seed) == (arm, seed))
    path = study.root / cell.run / "rows.jsonl"
    there = [json.loads(line) for line in path.read_text().splitlines()]
    given = [None] * (len(there) - len(losses)) + losses
    told = [{**row, name: loss} for row, loss in zip(there, given, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in told))


@pytest.mark.parametrize(
    ("losses", "risen"),
    [
        ([5.4, 4.0, 2.64], False),
        ([5.4, 2.0, 2.09], False),
        ([5.4, 2.0, 2.11], True),
        ([2.0, 1.9, 2.01], True),
        ([2.0, 2.0], False),
        ([2.0], False),
        ([], False),
        ([5.4, 4.0, math.nan], True),
        ([5.4, math.inf, 2.64], True),
    ],
)
def test_a_loss_has_risen_above_its_first_or_a_twentieth_above_its_lowest(
    losses: list[float], risen: bool
) -> None:
    assert has_risen(losses) is risen


@pytest.mark.parametrize(
    ("losses", "outcome", "reason"),
    [
        (
            [5.4, 2.64],
            "undertrained",
            "not trained long enough, still worse than the unigram model",
        ),
        ([5.4, 2.64, 2.9], "diverged", "worse than the unigram model, after its loss had risen"),
        ([2.64, 5.4], "diverged", "worse than the unigram model, after its loss had risen"),
    ],
)
def test_a_run_worse_than_unigrams_diverged_only_if_its_loss_rose(
    tmp_path: Path, losses: list[float | None], outcome: str, reason: str
) -> None:
    study = make_study(tmp_path)
    below_unigrams(study, "prefix", 2)
    with_losses(study, "prefix", 2, losses)
    row = next(row for row in study_rows(study) if (row["arm"], row["seed"]) == ("prefix", 2))
    assert (row["outcome"], row["reason"]) == (outcome, reason)
    assert (row["halves.test"] is not None) == (outcome == "undertrained")


def test_without_two_validation_points_the_loss_of_training_tells(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    below_unigrams(study, "prefix", 2)
    with_losses(study, "prefix", 2, [3.0])
    with_losses(study, "prefix", 2, [2.0, 3.0], "nats")
    assert (
        next(row for row in study_rows(study) if (row["arm"], row["seed"]) == ("prefix", 2))[
            "outcome"
        ]
        == "diverged"
    )


def test_a_validation_that_was_no_number_has_diverged(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    below_unigrams(study, "prefix", 2)
    with_losses(study, "prefix", 2, [5.4, None, 2.64])
    assert outcome_of(study, "prefix", 2) == "undertrained"
    cell = next(cell for cell in study.read_cells() if (cell.arm, cell.seed) == ("prefix", 2))
    path = study.root / cell.run / "rows.jsonl"
    there = [json.loads(line) for line in path.read_text().splitlines()]
    there[-2]["nonfinite"] = {"valid_nats": "nan"}
    path.write_text("".join(json.dumps(row) + "\n" for row in there))
    assert outcome_of(study, "prefix", 2) == "diverged"


def outcome_of(study: Study, arm: str, seed: int) -> str:
    return next(
        row["outcome"] for row in study_rows(study) if (row["arm"], row["seed"]) == (arm, seed)
    )


@pytest.mark.parametrize(
    "short", [("prefix",), ("prefix", "long-window+near"), ("prefix", "input hidden")]
)
def test_intervals_of_the_others_are_as_wide_as_if_every_arm_had_trained(
    tmp_path: Path, short: tuple[str, ...]
) -> None:
    before = {
        arm.name: arm.judgement.comparison
        for arm in study_findings(make_study(tmp_path / "a", gains=MANY_ARMS)).arms
    }
    study = make_study(tmp_path / "b", gains=MANY_ARMS)
    for arm in short:
        below_unigrams(study, arm, 1, 3)
    after = {arm.name: arm.judgement.comparison for arm in study_findings(study).arms}
    for name in set(MANY_ARMS) - {"causal", "input hidden", *short}:
        assert before[name] == after[name]


def test_a_run_better_than_unigrams_has_finished_whatever_its_curve(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    with_losses(study, "prefix", 2, [1.0, 5.0])
    assert {row["outcome"] for row in study_rows(study)} == {"finished"}


def test_a_pair_with_such_an_arm_gets_no_word_and_the_family_is_not_shrunk(tmp_path: Path) -> None:
    study = make_study(tmp_path, gains=MANY_ARMS)
    below_unigrams(study, "prefix", 2)
    found = study_findings(study)
    judgement = found.arm("prefix").judgement
    assert judgement.verdict.word == "no verdict"
    assert judgement.comparison is None
    assert judgement.description == "no verdict: not trained long enough (prefix in 1 of 4 seeds)."
    assert [one.seed for one in judgement.seeds] == list(SEEDS)
    others = [arm.judgement.comparison for arm in found.arms if arm.name != "prefix"]
    assert {one.n_comparisons for one in others if one is not None} == {4}
    assert found.n_comparisons == 4


def test_where_the_baseline_is_such_an_arm_no_pair_with_it_gets_a_word(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    below_unigrams(study, "causal", 1)
    words = {arm.name: arm.judgement.verdict.word for arm in study_findings(study).arms}
    assert words == {"prefix": "no verdict", "input hidden": "worse"}


def test_a_declared_control_may_be_worse_by_what_its_runs_had_reached(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    below_unigrams(study, "input hidden", *SEEDS)
    found = study_findings(study)
    own = found.arm("input hidden").judgement
    assert (own.verdict.word, found.control_worked) == ("worse", True)
    assert str(own.arm_trained) == "0 of 4"
    assert own.description.endswith(
        "Runs were not trained long enough (input hidden in 4 of 4 seeds)."
    )
    table = latex_table(gather_report_data(study))
    assert "input hidden & -- (0 of 4) & " in table


@pytest.mark.parametrize("gain", [0.0, 0.3])
def test_a_control_that_is_not_worse_gets_no_word(tmp_path: Path, gain: float) -> None:
    study = make_study(tmp_path, gains={**GAINS, "input hidden": gain})
    below_unigrams(study, "input hidden", 1)
    found = study_findings(study)
    assert found.arm("input hidden").judgement.verdict.word == "no verdict"
    said = render_page(gather_report_data(study))
    assert "there is no verdict on it: runs were not trained long enough" in said


def test_only_the_declared_control_may_be_worse() -> None:
    arms = {"base": BASE, "arm": dict.fromkeys(BASE, None)}
    reached = {"arm": {seed: score + 1 + 0.01 * seed for seed, score in BASE.items()}}
    for control, word in (("arm", "worse"), (None, "no verdict")):
        found = judge_family(
            arms, "base", measure=LOWER, undertrained_runs=UndertrainedRuns(reached, control)
        )
        assert found["arm", "base"].verdict.word == word


def test_a_run_that_diverged_beside_one_that_was_too_short_leaves_no_word(tmp_path: Path) -> None:
    study = make_study(tmp_path, failed=[("causal", 1)])
    below_unigrams(study, "prefix", 2)
    assert study_findings(study).arm("prefix").judgement.verdict.word == "no verdict"


def test_every_format_says_so_and_none_says_diverged(tmp_path: Path) -> None:
    study = make_study(tmp_path, gains=MANY_ARMS)
    for arm in MANY_ARMS:
        below_unigrams(study, arm, *SEEDS)
    material = gather_report_data(study)
    for text in (render_page(material), markdown_report(material), latex_table(material)):
        assert "not trained long enough" in text
        assert "diverged" not in text.partition("<script")[0]
        assert "unstable" not in text.partition("<main>")[2].partition("<script")[0]
    assert describe_tally(comparison_lines(material), material).endswith(": all without a verdict.")
    assert {mean for mean, _ in score_summary(material, "halves.test")} == {"– (0 of 4)"}


def test_one_noise_for_all_arms_gives_such_a_pair_no_word_either(tmp_path: Path) -> None:
    study = make_study(tmp_path, gains=MANY_ARMS)
    plan = study.read_plan()
    plan["design"]["equal_noise"] = True
    study.write_plan(plan)
    below_unigrams(study, "input hidden", 1)
    assert study_findings(study).arm("input hidden").judgement.verdict.word == "no verdict"


def judged(arm: dict[int, float | None], short: dict[str, dict[int, float]], later: bool) -> str:
    """The verdict on an arm beside a baseline, by when runs that are too short are decided on."""
    baseline = {seed: None if seed in short.get("a", {}) else own for seed, own in BASE.items()}
    runs = UndertrainedRuns(short, None, later)
    found = judge_family({"a": baseline, "b": arm}, "a", LOWER, undertrained_runs=runs)
    return str(found["b", "a"].verdict)


def test_unstable_is_decided_before_runs_that_are_too_short() -> None:
    arm = {1: None, 2: None, 3: 1.8, 4: 1.9}
    short = {"b": {1: 5.3}}
    assert judged(arm, short, True) == (
        "unstable, runs diverged in 1 of 4 seeds of the arm and in 0 of the baseline; others were"
        " not trained long enough (b in 1 of 4 seeds)"
    )
    older = "no verdict: not trained long enough (b in 1 of 4 seeds)"
    assert judged(arm, short, False) == older
    # its twin: no run diverged
    assert judged({**arm, 2: 2.0}, short, True) == older


def test_identical_is_decided_before_runs_that_are_too_short() -> None:
    arm, short = {**BASE, 1: None}, {"a": {1: 5.3}, "b": {1: 5.3}}
    assert judged(arm, short, True) == "identical, the same runs: nothing was compared"
    assert judged(arm, short, False).startswith("no verdict")
    assert judged(arm, {**short, "b": {1: 5.2}}, True).startswith("no verdict")
