"""Same verdict if the arms were made equal in something else? Only annealed runs get a word.

What is read off a curve in mid-schedule is a gain on validation text, to explore, marked *not
annealed*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paribus.analyse import (
    Comparison,
    EqualTotalComparison,
    MidScheduleGain,
    Total,
    annealed_lengths,
    column_of,
    compare_annealed_at_equal_total,
    compare_at_equal_total,
)
from paribus.analyse.bound_verdict import compare_scores
from paribus.analyse.equal_totals import RowsByLength, count_earlier_stages, mean_total
from paribus.analyse.findings import ArmFinding
from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.run_table import Row
from paribus.analyse.seed_scores import scores_at_rate
from paribus.analyse.verdict import REASONED_WORDS
from paribus.errors import SpecError
from paribus.report.intervals import format_interval
from paribus.report.numbers import (
    DASH,
    decimals_for_width,
    format_count,
    format_duration,
    format_flops,
    format_signed,
    quote_arm,
)
from paribus.report.report_data import ReportData

TOTAL_NAMES: dict[Total, str] = {
    "dense_flops": "training FLOPs",
    "tokens_read": "tokens read",
    "tokens_scored": "tokens scored",
    "seconds": "seconds",
}
TOTAL_FORMATS: dict[Total, Callable[[float], str]] = {
    "dense_flops": format_flops,
    "tokens_read": format_count,
    "tokens_scored": format_count,
    "seconds": format_duration,
}
NOTHING_TO_COMPARE = "there is no verdict to compare with"
CLOCKLESS_TOTALS: tuple[Total, ...] = ("dense_flops", "tokens_read", "tokens_scored")
NOT_ANNEALED = "not annealed"
NOT_KNOWN = "not known"


@dataclass(frozen=True)
class SensitivityLine:
    """What is said of one arm if something else is made equal."""

    arm: str  # empty: all of them
    by: str
    same: str  # yes, no, not annealed, not known, or a dash
    text: str


def sensitivity_lines(report: ReportData) -> list[SensitivityLine]:
    """By FLOPs and tokens, and at the base rate; what depends on the clock is told among the
    times.
    """
    if report.findings.agreement.faults:
        return []
    arms = report.findings.arms
    lines: list[SensitivityLine] = []
    for by in CLOCKLESS_TOTALS:
        lines += _merge_equal_lines([_equal_total_line(arm, report, by) for arm in arms])
    lines += _merge_equal_lines([_base_rate_line(arm, report) for arm in arms])
    return lines


def sensitivity_to_seconds(report: ReportData) -> list[SensitivityLine]:
    """Gains where every run had taken as long; no verdict, for seconds are of a machine and of
    what else it did.
    """
    if report.findings.agreement.faults:
        return []
    lines: list[SensitivityLine] = []
    for arm in report.findings.arms:
        line = replace(_equal_total_line(arm, report, "seconds"), same=DASH)
        if _has_chains(arm, report):
            line = replace(line, text=f"{line.text} (the last stage alone)")
        lines.append(line)
    return _merge_equal_lines(lines)


def _merge_equal_lines(lines: list[SensitivityLine]) -> list[SensitivityLine]:
    """One line where the same is said of every arm."""
    alone = len({(one.same, one.text) for one in lines}) == 1 and len(lines) > 1
    if alone:
        return [replace(lines[0], arm="")]
    return lines


def _equal_total_line(arm: ArmFinding, report: ReportData, by: Total) -> SensitivityLine:
    name = TOTAL_NAMES[by]
    if arm.judgement.verdict.word in REASONED_WORDS:
        return SensitivityLine(arm.name, name, DASH, NOTHING_TO_COMPARE)
    at_total = compare_at_equal_total(
        _runs_of_all_stages(report, arm.against), _runs_of_all_stages(report, arm.name), by
    )
    comparable = report.has_same_task(arm.name, arm.against)
    if at_total.is_equal and comparable:
        why = "" if by == "seconds" else "by construction: "
        return SensitivityLine(arm.name, name, "yes", f"{why}the totals are equal")
    if by != "seconds" and not at_total.is_equal:
        annealed = _annealed_comparison(arm, report, by)
        if annealed is not None:
            return _annealed_line(arm, report, annealed)
    if not comparable:
        why = "not comparable: the arms' curves answer different questions"
        return SensitivityLine(arm.name, name, DASH, why)
    is_beyond = at_total.mid_schedule is None and at_total.at is not None
    if is_beyond and by != "seconds" and _has_chains(arm, report):
        return SensitivityLine(arm.name, name, NOT_KNOWN, _describe_unequal_chains(arm, report, by))
    if at_total.mid_schedule is None:
        return SensitivityLine(arm.name, name, DASH, at_total.reason)
    return _mid_schedule_line(arm, report, at_total, at_total.mid_schedule)


def _runs_of_all_stages(report: ReportData, arm: str) -> dict[int, list[Row]]:
    """The rows of an arm's runs, by seed, with what the stages before the last had spent."""
    plan = report.plan.arms[arm]
    runs: dict[int, list[Row]] = {}
    for seed, rows in report.findings.runs[arm].items():
        runs[seed] = [count_earlier_stages(row, plan) for row in rows]
    return runs


def _lengths_of_all_stages(report: ReportData, arm: str, seeds: Sequence[int]) -> RowsByLength:
    """The annealed runs of an arm, with what the stages before the last had spent."""
    plan = report.plan.arms[arm]
    lengths: dict[int, dict[int, Row]] = {}
    for n_steps, by_seed in annealed_lengths(report.findings.table, arm, seeds).items():
        lengths[n_steps] = {seed: count_earlier_stages(row, plan) for seed, row in by_seed.items()}
    return lengths


def _has_chains(arm: ArmFinding, report: ReportData) -> bool:
    """Has a run of either arm more than one stage?"""
    return any(len(report.plan.arms[name].run.stages) > 1 for name in (arm.name, arm.against))


def _describe_unequal_chains(arm: ArmFinding, report: ReportData, by: Total) -> str:
    """What both arms spend in all their stages, where no two runs had spent as much."""
    spent: list[str] = []
    for name in (arm.name, arm.against):
        spent.append(TOTAL_FORMATS[by](mean_total(_runs_of_all_stages(report, name), by)))
    own, other = spent
    return (
        f"not equal: {own} in all stages, {other} for {quote_arm(arm.against)}; no run of the last"
        " stage ended at an equal total"
    )


def _annealed_comparison(
    arm: ArmFinding, report: ReportData, by: Total
) -> EqualTotalComparison | None:
    """The comparison at the largest total at which both arms have runs that ended; None where
    there is none.
    """
    findings = report.findings
    seeds = sorted(findings.runs[arm.against].keys() & findings.runs[arm.name].keys())
    return compare_annealed_at_equal_total(
        _lengths_of_all_stages(report, arm.against, seeds),
        _lengths_of_all_stages(report, arm.name, seeds),
        by,
        column_of(report.plan.design.primary.measure.table),
        findings.measure,
        findings.criterion_against(arm.against),
    )


def _annealed_line(
    arm: ArmFinding, report: ReportData, comparison: EqualTotalComparison
) -> SensitivityLine:
    """What annealed runs say that had spent as much."""
    if comparison.comparison is None:
        return SensitivityLine(arm.name, TOTAL_NAMES[comparison.by], DASH, comparison.reason)
    at, annealed = TOTAL_FORMATS[comparison.by](comparison.at or 0.0), comparison.comparison
    text = (
        f"{annealed.verdict.word}{_against_note(arm, report)} at {at}: {_describe_gain(annealed)},"
        " runs annealed to that length"
    )
    return SensitivityLine(arm.name, TOTAL_NAMES[comparison.by], _same_verdict(arm, annealed), text)


def _mid_schedule_line(
    arm: ArmFinding, report: ReportData, comparison: EqualTotalComparison, gain: MidScheduleGain
) -> SensitivityLine:
    """A gain without a word: at least one of the two arms had not come to the end of its
    schedule.
    """
    at = TOTAL_FORMATS[comparison.by](comparison.at or 0.0)
    text = (
        f"{NOT_ANNEALED}: gain{_against_note(arm, report)} {_describe_gain(gain)} at {at}, on"
        " validation text; no verdict"
    )
    return SensitivityLine(arm.name, TOTAL_NAMES[comparison.by], NOT_ANNEALED, text)


def _same_verdict(arm: ArmFinding, comparison: Comparison) -> str:
    if comparison.verdict.word == arm.judgement.verdict.word:
        return "yes"
    return "no"


def _describe_gain(gain: Comparison | MidScheduleGain) -> str:
    unit = gain.unit if isinstance(gain, Comparison) else ""  # mid-schedule: bits per byte
    digits = decimals_for_width((gain.high - gain.low) / 2, unit)
    return f"{format_signed(gain.effect, digits)}, {format_interval(gain.low, gain.high, digits)}"


def _against_note(arm: ArmFinding, report: ReportData) -> str:
    """What an arm is judged against, where that is not the baseline."""
    if arm.against == report.findings.baseline:
        return ""
    return f" against {quote_arm(arm.against)}"


def _base_rate_line(arm: ArmFinding, report: ReportData) -> SensitivityLine:
    rate = report.stage(report.findings.baseline).training.optimizer.rate
    by = f"the base rate, {rate:g}"
    if arm.judgement.verdict.word in REASONED_WORDS:
        return SensitivityLine(arm.name, by, DASH, NOTHING_TO_COMPARE)
    if report.findings.rates is None:
        return _untuned_rate_line(arm, report, by)
    return _line_at_base_rate(arm, report, rate, by)


def _line_at_base_rate(
    arm: ArmFinding, report: ReportData, rate: float, by: str
) -> SensitivityLine:
    """What the reported seeds say at the base rate and the reported length; not known where one
    was not trained so.
    """
    findings, seeds = report.findings, report.findings.seeds
    column = column_of(report.plan.design.primary.measure.table)
    before = scores_at_rate(findings.table, arm.against, rate, column)
    after = scores_at_rate(findings.table, arm.name, rate, column)
    if len(seeds) < MIN_SEEDS or not set(seeds) <= before.keys() & after.keys():
        why = "the reported seeds were not all trained at it, at the reported length"
        return SensitivityLine(arm.name, by, NOT_KNOWN, why)
    try:
        at_rate = compare_scores(
            [[scores[seed] for seed in seeds] for scores in (before, after)],
            [findings.measure.gain(before[seed], after[seed]) for seed in seeds],
            findings.measure,
            findings.criterion_against(arm.against).for_seeds(seeds),
        )
    except SpecError as fault:
        return SensitivityLine(arm.name, by, DASH, str(fault))
    text = (
        f"{at_rate.verdict.word}{_against_note(arm, report)}: {_describe_gain(at_rate)}, the"
        " reported seeds at that rate"
    )
    return SensitivityLine(arm.name, by, _same_verdict(arm, at_rate), text)


def _untuned_rate_line(arm: ArmFinding, report: ReportData, by: str) -> SensitivityLine:
    """Where nothing was tuned: every arm trained at the rate written for it."""
    if report.has_one_learning_rate:
        return SensitivityLine(arm.name, by, "yes", "by construction: all arms trained at it")
    if report.written_learning_rate(arm.name) == report.written_learning_rate(arm.against):
        text = f"by construction: {quote_arm(arm.name)} trained at it too"
        return SensitivityLine(arm.name, by, "yes", text)
    text = f"{quote_arm(arm.name)} trained at {report.written_learning_rate(arm.name):g} alone"
    return SensitivityLine(arm.name, by, DASH, text)
