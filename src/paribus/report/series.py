"""Which study of a series a report is of, and the earlier ones' numbers, which are shown and
not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from paribus.analyse.findings import UNIT
from paribus.record.plan import EarlierRecord, GainRecord
from paribus.report.numbers import (
    DASH,
    decimals_for_width,
    format_plural,
    format_signed,
    join_words,
    percent_level,
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
    later = [
        "Later studies of it, each of fresh seeds and judged alone:"
        f" {join_words(list(report.later_studies))}."
    ]
    if series is None:
        if report.later_studies:
            return [f"Study 1 of a series. {later[0]}"]
        return []
    place = (
        f"{describe_series_place(series.number, report.plan.design.declared_seeds)}. {NOT_JUDGED}"
    )
    return [
        place,
        *(_describe_earlier(one) for one in series.earlier),
        *(later if report.later_studies else ()),
    ]


def describe_series_place(number: int, seeds: Sequence[int]) -> str:
    """Study 2 of a series: 8 fresh seeds, 6 to 13, judged alone."""
    return (
        f"Study {number} of a series: {format_plural(len(seeds), 'fresh seed')},"
        f" {describe_seeds(seeds)}, judged alone"
    )


def describe_seeds(seeds: Sequence[int]) -> str:
    """6 to 13, or each of them where they are no range."""
    ordered = sorted(seeds)
    whole = ordered == list(range(ordered[0], ordered[-1] + 1))
    if len(ordered) > 1 and whole:
        return f"{ordered[0]} to {ordered[-1]}"
    return join_words([str(seed) for seed in ordered])


def _describe_earlier(study: EarlierRecord) -> str:
    gains = "; ".join(_describe_gain(gain) for gain in study.gains)
    seeds = f"{format_plural(len(study.seeds), 'seed')}, {describe_seeds(study.seeds)}"
    return (
        f"Study {study.number} ({study.study}; {seeds}), gains in {UNIT}, without a verdict:"
        f" {gains}."
    )


def _describe_gain(gain: GainRecord) -> str:
    if gain.gain is None or gain.low is None or gain.high is None or gain.level is None:
        return f"{gain.of} {DASH}"
    width = (gain.high - gain.low) / 2
    digits = decimals_for_width(width)
    if isinf(width):
        return f"{gain.of} {format_signed(gain.gain, digits)}"
    ends = (
        f"{format_signed(gain.low, digits)} to {format_signed(gain.high, digits)} at"
        f" {percent_level(gain.level)}"
    )
    return f"{gain.of} {format_signed(gain.gain, digits)} ({ends})"
