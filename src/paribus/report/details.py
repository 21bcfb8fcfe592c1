"""The numbers behind the verdict: all that was computed of each arm, for a reader who wants to
check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isinf

from paribus.analyse import Comparison, CrossedInterval, Pairing, PooledNoise, TrainedCount
from paribus.analyse.detection import detectable_gain, detectable_in_sds
from paribus.analyse.expected_gain import ExpectedGain, expected_gain
from paribus.analyse.findings import ArmFinding
from paribus.report.intervals import (
    DASH,
    format_interval,
    margin_interval_cell,
    multiplier_cell,
    percent_level,
)
from paribus.report.numbers import (
    decimals_for_width,
    format_percent,
    format_plain,
    format_signed,
    rough,
    significant,
)
from paribus.report.rate_intervals import describe_rate_interval
from paribus.report.report_data import ReportData


def details_heading(report: ReportData) -> tuple[str, ...]:
    return ("", *map(report.findings.label, report.findings.arms))


def detail_lines(report: ReportData) -> list[tuple[str, ...]]:
    """A line a number, a column an arm; a line that no arm has is left out."""
    findings, lines = report.findings, []
    for name, value in (*_line_makers(report), *_pooled_noise_makers(findings.pooled_noise)):
        values = tuple(map(value, findings.arms))
        if set(values) - {DASH}:
            lines.append((name, *values))
    return lines


def _line_makers(report: ReportData) -> Sequence[tuple[str, Callable[[ArmFinding], str]]]:
    unit = report.measure.unit
    return (
        ("verdict", lambda arm: arm.judgement.verdict.label),
        (
            f"gain, {unit}",
            _from_comparison(_describe_effect),
        ),
        ("spread of paired gains", _from_comparison(lambda one: significant(one.sd))),
        ("interval", _from_comparison(_describe_interval)),
        ("what decides on the margin", _from_comparison(margin_interval_cell)),
        ("p", _from_comparison(lambda one: _format_p(one.p))),
        ("adjusted p", _from_comparison(lambda one: _format_p(one.p_adjusted))),
        ("sign-flip p", _from_comparison(lambda one: _format_p(one.sign_flip))),
        (
            "sign test, on the median",
            _from_comparison(_describe_sign_test),
        ),
        ("gain with each seed left out", _from_comparison(_describe_leave_one_out)),
        (
            "effect with 80 % power, at the largest sd these seeds allow",
            _from_comparison(lambda one: _describe_detectable(one, report)),
        ),
        ("trained", lambda arm: _describe_trained(arm.judgement.arm_trained)),
        (
            "trained, what it is judged against",
            lambda arm: _describe_trained(arm.judgement.baseline_trained),
        ),
        ("McNemar's p of failing as often", lambda arm: _format_p(arm.judgement.mcnemar)),
        ("pairing, ρ", lambda arm: _describe_correlation(arm.pairing)),
        ("of the noise of unpaired runs, left", lambda arm: _describe_variance_ratio(arm.pairing)),
        ("learning rate", lambda arm: _describe_rate(arm.name, report)),
        (
            "learning rate, what it is judged against",
            lambda arm: _describe_rate(arm.against, report),
        ),
        ("what tuning could move", _describe_tuning_uncertainty),
        ("half an octave below the tuned rates", lambda arm: _describe_bracket(arm, "below")),
        ("half an octave above the tuned rates", lambda arm: _describe_bracket(arm, "above")),
        ("contexts cut", lambda arm: _describe_truncated(arm.name, report)),
        (
            "contexts cut, what it is judged against",
            lambda arm: _describe_truncated(arm.against, report),
        ),
        (
            "gain on new documents",
            _from_crossed_interval(lambda one: _describe_new_documents(one, unit)),
        ),
        (
            "to expect there, the wider of the two intervals",
            lambda arm: _describe_hull(arm, unit),
        ),
        (
            "its variance between seeds",
            _from_crossed_interval(lambda interval: _describe_variance(interval.seed_variance)),
        ),
        (
            "its variance between documents",
            _from_crossed_interval(lambda interval: _describe_variance(interval.item_variance)),
        ),
        ("compute multiplier", lambda arm: multiplier_cell(arm.multiplier)),
    )


def _pooled_noise_makers(
    pooled: PooledNoise | None,
) -> Sequence[tuple[str, Callable[[ArmFinding], str]]]:
    """One noise for all arms, and by what to judge it."""
    if pooled is None:
        return ()
    return (
        (
            "one noise for all arms",
            lambda arm: f"{significant(pooled.residual_sd)}, {pooled.df} degrees of freedom",
        ),
        ("the arm's own", lambda arm: _format_sd(pooled.residual_sds, arm.name)),
        (
            "own, of what it is judged against",
            lambda arm: _format_sd(pooled.residual_sds, arm.against),
        ),
        ("spread of the arm's scores", lambda arm: _format_sd(pooled.score_sds, arm.name)),
        (
            "spread of scores, what it is judged against",
            lambda arm: _format_sd(pooled.score_sds, arm.against),
        ),
    )


def _format_sd(sds: Mapping[str, float], arm: str) -> str:
    if arm in sds:
        return significant(sds[arm])
    return DASH


def _from_comparison(describe: Callable[[Comparison], str]) -> Callable[[ArmFinding], str]:
    def describe_arm(arm: ArmFinding) -> str:
        if arm.judgement.comparison is None:
            return DASH
        return describe(arm.judgement.comparison)

    return describe_arm


def _from_crossed_interval(
    describe: Callable[[CrossedInterval], str],
) -> Callable[[ArmFinding], str]:
    def describe_arm(arm: ArmFinding) -> str:
        if arm.new_documents is None or arm.new_documents.interval is None:
            return DASH
        return describe(arm.new_documents.interval)

    return describe_arm


def _describe_sign_test(comparison: Comparison) -> str:
    if comparison.sign_test is None:
        return DASH
    return comparison.sign_test.description


def _describe_hull(arm: ArmFinding, unit: str) -> str:
    gain = expected_gain(arm)
    if gain is not None and gain.is_hull:
        return format_interval(gain.low, gain.high, _digits_in(gain, unit))
    return DASH


def _digits(comparison: Comparison) -> int:
    return _digits_in(comparison, comparison.unit)


def _digits_in(interval: Comparison | CrossedInterval | ExpectedGain, unit: str) -> int:
    return decimals_for_width((interval.high - interval.low) / 2, unit)


def _describe_effect(comparison: Comparison) -> str:
    return format_signed(comparison.effect, _digits(comparison))


def _describe_interval(comparison: Comparison) -> str:
    return (
        f"{format_interval(comparison.low, comparison.high, _digits(comparison))}, at"
        f" {percent_level(comparison.level)}"
    )


def _describe_leave_one_out(comparison: Comparison) -> str:
    return format_interval(*comparison.leave_one_out, _digits(comparison))


def _format_p(value: float | None) -> str:
    if value is None:
        return DASH
    return significant(value)


def _describe_trained(count: TrainedCount) -> str:
    return f"{count}; 95 % interval {format_percent(count.low)} to {format_percent(count.high)}"


def _describe_correlation(pairing: Pairing | None) -> str:
    if pairing is None:
        return DASH
    return (
        f"{format_plain(pairing.rho, 2)}; 95 % interval {format_plain(pairing.low, 2)} to"
        f" {format_plain(pairing.high, 2)}"
    )


def _describe_new_documents(interval: CrossedInterval, unit: str) -> str:
    digits = _digits_in(interval, unit)
    ends = format_interval(interval.low, interval.high, digits)
    return f"{format_signed(interval.effect, digits)}; {ends}, at {percent_level(interval.level)}"


def _describe_variance(variance: float) -> str:
    """A component of variance; an estimate below 0 is recorded as 0."""
    if variance == 0:
        return "0: the estimate is not above 0, and clipped there"
    return significant(variance)


def _describe_detectable(comparison: Comparison, report: ReportData) -> str:
    if isinf(detectable_in_sds(report.findings)):
        return DASH
    return rough(detectable_gain(comparison, report.findings))


def _describe_variance_ratio(pairing: Pairing | None) -> str:
    if pairing is None:
        return DASH
    return format_percent(pairing.variance_ratio)


def _describe_rate(name: str, report: ReportData) -> str:
    """The rate an arm trained at, where not all had one, with the interval of its vertex where
    there is one.
    """
    rates = report.findings.rates
    if rates is None:
        if report.has_one_learning_rate:
            return DASH
        return significant(report.written_learning_rate(name))
    interval = describe_rate_interval(rates[name])
    rate = significant(rates[name]["rate"])
    return "; ".join(filter(None, (rate, interval)))


def _describe_tuning_uncertainty(arm: ArmFinding) -> str:
    """The loss if the best rate of either arm were at an end of its interval."""
    if arm.tuning_uncertainty is None:
        return DASH
    if isinf(arm.tuning_uncertainty):
        return "not known"
    return rough(arm.tuning_uncertainty)


def _describe_bracket(arm: ArmFinding, side: str) -> str:
    """The verdict, the gain and its interval at rates beside the tuned ones, where the design
    asks for them.
    """
    if side not in arm.brackets:
        return DASH
    own = arm.brackets[side]
    comparison = own.comparison
    if comparison is None:
        return own.verdict.word
    digits = _digits(comparison)
    return (
        f"{own.verdict.word}; {format_signed(comparison.effect, digits)},"
        f" {format_interval(comparison.low, comparison.high, digits)}"
    )


def _describe_truncated(name: str, report: ReportData) -> str:
    """How many contexts lost their beginnings, or texts their ends, where any did."""
    heads = {}
    for arm, evaluations in report.findings.evaluations.items():
        first = next(iter(evaluations.values()), None)
        if first is not None:
            heads[arm] = first.head
    if name in heads and any(head.n_truncated for head in heads.values()):
        return f"{heads[name].n_truncated} of {heads[name].n_items}"
    return DASH
