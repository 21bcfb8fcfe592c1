"""The interval of a tuned rate in words. It is never wider than an octave either side of the rate:
where it is that wide, the sweep says no more than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from pathlib import Path
from typing import Any

from paribus.analyse.rate_fit import MAX_OCTAVES
from paribus.record.plan import PlanRecord
from paribus.report.numbers import significant

_ROUNDING = 0.01  # octaves: a rate is recorded in three digits


def kept_sweeps(plan: PlanRecord) -> str:
    """The finished sweeps that rates were read from; '' if the study swept, or nothing was."""
    tune = plan.design.tune
    return ", ".join(Path(folder).name for folder in tune.rates) if tune else ""


def cut_ends(sweep: Mapping[str, Any]) -> tuple[bool, bool]:
    """Are the lower and the upper end of a rate's interval those at which it is cut?"""
    optimum = sweep["optimum"]
    ends = optimum.get("interval")
    if ends is None:
        return False, False
    rate = optimum.get("rate") or sweep["rate"]
    widest = MAX_OCTAVES - _ROUNDING
    return log2(rate / ends[0]) >= widest, log2(ends[1] / rate) >= widest


def describe_rate_interval(sweep: Mapping[str, Any]) -> str:
    """The 95 % interval of the rate that a sweep gave, and where it is cut; '' if there is none."""
    ends = sweep["optimum"].get("interval")
    if ends is None:
        return ""
    low, high = map(significant, ends)
    match cut_ends(sweep):
        case True, True:
            return f"95 % interval an octave or more either side, cut at {low} and {high}"
        case True, False:
            return f"95 % interval {low} (cut there, an octave below) to {high}"
        case False, True:
            return f"95 % interval {low} to {high} (cut there, an octave above)"
        case _:
            return f"95 % interval {low} to {high}"
