"""The effect plot: each seed a point, the mean, its two intervals, and the margin as a band.

The thick bar is the inner interval, which decides on the margin, the thin bar the outer one, which
decides on a difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import altair as alt

from paribus.analyse import Comparison
from paribus.analyse.findings import UNIT, ArmFinding
from paribus.report.charts import (
    Plot,
    arm_colours,
    chart_data,
    chart_spec,
    css_colour,
    layer_charts,
    multiline_label_expression,
    row_key,
)
from paribus.report.intervals import describe_deciding, digits_of, format_interval, percent_level
from paribus.report.numbers import MAX_LISTED, format_plain, format_signed, significant
from paribus.report.report_data import ReportData

ROW, LOW_ROW, EDGE = 64, 46, 12  # pixels an arm takes, one of many, and all of them together
LINE, LEADING = 18, 15  # letters of a label's line, and pixels
# of a name, which may be broken after a space or a hyphen, and before a plus
_NAME_PIECE = re.compile(r"\+?[^ +-]*[ -]?")
THIN, THICK = 1.5, 5  # pixels of the outer and of the inner interval
SEPARATE_PLOT_RATIO = 3  # a control whose effect is so many times larger has a plot of its own


def effect_plots(report: ReportData) -> list[Plot]:
    """All arms in one plot, but for a positive control that would leave the others no room."""
    compared = [arm for arm in report.findings.arms if arm.judgement.comparison is not None]
    if not compared:
        return []
    control = [arm for arm in compared if arm.name == report.control]
    others = [arm for arm in compared if arm.name != report.control]
    if (
        not control
        or not others
        or _max_interval_end(control) <= SEPARATE_PLOT_RATIO * _max_interval_end(others)
    ):
        return [_effect_plot("effect", _title(compared, report), compared, report)]
    return [
        _effect_plot("effect", _title(others, report), others, report),
        replace(
            _effect_plot(
                "effect-control", "The positive control, on a scale of its own", control, report
            ),
            caption="To be read as the plot above.",
        ),
    ]


def _max_interval_end(arms: Sequence[ArmFinding]) -> float:
    ends = [
        abs(end)
        for arm in arms
        if (made := arm.judgement.comparison)
        for end in (made.low, made.high)
    ]
    return max(ends, default=0.0)


def _effect_plot(key: str, title: str, arms: Sequence[ArmFinding], report: ReportData) -> Plot:
    seeds = [row for arm in arms for row in _seed_points(arm, report)]
    described = "; ".join(
        f"{report.findings.label(arm)}: {_describe_comparison(arm.judgement.comparison)}"
        for arm in arms
    )
    spec = chart_spec(_chart(arms, seeds, report), f"{title}: {described}.", _height(arms, report))
    if len(arms) > MAX_LISTED:
        # wide labels leave a narrow plot less room than its title
        spec["config"]["axisX"] = {"titleAnchor": "end"}
    numbers = tuple(
        (row["pair"], str(row["seed"]), row["baseline"], row["score"], row["gained"])
        for row in seeds
    )
    if _are_against_baseline(arms, report):
        before = "baseline"
    else:
        before = "judged against"
    return Plot(
        key,
        title,
        _caption(arms, report),
        spec,
        ("arm", "seed", before, "arm's score", "gain"),
        numbers,
    )


def _height(arms: Sequence[ArmFinding], report: ReportData) -> int:
    n_lines = max(len(_label_lines(arm, report)) for arm in arms)
    return (
        max(ROW if len(arms) <= MAX_LISTED else LOW_ROW, LEADING * n_lines + EDGE) * len(arms)
        + EDGE
    )


def _label_lines(arm: ArmFinding, report: ReportData) -> list[str]:
    """A comparison's label in lines: its arm, and what it is judged against where that is not
    the baseline.
    """
    if arm.against == report.findings.baseline:
        against = []
    else:
        against = break_name(f"against {arm.against}")
    return [*break_name(arm.name), *against]


def break_name(name: str) -> list[str]:
    """A name in lines, none longer than LINE where it can be broken."""
    lines = [""]
    for part in _NAME_PIECE.findall(name):
        if part and lines[-1] and len(lines[-1]) + len(part.rstrip()) > LINE:
            lines.append("")
        lines[-1] += part
    return [line.strip() for line in lines]


def _title(arms: Sequence[ArmFinding], report: ReportData) -> str:
    return (
        "Gain over the"
        f" {'baseline' if _are_against_baseline(arms, report) else 'arm it is judged against'}"
    )


def _are_against_baseline(arms: Sequence[ArmFinding], report: ReportData) -> bool:
    return all(arm.against == report.findings.baseline for arm in arms)


def reference_names(arms: Sequence[ArmFinding]) -> str:
    """What these are judged against: one arm's name, or each its own."""
    names = {arm.against for arm in arms}
    if len(names) == 1:
        return names.pop()
    return "the arm that each is judged against"


def _caption(arms: Sequence[ArmFinding], report: ReportData) -> str:
    return (
        f"Each small point is a seed; the diamond is their mean and {_describe_bars(arms)}. Right"
        f" of zero is better than {reference_names(arms)}.{_describe_band(arms)}"
    )


def _describe_bars(arms: Sequence[ArmFinding]) -> str:
    """What the bars are; of an open number of seeds both intervals are one."""
    made = next(one for arm in arms if (one := arm.judgement.comparison) is not None)
    if made.open_ended:
        return "the bar its interval"
    inner, outer = percent_level(made.inner_level), percent_level(made.level)
    return (
        f"the bars its intervals: thin at {outer}, to show a difference, thick at {inner}, to show"
        " that there is none"
    )


def _margins(arms: Sequence[ArmFinding]) -> list[float | None]:
    """The margin of each comparison, on average over seeds."""
    return [None if (made := arm.judgement.comparison) is None else made.margin for arm in arms]


def _describe_band(arms: Sequence[ArmFinding]) -> str:
    different = {margin for margin in _margins(arms) if margin is not None}
    if not different:
        return ""
    if len(different) > 1:
        return " The grey band is the margin of each."
    by_seed = any(made.margins for arm in arms if (made := arm.judgement.comparison) is not None)
    average = " on average over seeds" if by_seed else ""
    return f" The grey band is the margin, ±{significant(different.pop())}{average}."


def _chart(
    arms: Sequence[ArmFinding], seeds: Sequence[dict[str, Any]], report: ReportData
) -> alt.LayerChart:
    places = [report.findings.label(arm) for arm in arms]
    keys = [row_key(place) for place in range(len(arms))]
    labels = multiline_label_expression([_label_lines(arm, report) for arm in arms])
    rows = alt.Y(
        "row:N",
        title=None,
        sort=keys,
        axis=alt.Axis(
            labelFontSize=13 if len(arms) <= MAX_LISTED else 12,
            labelColor=css_colour("ink"),
            labelLimit=160,
            labelExpr=labels,
            grid=False,
        ),
    )
    each_mean = [
        {**_mean_point(arm, report), "row": key} for arm, key in zip(arms, keys, strict=True)
    ]
    each_seed = [{**one, "row": keys[places.index(one["pair"])]} for one in seeds]
    means = alt.Chart(chart_data(each_mean, report.order))
    bounded = alt.Chart(
        chart_data([one for one in each_mean if one["low"] is not None], report.order)
    )
    shade = arm_colours(report.order).legend(None)
    told = [
        alt.Tooltip(name) for name in ("pair:N", "effect:N", "interval:N", "decides:N", "verdict:N")
    ]
    each = [
        alt.Tooltip(name) for name in ("pair:N", "seed:N", "gained:N", "run:N", "baseline run:N")
    ]
    outer = bounded.mark_rule(strokeWidth=THIN, strokeCap="round").encode(
        x=_gain_axis("low:Q"), x2="high:Q", y=rows, color=shade, tooltip=told
    )
    inner = bounded.mark_rule(strokeWidth=THICK, strokeCap="round").encode(
        x=_gain_axis("inner_low:Q"), x2="inner_high:Q", y=rows, color=shade, tooltip=told
    )
    mean = means.mark_point(shape="diamond", size=130, filled=True, opacity=1).encode(
        x=_gain_axis("gain:Q"), y=rows, color=shade, tooltip=told
    )
    points = (
        alt.Chart(chart_data(each_seed, report.order))
        .mark_circle(size=46, opacity=0.65, yOffset=15)
        .encode(x=_gain_axis("gain:Q"), y=rows, color=shade, tooltip=each)
    )
    zero = (
        alt.Chart(chart_data([{"zero": 0}]))
        .mark_rule(color=css_colour("muted"), strokeDash=[3, 3])
        .encode(x=_gain_axis("zero:Q"))
    )
    return layer_charts(*_margin_band(_margins(arms), keys, rows), zero, outer, inner, mean, points)


def _gain_axis(field: str) -> alt.X:
    return alt.X(
        field,
        title=f"gain in {UNIT} (positive is better)",
        axis=alt.Axis(tickCount=5),
        scale=alt.Scale(padding=14),
    )


def _margin_band(
    margins: Sequence[float | None], keys: Sequence[str], rows: alt.Y
) -> list[alt.Chart]:
    """The margin behind all rows where it is one, else behind each row its own."""
    ends = [
        {"from": -margin, "to": margin, "row": key}
        for margin, key in zip(margins, keys, strict=True)
        if margin is not None
    ]
    if not ends:
        return []
    is_one = len(ends) == len(margins) and len(set(margins)) == 1
    band = alt.Chart(chart_data(ends[:1] if is_one else ends)).mark_rect(color=css_colour("band"))
    if is_one:
        return [band.encode(x=_gain_axis("from:Q"), x2="to:Q")]
    return [band.encode(x=_gain_axis("from:Q"), x2="to:Q", y=rows)]


def _mean_point(arm: ArmFinding, report: ReportData) -> dict[str, Any]:
    made = arm.judgement.comparison
    assert made is not None
    digits = digits_of(made)
    return {
        "arm": arm.name,
        "pair": report.findings.label(arm),
        "gain": made.effect,
        "low": _finite_end(made.low),
        "high": _finite_end(made.high),
        "inner_low": _finite_end(made.inner_low),
        "inner_high": _finite_end(made.inner_high),
        "effect": format_signed(made.effect, digits),
        "interval": (
            f"{format_interval(made.low, made.high, digits)}, at {percent_level(made.level)}"
        ),
        "decides": describe_deciding(made) or "this interval",
        "verdict": str(arm.judgement.verdict),
    }


def _finite_end(value: float) -> float | None:
    """An end of an interval, None where it has none and no bar can be drawn."""
    if isfinite(value):
        return value
    return None


def _seed_points(arm: ArmFinding, report: ReportData) -> list[dict[str, Any]]:
    runs = {(row["arm"], row["seed"]): row["run"] for row in report.findings.reported_rows}
    return [
        {
            "arm": arm.name,
            "pair": report.findings.label(arm),
            "seed": one.seed,
            "gain": one.gain,
            "gained": format_signed(one.gain, 5),
            "baseline": format_plain(one.baseline, 4),
            "score": format_plain(one.arm, 4),
            "run": runs[arm.name, one.seed],
            "baseline run": runs[arm.against, one.seed],
        }
        for one in arm.judgement.seeds
        if one.gain is not None and one.baseline is not None and one.arm is not None
    ]


def _describe_comparison(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    decided = describe_deciding(comparison)
    told = (
        f"{format_signed(comparison.effect, 4)}, {percent_level(comparison.level)} interval"
        f" {format_interval(comparison.low, comparison.high, 4)}"
    )
    if decided:
        return f"{told}; {decided}"
    return told
