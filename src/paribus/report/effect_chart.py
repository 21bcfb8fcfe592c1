"""The chart of the effect plot: a point per seed, the mean with its intervals, the margin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from paribus.analyse.findings import ArmFinding
from paribus.report.charts import (
    arm_colours,
    chart_data,
    css_colour,
    layer_charts,
    row_key,
)
from paribus.report.gain_chart import (
    break_name,
    finite_end,
    gain_axis,
    row_labels,
    zero_line,
)
from paribus.report.intervals import describe_deciding, digits_of, format_interval, percent_level
from paribus.report.numbers import MAX_LISTED, format_signed
from paribus.report.report_data import ReportData

THIN, THICK = 1.5, 5  # pixels of the outer and of the inner interval
MEAN_TOOLTIPS = ("pair:N", "effect:N", "interval:N", "decides:N", "verdict:N")
SEED_TOOLTIPS = ("pair:N", "seed:N", "gained:N", "run:N", "baseline run:N")


def label_lines(arm: ArmFinding, report: ReportData) -> list[str]:
    """A comparison's label in lines: its arm, and what it is judged against where that is not
    the baseline.
    """
    if arm.against == report.findings.baseline:
        against = []
    else:
        against = break_name(f"against {arm.against}")
    return [*break_name(arm.name), *against]


def margins_of(arms: Sequence[ArmFinding]) -> list[float | None]:
    """The margin of each comparison, on average over seeds."""
    margins = []
    for arm in arms:
        if arm.judgement.comparison is None:
            margins.append(None)
        else:
            margins.append(arm.judgement.comparison.margin)
    return margins


def effect_chart(
    arms: Sequence[ArmFinding], seeds: Sequence[dict[str, Any]], report: ReportData
) -> alt.LayerChart:
    """One row per comparison; the margin behind all of them."""
    rows, unit = _rows_axis(arms, report), report.measure.unit
    each_mean = _mean_points(arms, report)
    means = alt.Chart(chart_data(each_mean, report.order))
    bounded = alt.Chart(chart_data(list(filter(_has_interval, each_mean)), report.order))
    shade = arm_colours(report.order).legend(None)
    of_mean = list(map(alt.Tooltip, MEAN_TOOLTIPS))
    of_seed = list(map(alt.Tooltip, SEED_TOOLTIPS))
    outer = bounded.mark_rule(strokeWidth=THIN, strokeCap="round").encode(
        x=gain_axis("low:Q", unit), x2=alt.X2("high:Q"), y=rows, color=shade, tooltip=of_mean
    )
    inner = bounded.mark_rule(strokeWidth=THICK, strokeCap="round").encode(
        x=gain_axis("inner_low:Q", unit),
        x2=alt.X2("inner_high:Q"),
        y=rows,
        color=shade,
        tooltip=of_mean,
    )
    mean = means.mark_point(shape="diamond", size=130, filled=True, opacity=1).encode(
        x=gain_axis("gain:Q", unit), y=rows, color=shade, tooltip=of_mean
    )
    points = (
        alt.Chart(chart_data(_seeds_with_rows(seeds, arms, report), report.order))
        .mark_circle(size=46, opacity=0.65, yOffset=15)
        .encode(x=gain_axis("gain:Q", unit), y=rows, color=shade, tooltip=of_seed)
    )
    band = _margin_band(margins_of(arms), rows, unit)
    return layer_charts(*band, zero_line(unit), outer, inner, mean, points)


def _rows_axis(arms: Sequence[ArmFinding], report: ReportData) -> alt.Y:
    if len(arms) <= MAX_LISTED:
        size = 13
    else:
        size = 12
    labels = row_labels([label_lines(arm, report) for arm in arms], size, limit=160)
    return alt.Y("row:N", title=None, sort=list(map(row_key, range(len(arms)))), axis=labels)


def _mean_points(arms: Sequence[ArmFinding], report: ReportData) -> list[dict[str, Any]]:
    points = []
    for place, arm in enumerate(arms):
        points.append({**_mean_point(arm, report), "row": row_key(place)})
    return points


def _seeds_with_rows(
    seeds: Sequence[dict[str, Any]], arms: Sequence[ArmFinding], report: ReportData
) -> list[dict[str, Any]]:
    """Every seed's point with the row of its comparison."""
    labels = [report.findings.label(arm) for arm in arms]
    points = []
    for seed in seeds:
        points.append({**seed, "row": row_key(labels.index(seed["pair"]))})
    return points


def _has_interval(point: Mapping[str, Any]) -> bool:
    return point["low"] is not None


def _margin_band(margins: Sequence[float | None], rows: alt.Y, unit: str) -> list[alt.Chart]:
    """The margin behind all rows where it is one, else behind each row its own."""
    ends = []
    for place, margin in enumerate(margins):
        if margin is not None:
            ends.append({"from": -margin, "to": margin, "row": row_key(place)})
    if not ends:
        return []
    x, shade = gain_axis("from:Q", unit), css_colour("band")
    if len(ends) == len(margins) and len(set(margins)) == 1:
        return [
            alt.Chart(chart_data(ends[:1])).mark_rect(color=shade).encode(x=x, x2=alt.X2("to:Q"))
        ]
    return [
        alt.Chart(chart_data(ends)).mark_rect(color=shade).encode(x=x, x2=alt.X2("to:Q"), y=rows)
    ]


def _mean_point(arm: ArmFinding, report: ReportData) -> dict[str, Any]:
    comparison = arm.judgement.comparison
    assert comparison is not None
    digits = digits_of(comparison)
    ends = format_interval(comparison.low, comparison.high, digits)
    return {
        "arm": arm.name,
        "pair": report.findings.label(arm),
        "gain": comparison.effect,
        "low": finite_end(comparison.low),
        "high": finite_end(comparison.high),
        "inner_low": finite_end(comparison.inner_low),
        "inner_high": finite_end(comparison.inner_high),
        "effect": format_signed(comparison.effect, digits),
        "interval": f"{ends}, at {percent_level(comparison.level)}",
        "decides": describe_deciding(comparison) or "this interval",
        "verdict": str(arm.judgement.verdict),
    }
