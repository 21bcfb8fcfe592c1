"""Which study of a series a report is of, and the earlier ones' numbers, which are shown and
not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from paribus.record.plan import EarlierRecord, GainRecord
from paribus.report.numbers import (
    DASH,
    decimals_for_width,
    format_plural,
    format_signed,
    join_words,
    percent_level,
    quote_arm,
)
from paribus.report.report_data import ReportData

NOT_JUDGED = (
    "Earlier studies of the series are shown and not judged; their seeds are no part of this"
    " verdict."
)


def describe_series(report: ReportData) -> list[str]:
    """That a study is a later one of a series, then a sentence an earlier one; nothing of a
    study that stands alone.
    """
    series = report.plan.series
    later = (
        "Later studies of it, each of fresh seeds and judged alone:"
        f" {join_words(list(report.later_studies))}."
    )
    if series is None:
        if report.later_studies:
            return [f"Study 1 of a series. {later}"]
        return []
    place = describe_series_place(series.number, report.plan.design.declared_seeds)
    sentences = [f"{place}. {NOT_JUDGED}"]
    unit = report.measure.unit
    for study in series.earlier:
        gains = "; ".join(_describe_gain(gain, report.order, unit) for gain in study.gains)
        sentences.append(
            f"{_describe_earlier(study)}, gains in {unit}, without a verdict: {gains}."
        )
    if report.later_studies:
        sentences.append(later)
    return sentences


def describe_series_place(number: int, seeds: Sequence[int]) -> str:
    """Study 2 of a series: 8 fresh seeds, 6 to 13, judged alone."""
    return (
        f"Study {number} of a series: {format_plural(len(seeds), 'fresh seed')},"
        f" {describe_seeds(seeds)}, judged alone"
    )


def describe_seeds(seeds: Sequence[int]) -> str:
    """6 to 13, or each of them if they are not a range."""
    seeds = sorted(seeds)
    is_range = seeds == list(range(seeds[0], seeds[-1] + 1))
    if len(seeds) > 1 and is_range:
        return f"{seeds[0]} to {seeds[-1]}"
    return join_words(list(map(str, seeds)))


def _describe_earlier(study: EarlierRecord) -> str:
    seeds = f"{format_plural(len(study.seeds), 'seed')}, {describe_seeds(study.seeds)}"
    return f"Study {study.number} ({study.study}; {seeds})"


def _quote_label(label: str, arms: Sequence[str]) -> str:
    """The name of a comparison of arms as a sentence has it; a contrast has no quotation marks."""
    if label in arms:
        return quote_arm(label)
    name, _, against = label.partition(" against ")
    if name in arms and against in arms:
        return f"{quote_arm(name)} against {quote_arm(against)}"
    return label


def _describe_gain(gain: GainRecord, arms: Sequence[str], unit: str) -> str:
    name = _quote_label(gain.of, arms)
    if gain.gain is None or gain.low is None or gain.high is None or gain.level is None:
        return f"{name} {DASH}"
    width = (gain.high - gain.low) / 2
    digits = decimals_for_width(width, unit)
    if isinf(width):
        return f"{name} {format_signed(gain.gain, digits)}"
    ends = (
        f"{format_signed(gain.low, digits)} to {format_signed(gain.high, digits)} at"
        f" {percent_level(gain.level)}"
    )
    return f"{name} {format_signed(gain.gain, digits)} ({ends})"
