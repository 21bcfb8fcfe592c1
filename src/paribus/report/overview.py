"""Many verdicts at a glance: a line a comparison, from four on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from paribus.analyse import Comparison
from paribus.analyse.findings import UNIT, ArmFinding
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
        word = f"{self.word}, {self.detail}" if self.detail else self.word
        gain = f"{self.gain}; {self.interval}" if self.interval else self.gain
        return f"{self.arm} against {self.against}{control}", word, gain, self.compute, self.advice


def comparison_lines(report: ReportData) -> list[ComparisonLine]:
    """Every comparison, the positive control last; none of so few that each has room for its
    sentences.
    """
    briefs = [_comparison_line(arm, arm.name == report.control) for arm in report.findings.arms]
    if len(briefs) > MAX_LISTED:
        return sorted(briefs, key=lambda one: one.is_control)
    return []


def comparison_headings(lines: Sequence[ComparisonLine], report: ReportData) -> tuple[str, ...]:
    """Of the columns: comparison, verdict, gain, compute, and advice where there is any."""
    if any(one.advice for one in lines):
        advice = ("what it would take",)
    else:
        advice = ()
    made = (arm.judgement.comparison for arm in report.findings.arms)
    level = next((f"; {percent_level(one.level)} interval" for one in made if one is not None), "")
    return "comparison", "verdict", f"gain, {UNIT}{level}", COMPUTE, *advice


def describe_tally(lines: Sequence[ComparisonLine], report: ReportData) -> str:
    """How many comparisons got which word; a positive control is not counted."""
    counts = Counter(one.word for one in lines if not one.is_control)
    many = len(counts) > 1
    words = [
        f"{counts[word] if many else 'all'} {TALLY_WORDS.get(word, word)}"
        for word in get_args(VerdictWord)
        if counts[word]
    ]
    control = " and a positive control" if counts.total() < len(lines) else ""
    made = format_plural(counts.total(), "comparison")
    return (
        f"{made}{control} over {format_plural(len(report.findings.seeds), 'paired seed')}:"
        f" {', '.join(words)}."
    )


def _comparison_line(arm: ArmFinding, is_control: bool) -> ComparisonLine:
    judgement, made = arm.judgement, arm.judgement.comparison
    word = judgement.verdict.word
    advice = advice_on_arm(arm)
    detail = "" if word == "equivalent" else judgement.verdict.detail
    return ComparisonLine(
        arm.name,
        arm.against,
        word,
        "; ".join(filter(None, (detail, judgement.verdict.doubt))),
        *((DASH, "") if made is None else _gain_cells(made)),
        DASH if made is None else multiplier_cell(arm.multiplier),
        "" if advice is None else advice.brief,
        is_control,
    )


def _gain_cells(comparison: Comparison) -> tuple[str, str]:
    return format_signed(comparison.effect, digits_of(comparison)), verdict_interval_cell(
        comparison
    )
