"""How early the final order shows, in a sentence; nothing where there is too little to say it
from.
"""

from __future__ import annotations

from collections.abc import Sequence

from paribus.analyse import EarlyOrder, early_order, seed_curves
from paribus.analyse.curves import NOT_ANNEALED
from paribus.analyse.equal_totals import VALIDATION_MEASURE
from paribus.report.numbers import join_words, whole_percent
from paribus.report.report_data import ReportData

TITLE = "How early the final order shows"
TRAINING_SHARES = (0.25, 0.5, 0.75)  # of the tokens


def describe_early_order(report: ReportData) -> str:
    """Over arms that ended better or worse than the baseline, at a few parts of training; empty
    where not said.
    """
    found = _study_early_order(report)
    if not found.agreement:
        return ""
    end = max(found.agreement)
    steps = dict.fromkeys(_nearest(list(found.agreement), part * end) for part in TRAINING_SHARES)
    at = join_words([whole_percent(step / end) for step in steps])
    right = join_words([whole_percent(found.agreement[step]) for step in steps])
    return (
        f"After {at} of the tokens, half of the seeds order {join_words(list(found.decided_arms))}"
        f" against {report.findings.baseline} as the other half does at the end in {right} of"
        " splits, on validation text; by chance it would be 50 %. To explore, and no forecast of"
        f" shorter runs: {NOT_ANNEALED}."
    )


def _study_early_order(report: ReportData) -> EarlyOrder:
    found = report.findings
    arms = [
        arm
        for arm in found.arms
        if arm.against == found.baseline and arm.gain_curve and _is_comparable(arm.name, report)
    ]
    decided = [arm.name for arm in arms if arm.judgement.verdict.word in ("better", "worse")]
    curves = {
        name: seed_curves(found.runs[name])
        for name in (found.baseline, *(arm.name for arm in arms))
    }
    return early_order(curves, found.baseline, VALIDATION_MEASURE, decided_arms=decided)


def _is_comparable(arm: str, report: ReportData) -> bool:
    """Is an arm asked what the baseline is, and did both train in every seed?"""
    n_seeds = len(report.findings.seeds)
    whole = all(
        len(report.findings.runs[name]) == n_seeds for name in (arm, report.findings.baseline)
    )
    return whole and report.has_same_task(arm)


def _nearest(steps: Sequence[int], target: float) -> int:
    return min(steps, key=lambda step: abs(step - target))
