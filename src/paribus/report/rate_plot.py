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
OWN_LOSS_UNIT = "nats per target"
Sweep = dict[str, Any]


def rate_plot(report: ReportData) -> Plot | None:
    """The score of each arm at each rate of its sweep, the parabola, and the chosen rate.

    Two measures are never on one axis: if some sweeps were scored by held-out loss and others by
    the yardstick, the plot has those by the yardstick.
    """
    sweeps = report.findings.rates
    if sweeps is None:
        return None
    order, unit, note = _swept_by_yardstick(sweeps, report.order), report.measure.unit, ""
    if not order:
        order, unit = report.order, OWN_LOSS_UNIT
        note = (
            " The scores are each arm's held-out loss of its own objective; they say which rate is"
            " best for an arm, not which arm is better."
        )
    drawn_sweeps = {arm: sweeps[arm] for arm in order if sweeps[arm]["points"]}
    if not drawn_sweeps:
        return None
    points, chosen_rates = [], []
    for arm, sweep in drawn_sweeps.items():
        points += _rate_points(arm, sweep, unit)
        chosen_rates.append(f"{significant(sweep['rate'])} for {quote_arm(arm)}")
    description = f"Rate curves; the chosen rates are {'; '.join(chosen_rates)}."
    return Plot(
        key="rates",
        title="Rate curves",
        caption="Each point is a run of a sweep, whose seeds are not reported. The curve is the"
        " parabola in log₂ rate over the rates it was fitted to; the dashed line is the chosen"
        f" rate.{note}",
        spec=chart_spec(_rate_chart(drawn_sweeps, points, report.order, unit), description, HEIGHT),
        heading=("arm", "rate", unit),
        numbers=tuple((point["arm"], point["at"], point["score"]) for point in points),
    )


def _rate_chart(
    sweeps: Mapping[str, Sweep], points: Sequence[ChartRow], order: Sequence[str], unit: str
) -> alt.LayerChart:
    x, y, shade = _rate_axis(sweeps), score_axis(unit), arm_colours(order, list(sweeps))
    tooltips = list(map(alt.Tooltip, RATE_TOOLTIPS))
    dots = (
        alt.Chart(chart_data(points, order))
        .mark_circle(size=50, opacity=0.8)
        .encode(x=x, y=y, color=shade, tooltip=tooltips)
    )
    fits, chosen_rates = [], []
    for arm, sweep in sweeps.items():
        fits += _parabola(arm, sweep)
        chosen_rates.append({"arm": arm, "rate": sweep["rate"]})
    lines = (
        alt.Chart(chart_data(fits, order))
        .mark_line(strokeWidth=1.2, opacity=0.7)
        .encode(x=x, y=y, color=shade, strokeDash=arm_dashes(order, list(sweeps)))
    )
    rules = (
        alt.Chart(chart_data(chosen_rates, order))
        .mark_rule(strokeDash=[2, 3])
        .encode(x=x, color=shade)
    )
    return layer_charts(lines, rules, dots)


def _swept_by_yardstick(sweeps: Mapping[str, Sweep], order: Sequence[str]) -> list[str]:
    """The arms whose sweeps were scored by the yardstick of the report."""
    return [arm for arm in order if not sweeps[arm].get("own_loss")]


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
