"""How early the final order shows, in a sentence; nothing where there is too little to say it
from.
"""

from __future__ import annotations

from collections.abc import Sequence

from paribus.analyse import EarlyOrder, early_order, seed_curves
from paribus.analyse.curves import NOT_ANNEALED
from paribus.analyse.equal_totals import VALIDATION_MEASURE
from paribus.report.numbers import join_words, quote_arm, whole_percent
from paribus.report.report_data import ReportData

TITLE = "How early the final order shows"
TRAINING_SHARES = (0.25, 0.5, 0.75)  # of the tokens


def describe_early_order(report: ReportData) -> str:
    """Over arms that ended better or worse than the baseline, at a few parts of training; empty
    where not said.
    """
    order = _study_early_order(report)
    if not order.agreement:
        return ""
    end = max(order.agreement)
    shares: dict[int, str] = {}
    agreements: dict[int, str] = {}
    for share in TRAINING_SHARES:
        step = _nearest(list(order.agreement), share * end)
        shares[step] = whole_percent(step / end)
        agreements[step] = whole_percent(order.agreement[step])
    at, right = join_words(list(shares.values())), join_words(list(agreements.values()))
    decided = join_words(list(map(quote_arm, order.decided_arms)))
    return (
        f"After {at} of the tokens, half of the seeds order {decided} against"
        f" {quote_arm(report.findings.baseline)} as the other half does at the end in {right} of"
        " splits, on validation text; by chance it would be 50 %. To explore, and no forecast of"
        f" shorter runs: {NOT_ANNEALED}."
    )


def _study_early_order(report: ReportData) -> EarlyOrder:
    findings, decided_arms = report.findings, []
    curves = {findings.baseline: seed_curves(findings.runs[findings.baseline])}
    for arm in findings.arms:
        if arm.against != findings.baseline or not arm.gain_curve:
            continue
        if not _is_comparable(arm.name, report):
            continue
        curves[arm.name] = seed_curves(findings.runs[arm.name])
        if arm.judgement.verdict.word in ("better", "worse"):
            decided_arms.append(arm.name)
    return early_order(curves, findings.baseline, VALIDATION_MEASURE, decided_arms=decided_arms)


def _is_comparable(arm: str, report: ReportData) -> bool:
    """Is an arm asked what the baseline is, and did both train in every seed?"""
    n_seeds, runs = len(report.findings.seeds), report.findings.runs
    n_runs = {len(runs[arm]), len(runs[report.findings.baseline])}
    return n_runs == {n_seeds} and report.has_same_task(arm)


def _nearest(steps: Sequence[int], target: float) -> int:
    return min(steps, key=lambda step: abs(step - target))
