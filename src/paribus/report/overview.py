"""Many verdicts at a glance: a line a comparison, from four on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from paribus.analyse.findings import ArmFinding
from paribus.analyse.verdict import VerdictWord
from paribus.report.intervals import (
    DASH,
    digits_of,
    multiplier_cell,
    percent_level,
    verdict_interval_cell,
)
from paribus.report.numbers import MAX_LISTED, format_plural, format_signed
from paribus.report.report_data import ReportData
from paribus.report.verdicts import advice_on_arm

COMPUTE = "compute multiplier"
TALLY_WORDS = {"no verdict": "without a verdict"}  # words that read otherwise after a number


@dataclass(frozen=True)
class ComparisonLine:
    """One comparison in a line; `advice` is what it would take, where nothing can be said."""

    arm: str
    against: str
    word: str
    label: str  # the word, with the seeds that it is of where some runs failed
    detail: str
    gain: str
    interval: str
    compute: str
    advice: str
    is_control: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The line as text."""
        control = " (the positive control)" if self.is_control else ""
        word = f"{self.label}, {self.detail}" if self.detail else self.label
        gain = f"{self.gain}; {self.interval}" if self.interval else self.gain
        return f"{self.arm} against {self.against}{control}", word, gain, self.compute, self.advice


def comparison_lines(report: ReportData) -> list[ComparisonLine]:
    """Every comparison, the positive control last; none of so few that each has room for its
    sentences.
    """
    arms = report.findings.arms
    if len(arms) <= MAX_LISTED:
        return []
    lines = []
    for arm in arms:
        difference = report.plan.difference_of(arm.name, arm.against)
        mark = "" if difference is None else difference.mark
        lines.append(_comparison_line(arm, mark, arm.name == report.first_edition_control_arm))
    return sorted(lines, key=lambda one: one.is_control)


def comparison_headings(lines: Sequence[ComparisonLine], report: ReportData) -> tuple[str, ...]:
    """Of the columns: comparison, verdict, gain, compute, and advice where there is any."""
    gain = f"gain, {report.measure.unit}{_describe_level(report)}"
    headings = ("comparison", "verdict", gain, COMPUTE)
    if any(one.advice for one in lines):
        return *headings, "what it would take"
    return headings


def _describe_level(report: ReportData) -> str:
    """At which level intervals are; empty where no comparison has one."""
    for arm in report.findings.arms:
        if arm.judgement.comparison is not None:
            return f"; {percent_level(arm.judgement.comparison.level)} interval"
    return ""


def describe_tally(lines: Sequence[ComparisonLine], report: ReportData) -> str:
    """How many comparisons got which word; a positive control is not counted."""
    order = get_args(VerdictWord)
    judged = sorted(
        (one for one in lines if not one.is_control), key=lambda one: order.index(one.word)
    )
    counts = Counter(one.label for one in judged)
    words: list[str] = []
    for label, n in counts.items():
        count = n if len(counts) > 1 else "all"
        words.append(f"{count} {TALLY_WORDS.get(label, label)}")
    comparisons = format_plural(counts.total(), "comparison")
    if counts.total() < len(lines):
        comparisons += " and a positive control"
    seeds = format_plural(len(report.findings.seeds), "paired seed")
    return f"{comparisons} over {seeds}: {', '.join(words)}."


def _comparison_line(arm: ArmFinding, mark: str, is_control: bool) -> ComparisonLine:
    verdict, comparison = arm.judgement.verdict, arm.judgement.comparison
    advice = advice_on_arm(arm)
    detail = "" if verdict.word == "equivalent" else verdict.detail
    brief_advice = "" if advice is None else advice.brief
    if comparison is None:
        gain, interval, compute = DASH, "", DASH
    else:
        gain = format_signed(comparison.effect, digits_of(comparison))
        interval, compute = verdict_interval_cell(comparison), multiplier_cell(arm.multiplier)
    return ComparisonLine(
        arm=arm.name,
        against=arm.against,
        word=verdict.word,
        label=verdict.label,
        detail="; ".join(filter(None, (detail, verdict.doubt, mark))),
        gain=gain,
        interval=interval,
        compute=compute,
        advice=brief_advice,
        is_control=is_control,
    )
