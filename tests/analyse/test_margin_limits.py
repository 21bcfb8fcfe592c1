"""How wide a margin may be: half of what the control costs for sure, a tenth of what was learnt."""

from pathlib import Path

import pytest
from measures import measure_in
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

from paribus.analyse import LengthCurves, past_studies, study_findings
from paribus.analyse.advice import REFUSED_MARGIN
from paribus.analyse.margin_limits import MarginLimits, expected_margin
from paribus.analyse.positive_control import judge_control
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.page import render_page
from paribus.report.report_data import gather_report_data
from paribus.report.trust import trust_checks

BITS = measure_in("bits per byte", lower_is_better=True)
POINTS = measure_in("points", lower_is_better=False)
STEADY = [2.0, 2.01, 1.99, 2.02, 2.0]  # a gain of 2.996 on the unigram model, which takes 5
NEAR = [2.01, 2.0, 2.0, 2.01, 2.02]
CUT = [3.0, 3.03, 2.98, 3.01, 3.02]
HONEST: Planted = {BASELINE: STEADY, ARM: NEAR, CONTROL: CUT}
WORKS = judge_control("blind", "input", {1: 0.9, 2: 1.0, 3: 1.1, 4: 1.0}, 4)
FAILS = judge_control("blind", "input", {1: 0.9, 2: -1.0, 3: 1.1, 4: 1.0}, 4)


def test_half_of_the_lower_end_and_a_tenth_of_what_was_learnt_are_the_limits() -> None:
    limits = MarginLimits(WORKS, 3.0, BITS)
    assert WORKS.low == pytest.approx(0.9039, abs=1e-4)
    assert limits.excess(0.3) == ""
    assert limits.excess(0.31) == (
        "0.31 bits per byte is more than a tenth of what the baseline gained on the unigram model"
        " (3 bits per byte)"
    )
    assert limits.excess(0.46) == (
        "0.46 bits per byte is more than half of what the control blind loses for sure (0.9039"
        " bits per byte) and more than a tenth of what the baseline gained on the unigram model (3"
        " bits per byte)"
    )
    assert MarginLimits(WORKS, None, BITS).excess(0.45) == ""
    assert MarginLimits(None, 3.0, BITS).excess(0.3) == ""
    assert MarginLimits(None, None, BITS).excess(100.0) == ""


def test_beside_a_control_that_did_not_work_no_margin_is_little() -> None:
    assert MarginLimits(FAILS, 3.0, BITS).excess(0.001) == (
        "nothing says that 0.001 bits per byte is little, for the control blind did not work"
    )


def test_of_a_task_the_floor_stands_in_the_place_of_the_unigram_model() -> None:
    accuracy = measure_in("points", lower_is_better=False)
    limits = MarginLimits(None, 20.0, type(accuracy)(**{**vars(accuracy), "kind": "accuracy"}))
    assert limits.excess(2.0) == ""
    assert limits.excess(2.5).endswith("gained on chance (20 points)")


def test_a_wide_margin_calls_nothing_equal_and_a_narrow_one_does() -> None:
    said = "0.31 bits per byte is more than a tenth of what the baseline gained on the unigram"
    narrow = planted_judgement(planted_plan(5, 0.29), HONEST)
    assert narrow.verdict.word == "equivalent"
    wide = judge_planted(planted_plan(5, 0.31), HONEST)
    found = wide.verdicts.pairs[ARM, BASELINE]
    assert found.verdict.word == "inconclusive"
    assert found.comparison is not None
    assert (found.comparison.margin, found.comparison.advice) == (None, REFUSED_MARGIN)
    assert f"no margin: {said}" in found.description
    assert wide.margins.description.startswith(f"0.31 bits per byte; {said}")
    assert wide.margins.description.endswith("so nothing is called equivalent")
    older = planted_judgement(planted_plan(5, 0.31, edition=3), HONEST)
    assert older.verdict.word == "equivalent"


def test_without_a_control_what_was_learnt_is_the_limit() -> None:
    words = []
    for margin in (0.29, 0.31):
        plan = planted_plan(5, margin, has_control=False)
        words.append(planted_judgement(plan, HONEST).verdict.word)
    assert words == ["equivalent", "inconclusive"]


def test_a_difference_is_still_told_where_the_margin_does_not_count() -> None:
    worse = {**HONEST, ARM: [2.2, 2.21, 2.22, 2.2, 2.19]}
    found = planted_judgement(planted_plan(5, 0.5), worse)
    assert (found.verdict.word, found.verdict.detail) == ("worse", "")
    narrow = planted_judgement(planted_plan(5, 0.25), worse)
    assert narrow.verdict.detail == "by less than the margin"


def test_an_untrained_control_does_not_work_and_gives_no_margin() -> None:
    sabotaged = {**HONEST, CONTROL: [8.0, 8.1, 7.9, 8.2, 8.0]}
    judged = judge_planted(planted_plan(5, "25 % of control"), sabotaged)
    assert judged.control is not None
    reason = "5 of its 5 runs learnt no more than the unigram model"
    assert (judged.control.works, judged.control.reason) == (False, reason)
    assert judged.control.word == "did not work"
    assert set(judged.margins.against.values()) == {None}
    assert judged.margins.description == (
        f"25 % of control, and the control did not work: {reason}, so nothing is called equivalent"
    )
    # nor does any other margin count beside it
    assert planted_judgement(planted_plan(5, 0.05), sabotaged).verdict.word == "inconclusive"
    older = judge_planted(planted_plan(5, "25 % of control", edition=3), sabotaged)
    assert older.verdicts.pairs[ARM, BASELINE].verdict.word == "equivalent"


@pytest.mark.parametrize("lost", [5.01, 5.0])
def test_a_control_that_learnt_nothing_in_one_seed_was_not_trained(lost: float) -> None:
    judged = judge_planted(planted_plan(5, 0.05), {**HONEST, CONTROL: [*CUT[:4], lost]})
    assert judged.control is not None
    assert judged.control.reason.startswith("1 of its 5 runs learnt no more")
    assert judge_planted(planted_plan(5, 0.05), HONEST).control.works  # pyright: ignore[reportOptionalMemberAccess]


def test_a_control_that_diverged_in_one_seed_works_in_the_others_and_is_no_margin() -> None:
    lost = {**HONEST, CONTROL: [*CUT[:4], None]}
    judged = judge_planted(planted_plan(5, 0.05), lost)
    assert judged.control is not None
    assert judged.control.word == "works in 4 of 5 seeds"
    assert judged.verdicts.pairs[ARM, BASELINE].verdict.word == "equivalent"
    share = judge_planted(planted_plan(5, "25 % of control"), lost)
    assert "has a score in 4 of 5 seeds" in share.margins.description


def test_a_share_of_the_control_is_one_of_its_lower_end_the_same_in_every_seed() -> None:
    judged = judge_planted(planted_plan(5, "25 % of control"), HONEST)
    assert judged.control is not None
    assert judged.control.low < judged.control.effect
    assert judged.margins.against[BASELINE] == pytest.approx(0.25 * judged.control.low)
    comparison = judged.verdicts.pairs[ARM, BASELINE].comparison
    assert comparison is not None
    assert (comparison.margins, comparison.verdict.word) == ((), "equivalent")
    assert judged.margins.description.endswith("one-sided at 95 %, given that it works)")
    half = judge_planted(planted_plan(5, "50 % of control"), {**HONEST, CONTROL: NEAR_CUT})
    assert half.margins.refusal == ""
    more = judge_planted(planted_plan(5, "51 % of control"), {**HONEST, CONTROL: NEAR_CUT})
    assert (
        "is more than half of what the control input hidden loses for sure" in more.margins.refusal
    )


def test_a_control_that_may_work_by_luck_gives_no_share_and_does_not_harm_other_margins(
    tmp_path: Path,
) -> None:
    lucky = {**HONEST, CONTROL: [2.5, 3.0, 3.5, 3.0, 2.2]}
    judged = judge_planted(planted_plan(5, "25 % of control"), lucky)
    assert judged.control is not None
    assert (judged.control.works, judged.control.sure_loss) == (True, 0)
    said = (
        "the control input hidden works, with a p of 0.01, by too little to say what it loses for"
        " sure, so nothing is called equivalent; more seeds would do, or a margin in bits per byte"
    )
    assert (set(judged.margins.against.values()), judged.margins.refusal) == ({None}, said)
    assert judged.margins.description == f"25 % of control; {said}"
    assert judged.verdicts.pairs[ARM, BASELINE].verdict.word == "inconclusive"
    assert planted_judgement(planted_plan(5, 0.05), lucky).verdict.word == "equivalent"
    older = judge_planted(planted_plan(5, "25 % of control", edition=3), lucky)
    assert older.margins.mean(BASELINE) == pytest.approx(0.209, abs=0.001)
    study = planted_study(tmp_path, lucky, "25 % of control")
    assert f"The margin does not count: {said}." in markdown_report(gather_report_data(study))


NEAR_CUT = [2.4, 2.42, 2.41, 2.38, 2.43]


def test_the_reason_stands_in_every_format(tmp_path: Path) -> None:
    study = planted_study(tmp_path, HONEST, 0.31)
    report = gather_report_data(study)
    said = "The margin does not count: 0.31 bits per byte is more than a tenth of what the baseline"
    for text in (markdown_report(report), latex_table(report), render_page(report)):
        assert said in text
    check = next(one for one in trust_checks(report) if one.name == "Margin and control")
    assert (check.mark, check.text.startswith(said)) == ("no", True)
    sabotaged = {**HONEST, CONTROL: [8.0, 8.1, 7.9, 8.2, 8.0]}
    report = gather_report_data(planted_study(tmp_path / "b", sabotaged, 0.05))
    check = next(one for one in trust_checks(report) if one.name == "Positive control")
    assert check.text.endswith("What was not trained says nothing of the yardstick.")


def test_what_a_margin_would_come_to_is_known_from_an_earlier_study() -> None:
    limits = MarginLimits(WORKS, 3.0, BITS)
    assert expected_margin(0.2, limits, None) == 0.2
    assert expected_margin(None, limits, None) is None
    assert expected_margin("25 % of control", limits, None) == pytest.approx(0.25 * WORKS.low)
    assert expected_margin("25 % of control", MarginLimits(FAILS, 3.0, BITS), None) is None
    lucky = judge_control("blind", "input", {1: 0.5, 2: 1.0, 3: 1.5, 4: 1.0}, 4)
    assert expected_margin("25 % of control", MarginLimits(lucky, 3.0, BITS), None) is None
    assert expected_margin("10 % compute", limits, None) is None
    assert expected_margin("10 % compute", limits, LengthCurves({}, reason="none")) is None
    curves = {
        seed: {25: 3.4 + 0.01 * seed, 50: 2.7 + 0.02 * seed, 100: 2.0} for seed in range(1, 6)
    }
    slopes = LengthCurves(curves, (0.25, 0.5, 1.0))
    # about 0.7 bits for each doubling, and a tenth more compute is 0.1375 of one
    expected = expected_margin("10 % compute", limits, slopes)
    assert expected == pytest.approx(0.1375 * 0.7, rel=0.2)


def test_an_earlier_study_says_that_a_margin_is_too_wide(tmp_path: Path) -> None:
    study = planted_study(tmp_path, HONEST, 0.05)
    measure = study.read_plan()["design"]["primary"]["measure"]
    found = past_studies(tmp_path, measure).noise
    assert found is not None
    assert (found.study, found.n, study_findings(study).control is not None) == ("small", 5, True)
    assert found.excess(0.29) == ""
    assert found.excess(0.31).startswith("0.31 bits per byte is more than a tenth of what")
    assert found._replace(limits=None).excess(0.31) == ""
