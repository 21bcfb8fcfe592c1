"""Rate curves: the score of each arm at each learning rate of its sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import altair as alt

from paribus.analyse.rate_fit import parabola_points
from paribus.report.charts import (
    Plot,
    arm_colours,
    arm_dashes,
    chart_data,
    chart_spec,
    layer_charts,
)
from paribus.report.curve_plots import HEIGHT, ChartRow, score_axis
from paribus.report.numbers import (
    quote_arm,
    score,
    significant,
)
from paribus.report.report_data import ReportData

RATE_TOOLTIPS = ("arm:N", "at:N", "score:N")
Sweep = dict[str, Any]


def rate_plot(report: ReportData) -> Plot | None:
    """The score of each arm at each rate of its sweep, the parabola, and the chosen rate."""
    sweeps = report.findings.rates
    if sweeps is None:
        return None
    points, chosen_rates = [], []
    for arm in report.order:
        points += _rate_points(arm, sweeps[arm], report.measure.unit)
        chosen_rates.append(f"{significant(sweeps[arm]['rate'])} for {quote_arm(arm)}")
    description = f"Rate curves; the chosen rates are {'; '.join(chosen_rates)}."
    return Plot(
        key="rates",
        title="Rate curves",
        caption="Each point is a run of a sweep, whose seeds are not reported. The curve is the"
        " parabola in log₂ rate over the rates it was fitted to; the dashed line is the chosen"
        " rate.",
        spec=chart_spec(_rate_chart(sweeps, points, report), description, HEIGHT),
        heading=("arm", "rate", report.measure.unit),
        numbers=tuple((point["arm"], point["at"], point["score"]) for point in points),
    )


def _rate_chart(
    sweeps: Mapping[str, Sweep], points: Sequence[ChartRow], report: ReportData
) -> alt.LayerChart:
    x, y, shade = _rate_axis(sweeps), score_axis(report.measure.unit), arm_colours(report.order)
    tooltips = list(map(alt.Tooltip, RATE_TOOLTIPS))
    dots = (
        alt.Chart(chart_data(points, report.order))
        .mark_circle(size=50, opacity=0.8)
        .encode(x=x, y=y, color=shade, tooltip=tooltips)
    )
    fits, chosen_rates = [], []
    for arm in report.order:
        fits += _parabola(arm, sweeps[arm])
        chosen_rates.append({"arm": arm, "rate": sweeps[arm]["rate"]})
    lines = (
        alt.Chart(chart_data(fits, report.order))
        .mark_line(strokeWidth=1.2, opacity=0.7)
        .encode(x=x, y=y, color=shade, strokeDash=arm_dashes(report.order))
    )
    rules = (
        alt.Chart(chart_data(chosen_rates, report.order))
        .mark_rule(strokeDash=[2, 3])
        .encode(x=x, color=shade)
    )
    return layer_charts(lines, rules, dots)


def _rate_axis(sweeps: Mapping[str, Sweep]) -> alt.X:
    grid = set(chain.from_iterable(map(_rate_grid, sweeps.values())))
    return alt.X(
        "rate:Q",
        scale=alt.Scale(type="log", base=2, nice=False),
        title="learning rate",
        axis=alt.Axis(format=".3~g", values=sorted(grid), grid=False, labelOverlap=True),
    )


def _rate_points(arm: str, sweep: Sweep, unit: str) -> Iterator[ChartRow]:
    for rate, loss in sweep["points"]:
        if loss is not None:
            at = significant(rate)
            yield {"arm": arm, "rate": rate, "bits": loss, "score": score(loss, unit), "at": at}


def _rate_grid(sweep: Sweep) -> list[float]:
    """The rates that every arm was swept at; an older study does not say which, and had no
    others.
    """
    return sweep.get("grid") or _trained_rates(sweep)


def _trained_rates(sweep: Sweep) -> list[float]:
    return [rate for rate, loss in sweep["points"] if loss is not None]


def _parabola(arm: str, sweep: Sweep) -> Iterator[ChartRow]:
    fit = sweep["optimum"]["coefficients"]
    rates = sweep["optimum"].get("fitted") or _trained_rates(sweep)
    if fit is None or not rates:
        return
    for rate, loss in parabola_points(fit, rates):
        yield {"arm": arm, "rate": rate, "bits": loss}
