"""The positive control beside the arms, on one scale: how large is a difference that the
experiment must see?
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import altair as alt

from paribus.analyse.findings import UNIT, ArmFinding
from paribus.analyse.positive_control import ControlFinding
from paribus.report.charts import (
    Plot,
    chart_data,
    chart_spec,
    css_colour,
    layer_charts,
    multiline_label_expression,
    row_key,
)
from paribus.report.effect_plot import LEADING, break_name
from paribus.report.numbers import format_plain, format_signed
from paribus.report.positive_control import describe_control
from paribus.report.report_data import ReportData

ROW_HEIGHT, EDGE = 46, 12  # pixels of an arm, and of all of them together
THICK = 4  # pixels of a bar
MAX_ARMS = 10  # beside the control


def control_plot(report: ReportData) -> list[Plot]:
    """The control and the first arms that were judged; none where it is one of them, or was not
    measured.
    """
    control = report.findings.control
    arms = [arm for arm in report.findings.arms if arm.judgement.comparison is not None]
    if control is None or not control.losses or control.name in {arm.name for arm in arms}:
        return []
    arms = arms[:MAX_ARMS]
    rows = [*(_arm_row(arm, report) for arm in arms), _control_row(control)]
    points = [*_arm_points(arms), *_control_points(control, len(arms))]
    chart = _chart(rows, points, report.findings.margin)
    described = "; ".join(f"{row['label']}: {row['words']}" for row in rows)
    title = "The positive control, on the scale of the arms"
    n_lines = max(len(break_name(row["label"])) for row in rows)
    height = max(ROW_HEIGHT, LEADING * n_lines + EDGE) * len(rows) + EDGE
    spec = chart_spec(chart, f"{title}: {described}.", height)
    numbers = tuple(
        (rows[int(one["place"])]["label"], str(one["seed"]), format_signed(one["gain"], 5))
        for one in points
    )
    return [
        Plot(
            "effect-control",
            title,
            _caption(control, report),
            spec,
            ("arm", "seed", "gain"),
            numbers,
        )
    ]


def _caption(control: ControlFinding, report: ReportData) -> str:
    baseline = report.findings.baseline
    if report.findings.margin is None:
        band = ""
    else:
        band = f" The band is the margin against {baseline}."
    return (
        f"Each small point is a seed, the diamond their mean; losses are left of zero.{band} "
        f"{describe_control(report)} Its bar ends at the one-sided bound."
    )


def _arm_row(arm: ArmFinding, report: ReportData) -> dict[str, Any]:
    made = arm.judgement.comparison
    assert made is not None
    low, high = _end(made.low), _end(made.high)
    return {
        "label": report.findings.label(arm),
        "gain": made.effect,
        "low": low,
        "high": high,
        "words": f"gain {format_signed(made.effect, 4)}",
    }


def _control_row(control: ControlFinding) -> dict[str, Any]:
    return {
        "label": f"control: {control.name}",
        "gain": -control.effect,
        "low": -control.effect,
        "high": _end(-control.low),
        "words": f"loss {format_plain(control.effect, 4)}",
    }


def _end(value: float) -> float | None:
    if isfinite(value):
        return value
    return None


def _arm_points(arms: Sequence[ArmFinding]) -> list[dict[str, Any]]:
    return [
        {"place": place, "seed": one.seed, "gain": one.gain}
        for place, arm in enumerate(arms)
        for one in arm.judgement.seeds
        if one.gain is not None
    ]


def _control_points(control: ControlFinding, place: int) -> list[dict[str, Any]]:
    return [
        {"place": place, "seed": seed, "gain": -loss}
        for seed, loss in sorted(control.losses.items())
    ]


def _chart(
    rows: Sequence[dict[str, Any]], points: Sequence[dict[str, Any]], margin: float | None
) -> alt.LayerChart:
    keys = [row_key(place) for place in range(len(rows))]
    written = multiline_label_expression([break_name(row["label"]) for row in rows])
    labels = alt.Axis(
        labelFontSize=13,
        labelColor=css_colour("ink"),
        labelLimit=170,
        labelExpr=written,
        grid=False,
    )
    across = alt.Y("row:N", title=None, sort=keys, axis=labels)
    shade = alt.Color("shade:N", scale=None, legend=None)
    shades = [css_colour("arm-1")] * (len(rows) - 1) + [css_colour("arm-2")]
    placed = [{**row, "row": keys[place], "shade": shades[place]} for place, row in enumerate(rows)]
    seeds = [{**one, "row": keys[one["place"]], "shade": shades[one["place"]]} for one in points]
    bars = alt.Chart(
        chart_data([row for row in placed if row["low"] is not None and row["high"] is not None])
    )
    bar = bars.mark_rule(strokeWidth=THICK, strokeCap="round").encode(
        x=_x("low:Q"), x2="high:Q", y=across, color=shade
    )
    tooltips = [alt.Tooltip("label:N"), alt.Tooltip("words:N")]
    mean = (
        alt.Chart(chart_data(placed))
        .mark_point(shape="diamond", size=120, filled=True, opacity=1)
        .encode(x=_x("gain:Q"), y=across, color=shade, tooltip=tooltips)
    )
    each = (
        alt.Chart(chart_data(seeds))
        .mark_circle(size=40, opacity=0.6, yOffset=12)
        .encode(x=_x("gain:Q"), y=across, color=shade)
    )
    zero = (
        alt.Chart(chart_data([{"zero": 0}]))
        .mark_rule(color=css_colour("muted"), strokeDash=[3, 3])
        .encode(x=_x("zero:Q"))
    )
    return layer_charts(*_band(margin), zero, bar, mean, each)


def _band(margin: float | None) -> list[alt.Chart]:
    """The margin behind all rows."""
    if margin is None:
        return []
    ends = alt.Chart(chart_data([{"from": -margin, "to": margin}]))
    return [ends.mark_rect(color=css_colour("band")).encode(x=_x("from:Q"), x2="to:Q")]


def _x(field: str) -> alt.X:
    title = f"gain in {UNIT} (positive is better)"
    return alt.X(field, title=title, axis=alt.Axis(tickCount=5), scale=alt.Scale(padding=14))
