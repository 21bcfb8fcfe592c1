"""A bracket of rates: the verdict must hold half an octave to either side, or it is none."""

from dataclasses import replace
from pathlib import Path

import pytest

from paribus.analyse import compare, findings, judged
from paribus.analyse.bracket import bracket_rate, hold_contrast, hold_judgement, hold_verdict
from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.verdict import LESS, MORE, Verdict
from paribus.errors import SpecError
from paribus.record import Placed, Study
from paribus.report.material import gathered
from paribus.report.prose import latex, markdown
from small_study import GAINS, N_STEPS, SEEDS, _run, made, swept

GAINED = (0.8, 1.1, 0.9, 1.4, 1.2)
BETTER, WORSE, EQUAL = Verdict("better", MORE), Verdict("worse"), Verdict("equivalent", "within 1")


@pytest.mark.parametrize(
    ("own", "below", "above", "said"),
    [
        (BETTER, BETTER, BETTER, "better, by more than the margin"),
        (BETTER, Verdict("better"), BETTER, "better"),
        (Verdict("better", LESS), BETTER, BETTER, "better"),
        (BETTER, WORSE, BETTER, "inconclusive, better at the tuned rates, worse half an octave below"),
        (EQUAL, EQUAL, Verdict("unstable"),
         "inconclusive, equivalent at the tuned rates, unstable half an octave above"),
        (
            WORSE, EQUAL, Verdict("inconclusive"),
            "inconclusive, worse at the tuned rates, equivalent half an octave below and inconclusive half an octave "
            "above",
        ),
        (EQUAL, Verdict("equivalent", "within 2"), EQUAL, "equivalent, within 1"),
        (Verdict("inconclusive"), BETTER, BETTER, "inconclusive"),
        (Verdict("no verdict", "too short"), BETTER, BETTER, "no verdict: too short"),
    ],
)  # fmt: skip
def test_a_word_holds_at_all_rates_or_is_none(own: Verdict, below: Verdict, above: Verdict, said: str) -> None:
    assert str(hold_verdict(own, {"below": below, "above": above})) == said
    assert hold_verdict(own, {}) == own


def test_a_doubt_stays_with_a_word_that_holds() -> None:
    own = replace(BETTER, doubt="tuning could overturn it")
    assert hold_verdict(own, {"below": BETTER, "above": BETTER}) == own


def test_a_judgement_and_a_contrast_that_lose_their_word_give_no_advice() -> None:
    scores = {seed: 2.0 - gain for seed, gain in enumerate(GAINED)}
    own = judged(dict.fromkeys(scores, 2.0), scores, lower_is_better=True)
    lost = hold_judgement(own, {"above": replace(own, verdict=WORSE)})
    assert lost.verdict.word == "inconclusive"
    assert lost.comparison is not None
    assert (lost.comparison.verdict, lost.comparison.advice) == (lost.verdict, None)
    assert hold_judgement(own, {"above": own}) is own
    one = ContrastFinding("c", {"a": 1.0, "b": -1.0}, compare(GAINED), True)
    turned = replace(one, comparison=compare([-gain for gain in GAINED]))
    assert hold_contrast(one, {"below": turned}).word == "inconclusive"
    assert hold_contrast(one, {"below": replace(one, comparison=None, reason="an arm failed")}).word == "inconclusive"
    assert hold_contrast(one, {"below": one}) is one


def _bracketed(root: Path, above: dict[str, float], sides: tuple[str, ...] = ("below", "above")) -> Study:
    """The small study with a bracket; above the tuned rates the arms' gains are others."""
    study = made(root, rates=swept(list(GAINS)))
    plan = study.plan()
    plan["design"]["tune"]["bracket"] = True
    study.write_plan(plan)
    for number, side in enumerate(sides):
        gains = above if side == "above" else GAINS
        cells = [
            Placed(arm, seed, bracket_rate(0.004, side), "bracket", f"{10 + number:x}{place:x}{seed:014x}", N_STEPS)
            for place, arm in enumerate(gains)
            for seed in SEEDS
        ]
        study.add_cells(cells)
        for cell in cells:
            _run(root / cell.run, cell, gains[cell.arm], 1.0, plan, False)
    return study


def test_a_study_whose_verdict_turns_beside_the_tuned_rates_is_inconclusive(tmp_path: Path) -> None:
    study = _bracketed(tmp_path, {**GAINS, "prefix": -0.1})
    found = findings(study)
    assert found.arm("prefix").judgement.verdict == Verdict(
        "inconclusive", "better at the tuned rates, worse half an octave above"
    )
    assert found.arm("input hidden").judgement.verdict.word == "worse"
    words = markdown(gathered(study))
    assert (
        "**These runs cannot tell prefix from causal, better at the tuned rates, worse half an octave above**" in words
    )
    assert "half an octave beside them the verdict is another, so it is none" in words
    assert "| half an octave above the tuned rates | worse; −0.1" in words
    assert "worse half an octave above" in latex(gathered(study))


def test_a_verdict_that_holds_beside_the_tuned_rates_stays(tmp_path: Path) -> None:
    found = findings(_bracketed(tmp_path, GAINS))
    assert found.arm("prefix").judgement.verdict.word == "better"
    assert found.arm("prefix").brackets["below"].verdict.word == "better"


def test_a_bracket_that_is_not_done_leaves_the_verdict_open(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="12 of 12 reported runs are open"):
        findings(_bracketed(tmp_path, GAINS, ("below",)))
