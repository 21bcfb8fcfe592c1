"""Describes the positive control (an arm that must come out worse) and compares the margin with
its loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf

from paribus.analyse.positive_control import (
    WEAK_MARGIN_SHARE,
    ControlFinding,
    margin_share_of_control,
)
from paribus.report.numbers import (
    decimals_for_width,
    format_plain,
    format_plural,
    percent_level,
    quote_arm,
)
from paribus.report.report_data import ReportData
from paribus.spec.measure import with_unit

NO_DETECTION = "the experiment cannot detect even an effect that must be there"
DIGITS_WITHOUT_BOUND = 4


def describe_control(report: ReportData) -> str:
    """Whether the control works, with its numbers; '' if the study has no control that is judged
    apart from its comparisons.
    """
    control = report.findings.control
    if control is None:
        return ""
    return f"The positive control {control.word}: {_describe_control_result(control, report)}."


def describe_control_meaning(control: ControlFinding) -> str:
    """What it means for the experiment that the control works or fails."""
    if control.works:
        return "The yardstick reacts to what must make an arm worse."
    if not control.is_trained:
        return "What was not trained says nothing of the yardstick."
    return f"At this size and length {NO_DETECTION}."


def describe_margin_share(report: ReportData) -> str:
    """The margin as a share of the control's loss, a sentence without its full stop; '' if there
    is no control or no margin.
    """
    control_and_share = _control_and_margin_share(report)
    if control_and_share is None:
        return ""
    control, share = control_and_share
    return f"The margin is {_percent(share)} of {_describe_effect(control, report)}"


def describe_refused_margin(report: ReportData) -> str:
    """That the margin does not count, and why; '' where it does, or there is none."""
    if report.findings.margins.refusal:
        return f"The margin does not count: {report.findings.margins.refusal}."
    return ""


def is_margin_too_wide(report: ReportData) -> bool:
    """True if the margin exceeds WEAK_MARGIN_SHARE of the loss of a model that cannot see its
    input; `equivalent` then says little.
    """
    control_and_share = _control_and_margin_share(report)
    if control_and_share is None:
        return False
    control, share = control_and_share
    return control.kind == "input" and share > WEAK_MARGIN_SHARE


def equivalence_caveat(report: ReportData) -> str:
    """The caveat printed beside `equivalent` if the margin is too wide, else ''."""
    control_and_share = _control_and_margin_share(report)
    if control_and_share is None or not is_margin_too_wide(report):
        return ""
    control, share = control_and_share
    return f"within a margin of {_percent(share)} of {_describe_effect(control, report)}"


def _describe_effect(control: ControlFinding, report: ReportData) -> str:
    """What the control's effect is, in words."""
    if control.kind == "input":
        return control.effect_description
    return f"what {_quote_control(control, report)} costs here"


def _quote_control(control: ControlFinding, report: ReportData) -> str:
    """The control's name in quotes; for a shorter training of the baseline only the baseline's
    part is quoted.
    """
    baseline = report.findings.baseline
    if control.kind == "length" and control.name.startswith(baseline):
        return quote_arm(baseline) + control.name.removeprefix(baseline)
    return quote_arm(control.name)


def _percent(share: float) -> str:
    """0.822 → 82 %, 0.0398 → 4.0 %."""
    digits = 0 if share >= 0.1 else 1
    return f"{format_plain(100 * share, digits)} %"


def _control_and_margin_share(report: ReportData) -> tuple[ControlFinding, float] | None:
    """The control and the margin as a share of its loss; None if there is no such share."""
    control = report.findings.control
    share = margin_share_of_control(control, report.findings.margin)
    if control is None or share is None:
        return None
    return control, share


def _describe_control_result(control: ControlFinding, report: ReportData) -> str:
    """The control's loss with its bound, or why there is no bound."""
    if control.reason:
        quoted = _quote_control(control, report)
        return f"{quoted} should have come out worse, but {control.reason}"
    return " ".join(_control_phrases(control, report))


def _control_phrases(control: ControlFinding, report: ReportData) -> Iterator[str]:
    unit = report.measure.unit
    if isinf(control.low):
        digits = DIGITS_WITHOUT_BOUND
        bound = "no bound yet"
    else:
        digits = decimals_for_width(abs(control.effect - control.low), unit)
        bound = _describe_bound(control.low, digits)
    verb = "loses" if control.effect >= 0 else "gains"
    effect = with_unit(format_plain(abs(control.effect), digits), unit)
    baseline = quote_arm(report.findings.baseline)
    yield f"{_quote_control(control, report)} {verb} {effect} against {baseline}"
    yield (
        f"({bound}, one-sided at {percent_level(control.level)},"
        f" {format_plural(len(control.losses), 'paired seed')})"
    )


def _describe_bound(low: float, digits: int) -> str:
    """The one-sided bound of a loss; below zero it is one of a gain."""
    if low < 0:
        return f"a gain of at most {format_plain(-low, digits)}"
    return f"a loss of at least {format_plain(low, digits)}"
