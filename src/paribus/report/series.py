"""Which study of a series a report is of, and the earlier ones' numbers, which are shown and not judged."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from paribus.analyse.findings import UNIT
from paribus.record.plan import EarlierRecord, GainRecord
from paribus.report.material import Material
from paribus.report.numbers import NONE, decimals, listed, percent_level, signed, some

NOT_JUDGED = "Earlier studies of the series are shown and not judged; their seeds are no part of this verdict."


def series_words(material: Material) -> list[str]:
    """That a study is a later one of a series, then a sentence an earlier one; nothing of a study that stands alone."""
    series = material.plan.series
    later = [f"Later studies of it, each of fresh seeds and judged alone: {listed(list(material.later))}."]
    if series is None:
        return [f"Study 1 of a series. {later[0]}"] if material.later else []
    place = f"{series_place(series.number, material.plan.design.declared_seeds)}. {NOT_JUDGED}"
    return [place, *(_earlier(one) for one in series.earlier), *(later if material.later else ())]


def series_place(number: int, seeds: Sequence[int]) -> str:
    """Study 2 of a series: 8 fresh seeds, 6 to 13, judged alone."""
    return f"Study {number} of a series: {some(len(seeds), 'fresh seed')}, {seed_range(seeds)}, judged alone"


def seed_range(seeds: Sequence[int]) -> str:
    """6 to 13, or each of them where they are no range."""
    ordered = sorted(seeds)
    whole = ordered == list(range(ordered[0], ordered[-1] + 1))
    if len(ordered) > 1 and whole:
        return f"{ordered[0]} to {ordered[-1]}"
    return listed([str(seed) for seed in ordered])


def _earlier(one: EarlierRecord) -> str:
    gains = "; ".join(_gain(gain) for gain in one.gains)
    seeds = f"{some(len(one.seeds), 'seed')}, {seed_range(one.seeds)}"
    return f"Study {one.number} ({one.study}; {seeds}), gains in {UNIT}, without a verdict: {gains}."


def _gain(gain: GainRecord) -> str:
    if gain.gain is None or gain.low is None or gain.high is None or gain.level is None:
        return f"{gain.of} {NONE}"
    width = (gain.high - gain.low) / 2
    digits = decimals(width)
    if isinf(width):
        return f"{gain.of} {signed(gain.gain, digits)}"
    ends = f"{signed(gain.low, digits)} to {signed(gain.high, digits)} at {percent_level(gain.level)}"
    return f"{gain.of} {signed(gain.gain, digits)} ({ends})"
