"""Intervals in words and cells: the one that decides first, each with its level."""

from __future__ import annotations

from math import inf, isinf

from paribus.analyse import Comparison, Multiplier
from paribus.analyse.deciding import Deciding, deciding_words
from paribus.analyse.findings import UNIT
from paribus.analyse.lengths import FULL_ALONE
from paribus.report.numbers import NONE, decimals, percent_level, plain, signed, some


def digits_of(made: Comparison) -> int:
    return decimals((made.high - made.low) / 2)


def between(low: float, high: float, digits: int) -> str:
    """Both ends; of an open number of seeds, the first few have none."""
    return "no interval yet" if isinf(high) else f"{signed(low, digits)} to {signed(high, digits)}"


def numbers(made: Comparison, is_judged: bool = True) -> str:
    """Effect, the interval that decides where that is not the outer one, the outer one, and seeds."""
    digits, seeds = digits_of(made), some(made.n, "paired seed")
    gain = f"gain {signed(made.effect, digits)} {UNIT}"
    level = percent_level(made.level)
    if isinf(made.high):
        return f"{gain}, {seeds}: too few for an interval at {level} that holds at any number of them"
    outer = f"{level} interval {between(made.low, made.high, digits)}"
    decided = decided_words(made) if is_judged else ""
    return f"{gain}, {decided}; {outer}, {seeds}" if decided else f"{gain}, {outer}, {seeds}"


def decided_words(made: Comparison) -> str:
    """The interval that decided on the margin; empty where the outer one decides alone."""
    return "" if made.deciding is None else deciding_words(made.deciding, signed, digits_of(made), UNIT)


def decided_cell(made: Comparison) -> str:
    """The interval that decides, for a table whose heading has the level of the outer one."""
    if made.deciding is None:
        return between(made.low, made.high, digits_of(made))
    return _deciding_cell(made.deciding, digits_of(made))


def margin_cell(made: Comparison) -> str:
    """What decides on the margin, whatever it decided; – without a margin or an interval."""
    if made.margin is None or isinf(made.high):
        return NONE
    if made.deciding is not None:
        return _deciding_cell(made.deciding, digits_of(made))
    digits, level = digits_of(made), percent_level(made.inner_level)
    if made.beside is None:
        return f"{between(made.inner_low, made.inner_high, digits)}, at {level}"
    plus, less = (signed(end, digits) for end in made.beside.deciding_ends)
    return f"gain − margin up to {less}, gain + margin from {plus}, at {level}"


def _deciding_cell(found: Deciding, least: int) -> str:
    digits = found.digits(signed, least)
    low, high, level = signed(found.low, digits), signed(found.high, digits), percent_level(found.level)
    margin = plain(found.margin, digits)
    if found.is_one_sided:
        level = percent_level((1 + found.level) / 2)
        return f"{_plus(found)}from {low}, at one-sided {level}{_above(found, margin)}"
    if found.of == "by seed":
        return f"gain − margin up to {high}, gain + margin from {low}, at {level}"
    return f"{low} to {high}, at {level}, inside ±{margin}"


def _plus(found: Deciding) -> str:
    return "gain + margin " if found.of == "by seed" else ""


def _above(found: Deciding, margin: str) -> str:
    return "" if found.of == "by seed" else f", above −{margin}"


def multiplied(found: Multiplier | None) -> str:
    """A compute multiplier with its interval, for a cell."""
    if found is None or found.reason == FULL_ALONE:
        return NONE
    if found.factor is None:
        return f"not said: what it is judged against {found.reason}"
    mark = " (extrapolated)" if 1 < found.factor < inf else ""
    ends = factor_ends(found)
    return f"{_factor(found)}{mark}; {ends}" if ends else _factor(found)


def _factor(found: Multiplier) -> str:
    assert found.factor is not None
    return {0.0: f"below {plain(found.least, 2)}", inf: "above 2"}.get(found.factor, plain(found.factor, 2))


def factor_ends(found: Multiplier) -> str:
    """The interval of a multiplier without an end that lies beyond what is read; nothing where both ends lie there."""
    low, high = found.low, found.high
    if low is None or high is None:
        return "no interval yet"
    if low == high:
        return ""
    if low == 0.0 and high == inf:
        return f"no interval between {plain(found.least, 2)} and 2"
    if high == inf:
        return f"at least {plain(low, 2)}"
    return f"at most {plain(high, 2)}" if low == 0.0 else f"{plain(low, 2)} to {plain(high, 2)}"


def compute_words(name: str, against: str, found: Multiplier | None) -> str:
    """The effect as a multiple of tokens, by the lengths of what it is judged against, or why there is none."""
    if found is None or found.factor is None:
        reason = "" if found is None else f", for {against} {found.reason}"
        return f"In compute: not said{reason}."
    factors = {0.0: f"less than {plain(found.least, 2)}", inf: "more than 2"}
    times = factors.get(found.factor, f"about {plain(found.factor, 2)}")
    said = f"In compute: {against} would need {times} times its tokens to score like {name}"
    ends = factor_ends(found)
    if not ends:
        return f"{said}, further than its lengths are read." if found.said is None else f"{said}."
    interval = f"interval {ends}" if ends[0].isdigit() else ends
    how = f"read off {against}'s annealed lengths"
    beyond = ", above 1 extrapolated by the slope at full length" if found.is_extrapolated else ""
    return f"{said} ({interval}; {how}{beyond})."
