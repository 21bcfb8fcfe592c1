"""Plots of the laws of a study with a ladder: loss against compute and against parameters, and
what compute one arm saves against another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from paribus.analyse.run_table import column_of, select_rows
from paribus.analyse.study_laws import LawMultiplier, StudyLaws
from paribus.report.charts import (
    Plot,
    arm_colours,
    arm_dashes,
    chart_data,
    chart_spec,
    css_colour,
    label_expression,
    layer_charts,
    row_key,
)
from paribus.report.curve_plots import HEIGHT, ChartRow
from paribus.report.laws import describe_interval
from paribus.report.numbers import (
    format_count,
    format_flops,
    join_words,
    quote_arm,
    score,
    significant,
)
from paribus.report.report_data import ReportData
from paribus.spec.yardstick import table_measure

FLOPS_TITLE = "training FLOPs"
LOSS_ROOM, FACTOR_ROOM = 1.03, 1.5  # on either side of what an axis shows: a factor
BEYOND = [4, 4]  # dashes of a line beyond its data
BEYOND_WORDS = ", beyond the data"  # the same in a table


def law_plots(report: ReportData) -> list[Plot]:
    """The plots of a ladder; none where there are no laws."""
    laws = report.laws
    if laws is None or isinstance(laws, str):
        return []
    points = list(run_points(report, report.plan.design.primary.measure.table))
    plots = [
        _loss_plot(report, laws, points, "compute"),
        _loss_plot(report, laws, points, "parameters"),
    ]
    if laws.multipliers:
        plots.append(_multiplier_plot(laws.multipliers))
    return plots


def run_points(report: ReportData, yardstick: Mapping[str, Any]) -> Iterator[ChartRow]:
    """Every finished run of a ladder that has a score by a yardstick."""
    column, unit = column_of(yardstick), table_measure(yardstick).unit
    for row in select_rows(report.findings.table.rows, purposes=["ladder", "predicted"]):
        if row["outcome"] == "finished" and row.get(column) is not None:
            yield {
                "arm": row["arm"],
                "compute": row["planned_flops"],
                "parameters": row["parameters"],
                "loss": row[column],
                "score": score(row[column], unit),
                "tokens": format_count(row["planned_tokens"]),
                "seed": str(row["seed"]),
                "is_predicted": row["purpose"] == "predicted",
            }


def _loss_plot(report: ReportData, laws: StudyLaws, points: Sequence[ChartRow], over: str) -> Plot:
    """Every run a point, over compute or over parameters, and the law of each arm along its
    path.
    """
    words = FLOPS_TITLE if over == "compute" else "parameters"
    title = f"Loss against {words}"
    spec = chart_spec(
        _loss_chart(report, laws, points, over, words),
        f"{title}, both on logarithmic axes: {len(points)} runs of {len(laws.arms)} arms.",
        HEIGHT,
    )
    return Plot(
        key=f"law-{over}",
        title=title,
        caption="Each point is a run; open points were predicted before they were run. Lines are"
        " the laws at the longest duration that all sizes have, with 95 % intervals of the law,"
        " dashed beyond the data. Other points lie above or below for their durations.",
        spec=spec,
        heading=("arm", words, "tokens", "seed", report.measure.unit),
        numbers=point_cells(points, over),
    )


def point_cells(points: Sequence[ChartRow], over: str) -> tuple[tuple[str, ...], ...]:
    """The runs of a plot over compute or parameters, as lines of its table."""
    number = format_flops if over == "compute" else format_count
    return tuple(
        (one["arm"], number(one[over]), one["tokens"], one["seed"], one["score"]) for one in points
    )


def _loss_chart(
    report: ReportData, laws: StudyLaws, points: Sequence[ChartRow], over: str, words: str
) -> alt.LayerChart:
    order, arms = report.order, laws.arms
    shade, unit = arm_colours(order, arms), report.measure.unit
    fits: list[ChartRow] = []
    for arm, curve in laws.curves.items():
        fits += [{"arm": arm, **vars(one)} for one in curve]
    span = _domain([row["loss"] for row in (*points, *fits)], LOSS_ROOM)
    fits = [_within(row, span) for row in fits]
    x, y = log_axis(alt.X, over, words), log_axis(alt.Y, "loss", unit, span)
    inside = [row for row in fits if not row["extrapolated"]]
    tooltips = [alt.Tooltip(f"{name}:N") for name in ("arm", "score", "tokens", "seed")]
    band = (
        alt.Chart(chart_data(fits, order))
        .mark_area(opacity=0.12, clip=True)
        .encode(x=x, y=log_axis(alt.Y, "low", unit, span), y2=alt.Y2("high:Q"), color=shade)
    )
    dashes = arm_dashes(order, arms)
    beyond = (
        alt.Chart(chart_data(fits, order))
        .mark_line(strokeWidth=1.2, strokeDash=BEYOND, opacity=0.7)
        .encode(x=x, y=y, color=shade)
    )
    lines = (
        alt.Chart(chart_data(inside, order))
        .mark_line(strokeWidth=1.8)
        .encode(x=x, y=y, color=shade, strokeDash=dashes)
    )
    made = [row for row in points if not row["is_predicted"]]
    predicted = [row for row in points if row["is_predicted"]]
    dots = (
        alt.Chart(chart_data(made, order))
        .mark_circle(size=36, opacity=0.8)
        .encode(x=x, y=y, color=shade, tooltip=tooltips)
    )
    rings = (
        alt.Chart(chart_data(predicted, order))
        .mark_point(size=60, filled=False, strokeWidth=1.6)
        .encode(x=x, y=y, color=shade, tooltip=tooltips)
    )
    return layer_charts(band, beyond, lines, dots, rings)


def _multiplier_plot(multipliers: Sequence[LawMultiplier]) -> Plot:
    """What compute the first arm of each pair saves, over its compute."""
    names = [f"{one.arm} against {one.against}" for one in multipliers]
    rows: list[ChartRow] = []
    for place, one in enumerate(multipliers):
        for point in one.curve:
            if point.factor is not None:
                rows.append({"key": row_key(place), "pair": names[place], **vars(point)})
    title = "Compute multipliers"
    endless = _endless_bands(rows, _multiplier_span(rows))
    return Plot(
        key="law-multiplier",
        title=title,
        caption="The compute that the second arm of a pair needs for the loss of the first, over"
        " that of the first. Above 1, the first arm saves compute. Bands are pointwise 95 %"
        " intervals; lines are dashed beyond the data, at most a factor of 4."
        f"{_describe_endless(endless)}",
        spec=chart_spec(_multiplier_chart(rows, names), f"{title} of {len(names)} pairs.", HEIGHT),
        heading=("pair", FLOPS_TITLE, "multiplier", "95 % interval"),
        numbers=tuple(
            (
                row["pair"],
                format_flops(row["compute"]) + (BEYOND_WORDS if row["extrapolated"] else ""),
                significant(row["factor"]),
                describe_interval(row["low"], row["high"]),
            )
            for row in rows
        ),
    )


def _multiplier_span(rows: Sequence[ChartRow]) -> tuple[float, float]:
    return _domain([1.0, *(row["factor"] for row in rows)], FACTOR_ROOM)


def _endless_bands(rows: Sequence[ChartRow], span: tuple[float, float]) -> list[str]:
    """Pairs whose band covers the whole axis wherever it is: it says nothing, and hides the
    others.
    """
    ended: dict[str, bool] = {}
    for row in rows:
        is_inside = row["low"] > span[0] or row["high"] < span[1]
        ended[row["pair"]] = ended.get(row["pair"], False) or is_inside
    return [pair for pair, has_end in ended.items() if not has_end]


def _describe_endless(pairs: Sequence[str]) -> str:
    if not pairs:
        return ""
    names = join_words(list(map(quote_arm, pairs)))
    band, them = ("the band", "it") if len(pairs) == 1 else ("the bands", "them")
    return f" Left out, with no end on the axis: {band} of {names}; the table has {them}."


def _multiplier_chart(rows: Sequence[ChartRow], names: Sequence[str]) -> alt.LayerChart:
    keys = [row_key(place) for place in range(len(names))]
    shades = [css_colour(f"arm-{(place + 1) % 8}") for place in range(len(names))]
    shade = alt.Color(
        "key:N",
        scale=alt.Scale(domain=keys, range=shades),
        legend=alt.Legend(
            title=None, orient="top", columns=1, labelLimit=0, labelExpr=label_expression(names)
        ),
    )
    span = _multiplier_span(rows)
    endless = _endless_bands(rows, span)
    rows = [_within(row, span) for row in rows]
    bounded = [row for row in rows if row["pair"] not in endless]
    x = log_axis(alt.X, "compute", FLOPS_TITLE)
    y = log_axis(alt.Y, "factor", "multiplier", span)
    tooltips = [alt.Tooltip("pair:N"), alt.Tooltip("factor:Q", format=".3~g")]
    band = (
        alt.Chart(alt.Data(values=bounded))
        .mark_area(opacity=0.15, clip=True)
        .encode(x=x, y=log_axis(alt.Y, "low", "multiplier", span), y2=alt.Y2("high:Q"), color=shade)
    )
    one = (
        alt.Chart(alt.Data(values=[{"factor": 1}])).mark_rule(color=css_colour("muted")).encode(y=y)
    )
    beyond = (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_line(strokeWidth=1.2, strokeDash=BEYOND)
        .encode(x=x, y=y, color=shade)
    )
    inside = [row for row in rows if not row["extrapolated"]]
    lines = (
        alt.Chart(alt.Data(values=inside))
        .mark_line(strokeWidth=1.8)
        .encode(x=x, y=y, color=shade, tooltip=tooltips)
    )
    return layer_charts(one, band, beyond, lines)


def log_axis(
    channel: Any, field: str, title: str, domain: tuple[float, float] | None = None
) -> Any:
    """A logarithmic axis, over a domain where one is given."""
    scale = alt.Scale(type="log", nice=False, zero=False)
    if domain is not None:
        scale = alt.Scale(type="log", nice=False, zero=False, domain=list(domain))
    number = ".3~s" if channel is alt.X else ".3~g"
    axis = alt.Axis(format=number, labelOverlap=True)
    return channel(f"{field}:Q", title=title, scale=scale, axis=axis)


def _within(row: ChartRow, span: tuple[float, float]) -> ChartRow:
    """A row whose interval ends where its axis does, for it may have no end."""
    return {**row, "low": max(row["low"], span[0]), "high": min(row["high"], span[1])}


def _domain(values: Sequence[float], room: float) -> tuple[float, float]:
    """From below the smallest to above the largest: bands may be wider and are cut."""
    return min(values) / room, max(values) * room
