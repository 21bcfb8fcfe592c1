"""The positive control in words: whether it works, and how large the margin is beside it."""

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


def describe_control(report: ReportData) -> str:
    """Whether the control works, with its numbers; empty where there is none outside the family."""
    control = report.findings.control
    if control is None:
        return ""
    return f"The positive control {control.word}: {_control_numbers(control, report)}."


def describe_control_meaning(control: ControlFinding) -> str:
    """What it says of the experiment that a control works, or did not."""
    if control.works:
        return "The yardstick reacts to what must make an arm worse."
    return "At this size and length, the experiment sees nothing."


def describe_margin_share(report: ReportData) -> str:
    """How large the margin is beside what the control costs; empty where one of them is not to
    be had.
    """
    control, share = report.findings.control, _margin_share(report)
    if control is None or share is None:
        return ""
    return f"The margin is {_percent(share)} of {_describe_effect(control, report)}"


def is_margin_weak(report: ReportData) -> bool:
    """Is the margin more than half of what the input is worth? Then `equivalent` says little."""
    control, share = report.findings.control, _margin_share(report)
    return (
        control is not None
        and share is not None
        and control.kind == "input"
        and share > WEAK_MARGIN_SHARE
    )


def describe_weak_equivalence(report: ReportData) -> str:
    """What stands beside `equivalent` where the margin is large beside what the input is worth;
    else nothing.
    """
    control, share = report.findings.control, _margin_share(report)
    if control is None or share is None or not is_margin_weak(report):
        return ""
    return f"within a margin of {_percent(share)} of {_describe_effect(control, report)}"


def _describe_effect(control: ControlFinding, report: ReportData) -> str:
    """What the control's effect is, in words."""
    if control.kind == "input":
        return control.effect_description
    return f"what {_quote_control(control, report)} costs here"


def _quote_control(control: ControlFinding, report: ReportData) -> str:
    """The name of the control as a sentence has it; a shorter training is one of the baseline."""
    baseline = report.findings.baseline
    if control.kind == "length" and control.name.startswith(baseline):
        return quote_arm(baseline) + control.name.removeprefix(baseline)
    return quote_arm(control.name)


def _percent(share: float) -> str:
    """0.822 → 82 %, 0.0398 → 4.0 %."""
    digits = 0 if share >= 0.1 else 1
    return f"{format_plain(100 * share, digits)} %"


def _margin_share(report: ReportData) -> float | None:
    return margin_share_of_control(report.findings.control, report.findings.margin)


def _control_numbers(control: ControlFinding, report: ReportData) -> str:
    if control.reason:
        return f"{_quote_control(control, report)} had to come out worse, and {control.reason}"
    return " ".join(_control_phrases(control, report))


def _control_phrases(control: ControlFinding, report: ReportData) -> Iterator[str]:
    if not isinf(control.low):
        digits = decimals_for_width(abs(control.effect - control.low))
    else:
        digits = 4
    unit = report.measure.unit
    verb = "loses" if control.effect >= 0 else "gains"
    effect = f"{format_plain(abs(control.effect), digits)} {unit}"
    baseline = quote_arm(report.findings.baseline)
    yield f"{_quote_control(control, report)} {verb} {effect} against {baseline}"
    if isinf(control.low):
        bound = "no bound yet"
    else:
        bound = f"a loss of at least {format_plain(control.low, digits)}"
    yield (
        f"({bound}, one-sided at {percent_level(control.level)},"
        f" {format_plural(len(control.losses), 'paired seed')})"
    )
