"""The effect plot: each seed a point, the mean, its two intervals, and the margin as a band.

The thick bar is the inner interval, which decides on the margin, the thin bar the outer one, which decides on a
difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import altair as alt

from paribus.analyse import Comparison
from paribus.analyse.findings import UNIT, Arm
from paribus.report.charts import Plot, arm_colours, colour, data, layered, lines_at, place_key, spec_of
from paribus.report.intervals import between, decided_words, digits_of, percent_level
from paribus.report.material import Material
from paribus.report.numbers import FEW, plain, signed, significant

ROW, LOW_ROW, EDGE = 64, 46, 12  # pixels an arm takes, one of many, and all of them together
LINE, LEADING = 18, 15  # letters of a label's line, and pixels
_PART = re.compile(r"\+?[^ +-]*[ -]?")  # of a name, which may be broken after a space or a hyphen, and before a plus
THIN, THICK = 1.5, 5  # pixels of the outer and of the inner interval
APART = 3  # a control whose effect is so many times larger has a plot of its own


def effects(material: Material) -> list[Plot]:
    """All arms in one plot, but for a positive control that would leave the others no room."""
    compared = [arm for arm in material.found.arms if arm.judgement.comparison is not None]
    if not compared:
        return []
    control = [arm for arm in compared if arm.name == material.control]
    others = [arm for arm in compared if arm.name != material.control]
    if not control or not others or _reach(control) <= APART * _reach(others):
        return [_plot("effect", _title(compared, material), compared, material)]
    return [
        _plot("effect", _title(others, material), others, material),
        replace(
            _plot("effect-control", "The positive control, on a scale of its own", control, material),
            caption="To be read as the plot above.",
        ),
    ]


def _reach(arms: Sequence[Arm]) -> float:
    ends = [abs(end) for arm in arms if (made := arm.judgement.comparison) for end in (made.low, made.high)]
    return max(ends, default=0.0)


def _plot(key: str, title: str, arms: Sequence[Arm], material: Material) -> Plot:
    seeds = [row for arm in arms for row in _seeds(arm, material)]
    described = "; ".join(f"{material.found.label(arm)}: {_told(arm.judgement.comparison)}" for arm in arms)
    spec = spec_of(_chart(arms, seeds, material), f"{title}: {described}.", _height(arms, material))
    if len(arms) > FEW:
        spec["config"]["axisX"] = {"titleAnchor": "end"}  # wide labels leave a narrow plot less room than its title
    numbers = tuple((row["pair"], str(row["seed"]), row["baseline"], row["score"], row["gained"]) for row in seeds)
    before = "baseline" if _with_baseline(arms, material) else "judged against"
    return Plot(key, title, _caption(arms, material), spec, ("arm", "seed", before, "arm's score", "gain"), numbers)


def _height(arms: Sequence[Arm], material: Material) -> int:
    n_lines = max(len(_lines(arm, material)) for arm in arms)
    return max(ROW if len(arms) <= FEW else LOW_ROW, LEADING * n_lines + EDGE) * len(arms) + EDGE


def _lines(arm: Arm, material: Material) -> list[str]:
    """A comparison's label in lines: its arm, and what it is judged against where that is not the baseline."""
    against = [] if arm.against == material.found.baseline else broken(f"against {arm.against}")
    return [*broken(arm.name), *against]


def broken(name: str) -> list[str]:
    """A name in lines, none longer than LINE where it can be broken."""
    lines = [""]
    for part in _PART.findall(name):
        if part and lines[-1] and len(lines[-1]) + len(part.rstrip()) > LINE:
            lines.append("")
        lines[-1] += part
    return [line.strip() for line in lines]


def _title(arms: Sequence[Arm], material: Material) -> str:
    return f"Gain over the {'baseline' if _with_baseline(arms, material) else 'arm it is judged against'}"


def _with_baseline(arms: Sequence[Arm], material: Material) -> bool:
    return all(arm.against == material.found.baseline for arm in arms)


def partners(arms: Sequence[Arm]) -> str:
    """What these are judged against: one arm's name, or each its own."""
    names = {arm.against for arm in arms}
    return names.pop() if len(names) == 1 else "the arm that each is judged against"


def _caption(arms: Sequence[Arm], material: Material) -> str:
    return (
        f"Each small point is a seed; the diamond is their mean and {_bars(arms)}. Right of zero is better than "
        f"{partners(arms)}.{_band_words(arms)}"
    )


def _bars(arms: Sequence[Arm]) -> str:
    """What the bars are; of an open number of seeds both intervals are one."""
    made = next(one for arm in arms if (one := arm.judgement.comparison) is not None)
    if made.open_ended:
        return "the bar its interval"
    inner, outer = percent_level(made.inner_level), percent_level(made.level)
    return (
        f"the bars its intervals: thin at {outer}, to show a difference, thick at {inner}, to show that there is none"
    )


def _margins(arms: Sequence[Arm]) -> list[float | None]:
    """The margin of each comparison, on average over seeds."""
    return [None if (made := arm.judgement.comparison) is None else made.margin for arm in arms]


def _band_words(arms: Sequence[Arm]) -> str:
    different = {margin for margin in _margins(arms) if margin is not None}
    if not different:
        return ""
    if len(different) > 1:
        return " The grey band is the margin of each."
    by_seed = any(made.margins for arm in arms if (made := arm.judgement.comparison) is not None)
    average = " on average over seeds" if by_seed else ""
    return f" The grey band is the margin, ±{significant(different.pop())}{average}."


def _chart(arms: Sequence[Arm], seeds: Sequence[dict[str, Any]], material: Material) -> alt.LayerChart:
    places = [material.found.label(arm) for arm in arms]
    keys = [place_key(place) for place in range(len(arms))]
    labels = lines_at([_lines(arm, material) for arm in arms])
    rows = alt.Y("row:N", title=None, sort=keys,
                 axis=alt.Axis(labelFontSize=13 if len(arms) <= FEW else 12, labelColor=colour("ink"), labelLimit=160,
                               labelExpr=labels, grid=False))  # fmt: skip
    each_mean = [{**_mean(arm, material), "row": key} for arm, key in zip(arms, keys, strict=True)]
    each_seed = [{**one, "row": keys[places.index(one["pair"])]} for one in seeds]
    means = alt.Chart(data(each_mean, material.order))
    bounded = alt.Chart(data([one for one in each_mean if one["low"] is not None], material.order))
    shade = arm_colours(material.order).legend(None)
    told = [alt.Tooltip(name) for name in ("pair:N", "effect:N", "interval:N", "decides:N", "verdict:N")]
    each = [alt.Tooltip(name) for name in ("pair:N", "seed:N", "gained:N", "run:N", "baseline run:N")]
    outer = bounded.mark_rule(strokeWidth=THIN, strokeCap="round").encode(
        x=_x("low:Q"), x2="high:Q", y=rows, color=shade, tooltip=told
    )
    inner = bounded.mark_rule(strokeWidth=THICK, strokeCap="round").encode(
        x=_x("inner_low:Q"), x2="inner_high:Q", y=rows, color=shade, tooltip=told
    )
    mean = means.mark_point(shape="diamond", size=130, filled=True, opacity=1).encode(
        x=_x("gain:Q"), y=rows, color=shade, tooltip=told
    )
    points = alt.Chart(data(each_seed, material.order)).mark_circle(size=46, opacity=0.65, yOffset=15).encode(
        x=_x("gain:Q"), y=rows, color=shade, tooltip=each
    )  # fmt: skip
    zero = alt.Chart(data([{"zero": 0}])).mark_rule(color=colour("muted"), strokeDash=[3, 3]).encode(x=_x("zero:Q"))
    return layered(*_band(_margins(arms), keys, rows), zero, outer, inner, mean, points)


def _x(field: str) -> alt.X:
    return alt.X(
        field, title=f"gain in {UNIT} (positive is better)", axis=alt.Axis(tickCount=5), scale=alt.Scale(padding=14)
    )


def _band(margins: Sequence[float | None], keys: Sequence[str], rows: alt.Y) -> list[alt.Chart]:
    """The margin behind all rows where it is one, else behind each row its own."""
    ends = [
        {"from": -margin, "to": margin, "row": key}
        for margin, key in zip(margins, keys, strict=True)
        if margin is not None
    ]
    if not ends:
        return []
    is_one = len(ends) == len(margins) and len(set(margins)) == 1
    band = alt.Chart(data(ends[:1] if is_one else ends)).mark_rect(color=colour("band"))
    if is_one:
        return [band.encode(x=_x("from:Q"), x2="to:Q")]
    return [band.encode(x=_x("from:Q"), x2="to:Q", y=rows)]


def _mean(arm: Arm, material: Material) -> dict[str, Any]:
    made = arm.judgement.comparison
    assert made is not None
    digits = digits_of(made)
    return {
        "arm": arm.name, "pair": material.found.label(arm), "gain": made.effect, "low": _end(made.low),
        "high": _end(made.high), "inner_low": _end(made.inner_low), "inner_high": _end(made.inner_high),
        "effect": signed(made.effect, digits),
        "interval": f"{between(made.low, made.high, digits)}, at {percent_level(made.level)}",
        "decides": decided_words(made) or "this interval", "verdict": str(arm.judgement.verdict),
    }  # fmt: skip


def _end(value: float) -> float | None:
    """An end of an interval, None where it has none and no bar can be drawn."""
    return value if isfinite(value) else None


def _seeds(arm: Arm, material: Material) -> list[dict[str, Any]]:
    runs = {(row["arm"], row["seed"]): row["run"] for row in material.found.reported}
    return [
        {
            "arm": arm.name, "pair": material.found.label(arm), "seed": one.seed, "gain": one.gain,
            "gained": signed(one.gain, 5),
            "baseline": plain(one.baseline, 4), "score": plain(one.arm, 4), "run": runs[arm.name, one.seed],
            "baseline run": runs[arm.against, one.seed],
        }
        for one in arm.judgement.seeds
        if one.gain is not None and one.baseline is not None and one.arm is not None
    ]  # fmt: skip


def _told(made: Comparison | None) -> str:
    if made is None:
        return ""
    decided = decided_words(made)
    told = f"{signed(made.effect, 4)}, {percent_level(made.level)} interval {between(made.low, made.high, 4)}"
    return f"{told}; {decided}" if decided else told
