"""Times, rates and dates, all in one block: nothing else of a page depends on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paribus.analyse.run_costs import RunTimes, run_times
from paribus.record.rows import CLOCK_FIELDS
from paribus.report.numbers import DASH, format_count, format_duration
from paribus.report.report_data import ReportData
from paribus.report.sensitivity import sensitivity_to_seconds


@dataclass(frozen=True)
class TimeBlock:
    """What the clock said; dates are left out of an anonymous page."""

    heading: tuple[str, ...]
    lines: list[tuple[str, ...]]
    at_equal_seconds: list[tuple[str, str]]  # an arm, and its gain had every run taken as long
    dates: list[tuple[str, str]]


def time_block(report: ReportData) -> TimeBlock:
    """Of every arm: the time of a run and of a step, tokens a second; and where runs were compiled
    how long that took, and how long they waited for others who compiled the same.
    """
    times = {arm: run_times(report.findings.reported_rows, arm) for arm in report.order}
    there = [own for own in times.values() if own is not None]
    heading = ("arm", "time per run", "time per step", "tokens per second")
    waits = any(own.compile_wait_seconds_per_run for own in there)
    if waits or any(own.compile_seconds_per_run for own in there):
        heading += ("compiling per run",)
    if waits:
        heading += ("waiting to compile per run",)
    return TimeBlock(
        heading=heading,
        lines=[_time_line(arm, own)[: len(heading)] for arm, own in times.items()],
        at_equal_seconds=[(one.arm or "all", one.text) for one in sensitivity_to_seconds(report)],
        dates=_dates(report),
    )


def _time_line(arm: str, own: RunTimes | None) -> tuple[str, ...]:
    if own is None:
        return arm, DASH, DASH, DASH, DASH, DASH
    return (
        arm,
        format_duration(own.seconds_per_run),
        format_duration(own.seconds_per_step),
        format_count(own.tokens_per_second),
        format_duration(own.compile_seconds_per_run),
        format_duration(own.compile_wait_seconds_per_run),
    )


def _dates(report: ReportData) -> list[tuple[str, str]]:
    lock = report.findings.lock
    if lock is None or report.anonymous:
        return []
    dates = [("plan locked", lock.frozen_at)]
    for change in lock.changes:
        dates.append((f"changed: {change['what']}", change["when"]))
    return dates


def without_clock(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what the clock decides."""
    clockless = dict(row)
    for name in CLOCK_FIELDS:
        clockless.pop(name, None)
    return clockless
