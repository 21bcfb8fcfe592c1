"""Plots of the other yardsticks of a ladder against compute and against parameters."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from paribus.analyse.plan_rules import column_measure
from paribus.analyse.run_answers import column_of
from paribus.analyse.run_table import ladder_yardsticks
from paribus.report.charts import (
    Plot,
    arm_colours,
    arm_dashes,
    chart_data,
    chart_spec,
    layer_charts,
)
from paribus.report.curve_plots import HEIGHT, ChartRow
from paribus.report.law_plots import FLOPS_TITLE, log_axis, point_cells, run_points
from paribus.report.report_data import ReportData

AXES = {"compute": FLOPS_TITLE, "parameters": "parameters"}


def trend_plots(report: ReportData) -> list[Plot]:
    """Two plots for each yardstick that runs of a ladder are asked beside the primary."""
    plots: list[Plot] = []
    for place, table in enumerate(ladder_yardsticks(report.plan)):
        points = list(run_points(report, table))
        if points:
            plots += [_trend_plot(report, column_of(table), points, over, place) for over in AXES]
    return plots


def _trend_plot(
    report: ReportData, column: str, points: Sequence[ChartRow], over: str, place: int
) -> Plot:
    words, measure = AXES[over], column_measure(report.plan, column)
    title = f"{column} against {words}"
    n_arms = len({one["arm"] for one in points})
    return Plot(
        key=f"trend-{place}-{over}",
        title=title,
        caption=f"Each point is a run; open points are larger runs, of which the laws predicted the"
        f" primary yardstick. Lines join the means at the longest duration that all sizes have."
        f" In {measure.unit}; {measure.direction}.",
        spec=chart_spec(
            _trend_chart(report, column, points, over, measure.unit),
            f"{title}, which is on a logarithmic axis: {len(points)} runs of {n_arms} arms.",
            HEIGHT,
        ),
        heading=("arm", words, "tokens", "seed", measure.unit),
        numbers=point_cells(points, over),
    )


def _trend_chart(
    report: ReportData, column: str, points: Sequence[ChartRow], over: str, unit: str
) -> alt.LayerChart:
    order = report.order
    arms = [arm for arm in order if any(one["arm"] == arm for one in points)]
    means: list[ChartRow] = []
    for trend in report.trends.trends:
        if trend.column == column:
            means += [{"arm": trend.arm, **vars(one), "loss": one.score} for one in trend.means]
    shade, x = arm_colours(order, arms), log_axis(alt.X, over, AXES[over])
    y = alt.Y("loss:Q", title=unit, scale=alt.Scale(zero=False))
    tooltips = [alt.Tooltip(f"{name}:N") for name in ("arm", "score", "tokens", "seed")]
    made = [row for row in points if not row["is_predicted"]]
    predicted = [row for row in points if row["is_predicted"]]
    lines = (
        alt.Chart(chart_data(means, order))
        .mark_line(strokeWidth=1.4)
        .encode(x=x, y=y, color=shade, strokeDash=arm_dashes(order, arms))
    )
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
    return layer_charts(lines, dots, rings)
