"""What laws predicted of the largest run, with its interval, beside what its runs came to."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import altair as alt

from paribus.analyse.laws.prediction import LawPrediction, read_predictions
from paribus.report.charts import (
    Plot,
    chart_data,
    chart_spec,
    css_colour,
    layer_charts,
    row_key,
)
from paribus.report.gain_chart import LEADING, break_name, row_labels
from paribus.report.laws import describe_outcome, describe_prediction_interval, predicted_losses
from paribus.report.numbers import format_count, score
from paribus.report.report_data import ReportData

ROW_HEIGHT, EDGE = 46, 12  # pixels of an arm, and of all of them together
THICK = 10  # pixels of a bar
LABEL_SIZE, LABEL_WIDTH = 13, 170  # pixels
ARROW, INSET = 130, 0.01  # square pixels of an arrow, and how far inside: a share of the axis
ROOM = 1.02  # on either side of what the axis shows: a factor
SEED_OFFSET = 13  # pixels below the bar
ChartRow = dict[str, Any]


def prediction_plot(report: ReportData) -> list[Plot]:
    """The predictions of a ladder; none where nothing was predicted of an arm that it has now."""
    known_arms = report.order
    predictions = [one for one in read_predictions(report.predictions) if one.arm in known_arms]
    if not predictions:
        return []
    bars: list[ChartRow] = []
    points: list[ChartRow] = []
    for place, one in enumerate(predictions):
        losses = predicted_losses(report, one.arm)
        words = describe_outcome(report, one)
        bars.append(_bar(report, one, place, words))
        for seed, loss in losses.items():
            points.append(_point(report, one.arm, place, (seed, loss)))
    title = "Predicted before it was run, and what came out"
    described = "; ".join(f"{bar['arm']}: {bar['words']}" for bar in bars)
    labels = [break_name(one.arm) for one in predictions]
    height = max(ROW_HEIGHT, LEADING * max(map(len, labels)) + EDGE) * len(bars) + EDGE
    spec = chart_spec(_chart(bars, points, labels, report), f"{title}. {described}.", height)
    first = predictions[0]
    plot = Plot(
        key="law-prediction",
        title=title,
        caption=f"Bars are 95 % prediction intervals for the mean over {first.n_seeds} seeds at"
        f" {format_count(first.tokens)} tokens, with a tick at the prediction. Each point is a run"
        f" that was made afterwards.{_describe_arrows(bars, points)}",
        spec=spec,
        heading=("arm", "seed", report.measure.unit, "predicted", "95 % interval"),
        numbers=tuple(_number_lines(bars, points)),
    )
    return [plot]


def _bar(report: ReportData, one: LawPrediction, place: int, words: str) -> ChartRow:
    order = report.order
    unit = report.measure.unit
    return {
        "arm": one.arm,
        "row": row_key(place),
        "shade": css_colour(f"arm-{order.index(one.arm) % 8}"),
        "loss": one.loss,
        "low": one.low,
        "high": one.high,
        "score": score(one.loss, unit),
        "interval": describe_prediction_interval(one),
        "words": words,
    }


def _point(report: ReportData, arm: str, place: int, outcome: tuple[int, float]) -> ChartRow:
    seed, loss = outcome
    return {
        "arm": arm,
        "row": row_key(place),
        "shade": css_colour(f"arm-{report.order.index(arm) % 8}"),
        "loss": loss,
        "seed": str(seed),
        "score": score(loss, report.measure.unit),
    }


def _number_lines(bars: Sequence[ChartRow], points: Sequence[ChartRow]) -> list[tuple[str, ...]]:
    """A line for each run, and one for each arm that has none yet."""
    lines: list[tuple[str, ...]] = []
    for bar in bars:
        own = [point for point in points if point["row"] == bar["row"]]
        for point in own or [{"seed": "not run yet", "score": ""}]:
            lines.append((bar["arm"], point["seed"], point["score"], bar["score"], bar["interval"]))
    return lines


def _arrows(bars: Sequence[ChartRow], span: tuple[float, float]) -> list[ChartRow]:
    """An arrow at each end of the axis where an interval goes on beyond it."""
    arrows: list[ChartRow] = []
    inset = INSET * (span[1] - span[0])
    for bar in bars:
        row = _without_ends(bar)
        if bar["low"] < span[0]:
            arrows.append({**row, "loss": span[0] + inset, "shape": "triangle-left"})
        if bar["high"] > span[1]:
            arrows.append({**row, "loss": span[1] - inset, "shape": "triangle-right"})
    return arrows


def _without_ends(bar: ChartRow) -> ChartRow:
    """A row without the ends of its interval, for one that has no end cannot be written."""
    return {name: value for name, value in bar.items() if name not in ("low", "high")}


def _describe_arrows(bars: Sequence[ChartRow], points: Sequence[ChartRow]) -> str:
    if not _arrows(bars, _domain(bars, points)):
        return ""
    return " An arrow marks an interval that goes on beyond the axis; the table has its end."


def _chart(
    bars: Sequence[ChartRow],
    points: Sequence[ChartRow],
    labels: Sequence[Sequence[str]],
    report: ReportData,
) -> alt.LayerChart:
    span = _domain(bars, points)
    drawn = [
        {**bar, "low": max(bar["low"], span[0]), "high": min(bar["high"], span[1])} for bar in bars
    ]
    unit = report.measure.unit
    x = _loss_axis("loss", unit, span)
    keys = [row_key(place) for place in range(len(bars))]
    y = alt.Y("row:N", title=None, sort=keys, axis=row_labels(labels, LABEL_SIZE, LABEL_WIDTH))
    shade = alt.Color("shade:N", scale=None, legend=None)
    tooltips = [alt.Tooltip(f"{name}:N") for name in ("arm", "score", "interval", "words")]
    rules = (
        alt.Chart(chart_data(drawn))
        .mark_rule(strokeWidth=THICK, opacity=0.35, clip=True)
        .encode(
            x=_loss_axis("low", unit, span),
            x2=alt.X2("high:Q"),
            y=y,
            color=shade,
            tooltip=tooltips,
        )
    )
    ticks = (
        alt.Chart(chart_data(drawn))
        .mark_tick(thickness=2, size=22)
        .encode(x=x, y=y, color=shade, tooltip=tooltips)
    )
    dots = (
        alt.Chart(chart_data(list(points)))
        .mark_circle(size=46, opacity=0.9, yOffset=SEED_OFFSET)
        .encode(x=x, y=y, color=shade, tooltip=[alt.Tooltip("seed:N"), alt.Tooltip("score:N")])
    )
    arrows = _arrows(bars, span)
    if not arrows:
        return layer_charts(rules, ticks, dots)
    heads = (
        alt.Chart(chart_data(arrows))
        .mark_point(size=ARROW, filled=True, opacity=1)
        .encode(
            x=x,
            y=y,
            color=shade,
            shape=alt.Shape("shape:N", scale=None, legend=None),
            tooltip=tooltips,
        )
    )
    return layer_charts(rules, ticks, dots, heads)


def _loss_axis(field: str, unit: str, span: tuple[float, float]) -> alt.X:
    return alt.X(
        f"{field}:Q",
        title=unit,
        axis=alt.Axis(tickCount=6),
        scale=alt.Scale(type="linear", nice=False, zero=False, domain=list(span)),
    )


def _domain(bars: Sequence[ChartRow], points: Sequence[ChartRow]) -> tuple[float, float]:
    """All predictions, runs and ends of intervals that are finite and no further away than twice
    the spread of the rest, or than a tenth.
    """
    inner = [row["loss"] for row in (*bars, *points)]
    reach = max(2 * (max(inner) - min(inner)), 0.1 * max(inner))
    least, most = max(min(inner) - reach, min(inner) / 2), max(inner) + reach
    ends: list[float] = []
    for bar in bars:
        for end in (bar["low"], bar["high"]):
            if isfinite(end):
                ends.append(min(max(end, least), most))
            else:
                ends.append(most)
    return min(*inner, *ends) / ROOM, max(*inner, *ends) * ROOM
