"""Can I trust it? What the verdict rests on, each with a mark."""

from __future__ import annotations

from paribus.record import ControlLine, Mark
from paribus.report.numbers import format_plural, join_words
from paribus.report.report_data import ReportData
from paribus.report.trust_check import TrustCheck
from paribus.report.trust_fairness import factor_checks, pairing_check, rate_check
from paribus.report.trust_power import (
    manipulation_checks,
    margin_checks,
    noise_source_checks,
    pooled_noise_checks,
    positive_control_check,
    seed_check,
    symmetry_checks,
)
from paribus.report.trust_provenance import failure_checks, machine_check, plan_check
from paribus.report.trust_scope import (
    bound_checks,
    new_document_check,
    size_check,
    trained_item_checks,
    window_checks,
)
from paribus.report.trust_text import text_checks


def trust_checks(report: ReportData) -> list[TrustCheck]:
    """In the order in which a reader should ask."""
    return [
        _confound_check(report),
        *factor_checks(report),
        rate_check(report),
        seed_check(report),
        *pooled_noise_checks(report),
        *symmetry_checks(report),
        *noise_source_checks(report),
        pairing_check(report),
        positive_control_check(report),
        *manipulation_checks(report),
        *margin_checks(report),
        *failure_checks(report),
        size_check(report),
        *text_checks(report),
        *window_checks(report),
        *trained_item_checks(report),
        *bound_checks(report),
        new_document_check(report),
        machine_check(report),
        plan_check(report),
    ]


def allowed_confounds(report: ReportData) -> list[str]:
    """Every confound that the design lets pass, with its reason."""
    lines = _confound_lines(report)
    return [f"{line.path}: {line.allowed}" for line in lines if line.allowed is not None]


def _confound_lines(report: ReportData) -> list[ControlLine]:
    return [line for line in report.plan.control if line.mark == Mark.CONFOUND]


def _confound_check(report: ReportData) -> TrustCheck:
    faults = report.findings.agreement.control_faults
    if faults:
        text = f"The control table is not the one that the runs of the plan give. {faults[0]}."
        return TrustCheck("Confounds", "no", text)
    lines, allowances = _confound_lines(report), allowed_confounds(report)
    if len(allowances) < len(lines):
        paths = join_words([line.path for line in lines if line.allowed is None])
        text = f"{paths} differ between the arms and are not the factor."
        return TrustCheck("Confounds", "no", text)
    if allowances:
        reasons = "; ".join(allowances)
        text = f"{format_plural(len(allowances), 'difference')} allowed by the design. {reasons}."
        return TrustCheck("Confounds", "mind", text)
    return TrustCheck("Confounds", "yes", _describe_only_factor(report))


def _describe_only_factor(report: ReportData) -> str:
    """That nothing differs but the factor, and how many fields are equal."""
    if len(report.plan.declared) > 1:
        factor, them = "differ", "them"
    else:
        factor, them = "differs", "it"
    n_equal = 0
    for line in report.plan.control:
        n_equal += line.mark == Mark.EQUAL
    return (
        f"None: only {join_words(report.plan.declared)} {factor}, and what follows from {them}; "
        f"{n_equal} other fields are equal."
    )
