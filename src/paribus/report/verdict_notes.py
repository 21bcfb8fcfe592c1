"""What holds for all verdicts and is said once beside them."""

from __future__ import annotations

from collections.abc import Iterator

from paribus.analyse.length_curves import NO_CURVE_DECLARED
from paribus.analyse.remarks import match_remark
from paribus.report.numbers import capitalise, join_words, quote_arm
from paribus.report.positive_control import describe_refused_margin
from paribus.report.report_data import ReportData
from paribus.spec.design import MIN_LENGTHS


def verdict_notes(report: ReportData) -> list[str]:
    """What had to hold, that the margin does not count, what a match has moved beside its size,
    that no gain is told in compute, and which arms get no verdict; nothing where none of these is
    to be said.
    """
    return [
        *check_notes(report),
        *_margin_note(report),
        *match_notes(report),
        *_compute_note(report),
        *_unjudged_note(report),
    ]


def _margin_note(report: ReportData) -> Iterator[str]:
    note = describe_refused_margin(report)
    if note:
        yield note


def check_notes(report: ReportData) -> list[str]:
    """What the design says must hold, and whether it is shown."""
    notes: list[str] = []
    for check in report.findings.checks:
        notes.append(f"Must hold: {check.that}. {capitalise(check.description)}.")
    return notes


def match_notes(report: ReportData) -> list[str]:
    """How far a match has moved sizes that it does not make equal."""
    remark = match_remark(report.plan)
    if remark is None:
        return []
    return [f"{capitalise(remark)}: part of the effect may be that of this change."]


def _compute_note(report: ReportData) -> Iterator[str]:
    for arm in report.findings.arms:
        if arm.multiplier is not None and arm.multiplier.reason in NO_CURVE_DECLARED:
            yield (
                "In compute: not said. What a gain is worth in tokens is read off runs of"
                f" {MIN_LENGTHS} lengths, and the design has fewer."
            )
            return


def unjudged_arms(report: ReportData) -> list[str]:
    """Arms that are in no comparison and no contrast, and are not the control."""
    findings = report.findings
    judged = {findings.plan.design.control_arm}
    for arm in findings.arms:
        judged |= {arm.name, arm.against}
    for contrast in findings.contrasts:
        judged |= set(contrast.weights)
    return [arm for arm in report.order if arm not in judged]


def _unjudged_note(report: ReportData) -> Iterator[str]:
    arms = list(map(quote_arm, unjudged_arms(report)))
    if len(arms) == 1:
        yield (
            f"No verdict on {arms[0]}: it was trained and measured, but the design compares it with"
            " no other arm."
        )
    elif arms:
        yield (
            f"No verdict on {join_words(arms)}: they were trained and measured, but the design"
            " compares them with no other arm."
        )
