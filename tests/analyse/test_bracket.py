"""A bracket of rates: the verdict must hold half an octave to either side, or it is none."""

from dataclasses import replace
from pathlib import Path

import pytest
from handmade_study import GAINS, N_STEPS, SEEDS, make_study, sweep_record, write_run
from measures import LOWER

from paribus.analyse import compare, judge_arm, study_findings
from paribus.analyse.bracket import (
    bracket_rate,
    contrast_across_bracket,
    judgement_across_bracket,
    verdict_across_bracket,
)
from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.verdict import LESS_THAN_MARGIN, MORE_THAN_MARGIN, Verdict
from paribus.errors import SpecError
from paribus.record import CellRecord, Study
from paribus.report.latex import latex_table
from paribus.report.markdown import markdown_report
from paribus.report.report_data import gather_report_data

GAINED = (0.8, 1.1, 0.9, 1.4, 1.2)
BETTER, WORSE, EQUAL = (
    Verdict("better", MORE_THAN_MARGIN),
    Verdict("worse"),
    Verdict("equivalent", "within 1"),
)


@pytest.mark.parametrize(
    ("own", "below", "above", "said"),
    [
        (BETTER, BETTER, BETTER, "better, by more than the margin"),
        (BETTER, Verdict("better"), BETTER, "better"),
        (Verdict("better", LESS_THAN_MARGIN), BETTER, BETTER, "better"),
        (
            BETTER,
            WORSE,
            BETTER,
            "inconclusive, better at the tuned rates, worse half an octave below",
        ),
        (
            EQUAL,
            EQUAL,
            Verdict("unstable"),
            "inconclusive, equivalent at the tuned rates, unstable half an octave above",
        ),
        (
            WORSE,
            EQUAL,
            Verdict("inconclusive"),
            (
                "inconclusive, worse at the tuned rates, equivalent half an octave below and"
                " inconclusive half an octave above"
            ),
        ),
        (EQUAL, Verdict("equivalent", "within 2"), EQUAL, "equivalent, within 1"),
        (Verdict("inconclusive"), BETTER, BETTER, "inconclusive"),
        (Verdict("no verdict", "too short"), BETTER, BETTER, "no verdict: too short"),
    ],
)
def test_a_word_holds_at_all_rates_or_is_none(
    own: Verdict, below: Verdict, above: Verdict, said: str
) -> None:
    assert str(verdict_across_bracket(own, {"below": below, "above": above})) == said
    assert verdict_across_bracket(own, {}) == own


def test_a_doubt_stays_with_a_word_that_holds() -> None:
    own = replace(BETTER, doubt="tuning could overturn it")
    assert verdict_across_bracket(own, {"below": BETTER, "above": BETTER}) == own


def test_a_judgement_and_a_contrast_that_lose_their_word_give_no_advice() -> None:
    scores = {seed: 2.0 - gain for seed, gain in enumerate(GAINED)}
    own = judge_arm(dict.fromkeys(scores, 2.0), scores, measure=LOWER)
    lost = judgement_across_bracket(own, {"above": replace(own, verdict=WORSE)})
    assert lost.verdict.word == "inconclusive"
    assert lost.comparison is not None
    assert (lost.comparison.verdict, lost.comparison.advice) == (lost.verdict, None)
    assert judgement_across_bracket(own, {"above": own}) is own
    one = ContrastFinding("c", {"a": 1.0, "b": -1.0}, compare(GAINED), True)
    turned = replace(one, comparison=compare([-gain for gain in GAINED]))
    assert contrast_across_bracket(one, {"below": turned}).word == "inconclusive"
    assert (
        contrast_across_bracket(
            one, {"below": replace(one, comparison=None, reason="an arm failed")}
        ).word
        == "inconclusive"
    )
    assert contrast_across_bracket(one, {"below": one}) is one


def _bracketed(
    root: Path, above: dict[str, float], sides: tuple[str, ...] = ("below", "above")
) -> Study:
    """The small study with a bracket; above the tuned rates the arms' gains are others."""
    study = make_study(root, rates=sweep_record(list(GAINS)))
    plan = study.read_plan()
    plan["design"]["tune"]["bracket"] = True
    study.write_plan(plan)
    for number, side in enumerate(sides):
        gains = above if side == "above" else GAINS
        cells = [
            CellRecord(
                arm,
                seed,
                bracket_rate(0.004, side),
                "bracket",
                f"{10 + number:x}{place:x}{seed:014x}",
                N_STEPS,
            )
            for place, arm in enumerate(gains)
            for seed in SEEDS
        ]
        study.add_cells(cells)
        for cell in cells:
            write_run(root / cell.run, cell, gains[cell.arm], 1.0, plan, False)
    return study


def test_a_study_whose_verdict_turns_beside_the_tuned_rates_is_inconclusive(tmp_path: Path) -> None:
    study = _bracketed(tmp_path, {**GAINS, "prefix": -0.1})
    found = study_findings(study)
    assert found.arm("prefix").judgement.verdict == Verdict(
        "inconclusive", "better at the tuned rates, worse half an octave above"
    )
    assert found.arm("input hidden").judgement.verdict.word == "worse"
    words = markdown_report(gather_report_data(study))
    assert (
        '**These runs cannot tell "prefix" from "causal", better at the tuned rates, worse half an'
        " octave above**" in words
    )
    assert "half an octave beside them the verdict is another, so it is none" in words
    assert "| half an octave above the tuned rates | worse; −0.1" in words
    assert "worse half an octave above" in latex_table(gather_report_data(study))


def test_a_verdict_that_holds_beside_the_tuned_rates_stays(tmp_path: Path) -> None:
    found = study_findings(_bracketed(tmp_path, GAINS))
    assert found.arm("prefix").judgement.verdict.word == "better"
    assert found.arm("prefix").brackets["below"].verdict.word == "better"


def test_a_bracket_that_is_not_done_leaves_the_verdict_open(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="12 of 12 runs are missing or not yet run"):
        study_findings(_bracketed(tmp_path, GAINS, ("below",)))
