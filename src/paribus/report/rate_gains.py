"""The gain at each learning rate that both arms were swept at, and what the sweep cost."""

from __future__ import annotations

from paribus.analyse.findings import ArmFinding
from paribus.analyse.run_costs import flops_by_purpose
from paribus.report.details import details_heading
from paribus.report.intervals import (
    DASH,
)
from paribus.report.numbers import (
    format_flops,
    format_percent,
    format_signed,
    significant,
)
from paribus.report.report_data import ReportData


def rate_gain_lines(report: ReportData) -> list[tuple[str, ...]]:
    """A line a rate that arm and baseline were both swept at: each arm's mean gain there."""
    arms, rates = report.findings.arms, set()
    for arm in arms:
        rates.update(arm.gains_by_rate)
    lines = []
    for rate in sorted(rates):
        gains = [_gain_at_rate(arm, rate) for arm in arms]
        lines.append((significant(rate), *gains))
    return lines


def rate_table(report: ReportData) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The gains by rate with their heading; of many comparisons, one line each."""
    heads, lines = ("rate", *details_heading(report)[1:]), rate_gain_lines(report)
    if not report.has_many_columns:
        return heads, lines
    columns = list(zip(heads, *lines, strict=True))
    return columns[0], columns[1:]


def _gain_at_rate(arm: ArmFinding, rate: float) -> str:
    if rate not in arm.gains_by_rate:
        return DASH
    gain = arm.gains_by_rate[rate]
    if gain is None:
        return "did not train"
    return format_signed(gain, 4)


def describe_sweep_cost(report: ReportData) -> str:
    """How much of the study's FLOPs finding the rates took; nothing where no sweep is on record."""
    flops = flops_by_purpose(report.rows)
    swept = flops["sweep"] + flops.get("ladder_sweep", 0.0)
    if not swept:
        return ""
    share = format_percent(swept / sum(flops.values()))
    return (
        f"Finding the rates took {format_flops(swept)}, {share} of what the study's training took."
    )
