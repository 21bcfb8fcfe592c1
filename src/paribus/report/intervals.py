"""Intervals in words and cells: the one that decides first, each with its level."""

from __future__ import annotations

from math import inf, isinf

from paribus.analyse import Comparison, Multiplier
from paribus.analyse.deciding_interval import DecidingInterval, describe_deciding_interval
from paribus.analyse.length_curves import NO_CURVE_DECLARED
from paribus.report.numbers import (
    DASH,
    decimals_for_width,
    format_plain,
    format_plural,
    format_signed,
    percent_level,
    quote_arm,
    whole_percent,
)
from paribus.spec.measure import with_unit


def digits_of(comparison: Comparison) -> int:
    return decimals_for_width((comparison.high - comparison.low) / 2, comparison.unit)


def format_interval(low: float, high: float, digits: int) -> str:
    """Both ends; of an open number of seeds, the first few have none."""
    if isinf(high):
        return "no interval yet"
    return f"{format_signed(low, digits)} to {format_signed(high, digits)}"


def describe_gain(comparison: Comparison, is_judged: bool = True) -> str:
    """Effect, the interval that decides where that is not the outer one, the outer one, and
    seeds.
    """
    digits, seeds = digits_of(comparison), format_plural(comparison.n, "paired seed")
    gain = f"gain {with_unit(format_signed(comparison.effect, digits), comparison.unit)}"
    level = percent_level(comparison.level)
    if isinf(comparison.high):
        return (
            f"{gain}, {seeds}: too few for an interval at {level} that holds at any number of them"
        )
    outer = f"{level} interval {format_interval(comparison.low, comparison.high, digits)}"
    if is_judged and comparison.deciding_interval is not None:
        return f"{gain}, {describe_deciding(comparison)}; {outer}, {seeds}"
    return f"{gain}, {outer}, {seeds}"


def describe_deciding(comparison: Comparison) -> str:
    """The interval that decided on the margin; empty where the outer one decides alone."""
    if comparison.deciding_interval is None:
        return ""
    return describe_deciding_interval(
        comparison.deciding_interval, format_signed, digits_of(comparison), comparison.unit
    )


def verdict_interval_cell(comparison: Comparison) -> str:
    """The interval that decides, for a table whose heading has the level of the outer one."""
    if comparison.deciding_interval is None:
        return format_interval(comparison.low, comparison.high, digits_of(comparison))
    return _deciding_cell(comparison.deciding_interval, digits_of(comparison))


def margin_interval_cell(comparison: Comparison) -> str:
    """What decides on the margin, whatever it decided; – without a margin or an interval."""
    if comparison.margin is None or isinf(comparison.high):
        return DASH
    if comparison.deciding_interval is not None:
        return _deciding_cell(comparison.deciding_interval, digits_of(comparison))
    digits, level = digits_of(comparison), percent_level(comparison.inner_level)
    if comparison.margin_intervals is None:
        return f"{format_interval(comparison.inner_low, comparison.inner_high, digits)}, at {level}"
    plus, minus = comparison.margin_intervals.deciding_ends
    return (
        f"gain − margin up to {format_signed(minus, digits)}, gain + margin from"
        f" {format_signed(plus, digits)}, at {level}"
    )


def _deciding_cell(interval: DecidingInterval, min_digits: int) -> str:
    digits = interval.digits_needed(format_signed, min_digits)
    low, high, level = (
        format_signed(interval.low, digits),
        format_signed(interval.high, digits),
        percent_level(interval.level),
    )
    margin = format_plain(interval.margin, digits)
    if interval.is_one_sided:
        level = percent_level((1 + interval.level) / 2)
        return (
            f"{_plus_margin_prefix(interval)}from {low}, at one-sided"
            f" {level}{_above_margin_note(interval, margin)}"
        )
    if interval.kind == "by seed":
        return f"gain − margin up to {high}, gain + margin from {low}, at {level}"
    return f"{low} to {high}, at {level}, inside ±{margin}"


def _plus_margin_prefix(interval: DecidingInterval) -> str:
    if interval.kind == "by seed":
        return "gain + margin "
    return ""


def _above_margin_note(interval: DecidingInterval, margin: str) -> str:
    if interval.kind == "by seed":
        return ""
    return f", above −{margin}"


def multiplier_cell(multiplier: Multiplier | None) -> str:
    """A compute multiplier with its interval, for a cell."""
    if multiplier is None or multiplier.reason in NO_CURVE_DECLARED:
        return DASH
    if multiplier.factor is None:
        return f"not said: what it is judged against {multiplier.reason}"
    factor, ends = _format_factor(multiplier), describe_factor_interval(multiplier)
    if not ends:
        return factor
    if 1 < multiplier.factor < inf:
        return f"{factor} (extrapolated); {ends}"
    return f"{factor}; {ends}"


def _format_factor(multiplier: Multiplier) -> str:
    assert multiplier.factor is not None
    return {0.0: f"below {format_plain(multiplier.min_factor, 2)}", inf: "above 2"}.get(
        multiplier.factor, format_plain(multiplier.factor, 2)
    )


def describe_factor_interval(multiplier: Multiplier) -> str:
    """The interval of a multiplier without an end that lies beyond what is read; nothing where
    both ends lie there.
    """
    low, high = multiplier.low, multiplier.high
    if low is None or high is None:
        return "no interval yet"
    if low == high:
        return ""
    if low == 0.0 and high == inf:
        return f"no interval between {format_plain(multiplier.min_factor, 2)} and 2"
    if high == inf:
        return f"at least {format_plain(low, 2)}"
    if low == 0.0:
        return f"at most {format_plain(high, 2)}"
    return f"{format_plain(low, 2)} to {format_plain(high, 2)}"


def _describe_factor(name: str, against: str, multiplier: Multiplier) -> str:
    """When an arm reaches the final score of another, in its own tokens."""
    factor = multiplier.factor
    assert factor is not None
    arm, reference = quote_arm(name), quote_arm(against)
    if factor == 0.0:
        share = whole_percent(multiplier.min_factor)
        return f"{reference} reaches the final score of {arm} before {share} of its tokens"
    if factor < 1:
        share = whole_percent(factor)
        return f"{reference} reaches the final score of {arm} after {share} of its tokens"
    if factor == inf:
        times = "more than 2"
    else:
        times = f"about {format_plain(factor, 2)}"
    return f"{reference} would need {times} times its tokens to reach the final score of {arm}"


def describe_compute(name: str, against: str, multiplier: Multiplier | None) -> str:
    """The effect as a multiple of tokens, by the lengths of what it is judged against, or why
    there is none; nothing where the design has too few lengths, which is said once.
    """
    if multiplier is not None and multiplier.reason in NO_CURVE_DECLARED:
        return ""
    if multiplier is None or multiplier.factor is None:
        if multiplier is None:
            reason = ""
        else:
            reason = f", for {quote_arm(against)} {multiplier.reason}"
        return f"In compute: not said{reason}."
    sentence = f"In compute: {_describe_factor(name, against, multiplier)}"
    interval = describe_factor_interval(multiplier)
    if not interval:
        if multiplier.factor_in_range is None:
            return f"{sentence}, further than its lengths are read."
        return f"{sentence}."
    if interval[0].isdigit():
        interval = f"interval {interval}"
    how = f"read off the annealed lengths of {quote_arm(against)}"
    if multiplier.is_extrapolated:
        how += ", above 1 extrapolated by the slope at full length"
    return f"{sentence} ({interval}; {how})."
