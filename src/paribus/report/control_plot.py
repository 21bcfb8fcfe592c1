"""The positive control beside the arms, on one scale: how large is a difference that the
experiment must see?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from paribus.analyse.findings import ArmFinding
from paribus.analyse.positive_control import ControlFinding
from paribus.report.charts import (
    Plot,
    chart_data,
    chart_spec,
    css_colour,
    layer_charts,
    row_key,
)
from paribus.report.gain_chart import (
    LEADING,
    break_name,
    compared_arms,
    finite_end,
    gain_axis,
    row_labels,
    zero_line,
)
from paribus.report.numbers import format_plain, format_signed, quote_arm
from paribus.report.positive_control import describe_control
from paribus.report.report_data import ReportData

ROW_HEIGHT, EDGE = 46, 12  # pixels of an arm, and of all of them together
THICK = 4  # pixels of a bar
LABEL_SIZE, LABEL_WIDTH = 13, 170  # pixels
MAX_ARMS = 10  # beside the control
ChartRow = dict[str, Any]


def control_plot(report: ReportData) -> list[Plot]:
    """The control and the first arms that were judged; none where it is one of them, or was not
    measured.
    """
    control = report.findings.control
    if control is None or not control.losses:
        return []
    arms = compared_arms(report)
    if any(arm.name == control.name for arm in arms):
        return []
    arms = arms[:MAX_ARMS]
    rows = [*(_arm_row(arm, report) for arm in arms), _control_row(control)]
    points = [*_arm_points(arms), *_control_points(control, len(arms))]
    title = "The positive control, on the scale of the arms"
    plot = Plot(
        key="effect-control",
        title=title,
        caption=_caption(control, report),
        spec=_spec(title, rows, points, report),
        heading=("arm", "seed", "gain"),
        numbers=tuple(_number_lines(rows, points)),
    )
    return [plot]


def _spec(
    title: str, rows: Sequence[ChartRow], points: Sequence[ChartRow], report: ReportData
) -> dict[str, Any]:
    labels, descriptions = [], []
    for row in rows:
        labels.append(break_name(row["label"]))
        descriptions.append(f"{row['label']}: {row['words']}")
    height = max(ROW_HEIGHT, LEADING * max(map(len, labels)) + EDGE) * len(rows) + EDGE
    chart = _chart(rows, points, report)
    return chart_spec(chart, f"{title}: {'; '.join(descriptions)}.", height)


def _number_lines(
    rows: Sequence[ChartRow], points: Sequence[ChartRow]
) -> Iterator[tuple[str, ...]]:
    for point in points:
        label = rows[int(point["place"])]["label"]
        yield label, str(point["seed"]), format_signed(point["gain"], 5)


def _caption(control: ControlFinding, report: ReportData) -> str:
    if report.findings.margin is None:
        band = ""
    else:
        band = f" The band is the margin against {quote_arm(report.findings.baseline)}."
    return (
        f"Each small point is a seed, the diamond their mean; losses are left of zero.{band} "
        f"{describe_control(report)} Its bar ends at the one-sided bound."
    )


def _arm_row(arm: ArmFinding, report: ReportData) -> ChartRow:
    comparison = arm.judgement.comparison
    assert comparison is not None
    return {
        "label": report.findings.label(arm),
        "gain": comparison.effect,
        "low": finite_end(comparison.low),
        "high": finite_end(comparison.high),
        "words": f"gain {format_signed(comparison.effect, 4)}",
    }


def _control_row(control: ControlFinding) -> ChartRow:
    return {
        "label": f"control: {control.name}",
        "gain": -control.effect,
        "low": -control.effect,
        "high": finite_end(-control.low),
        "words": f"loss {format_plain(control.effect, 4)}",
    }


def _arm_points(arms: Sequence[ArmFinding]) -> Iterator[ChartRow]:
    for place, arm in enumerate(arms):
        for one in arm.judgement.seeds:
            if one.gain is not None:
                yield {"place": place, "seed": one.seed, "gain": one.gain}


def _control_points(control: ControlFinding, place: int) -> Iterator[ChartRow]:
    for seed, loss in sorted(control.losses.items()):
        yield {"place": place, "seed": seed, "gain": -loss}


def _chart(
    rows: Sequence[ChartRow], points: Sequence[ChartRow], report: ReportData
) -> alt.LayerChart:
    across, unit = _rows_axis(rows), report.measure.unit
    shade = alt.Color("shade:N", scale=None, legend=None)
    shades = [css_colour("arm-1")] * (len(rows) - 1) + [css_colour("arm-2")]
    means = [_with_place(row, place, shades) for place, row in enumerate(rows)]
    seeds = [_with_place(point, point["place"], shades) for point in points]
    bars = alt.Chart(chart_data(list(filter(_has_bar, means))))
    bar = bars.mark_rule(strokeWidth=THICK, strokeCap="round").encode(
        x=gain_axis("low:Q", unit), x2=alt.X2("high:Q"), y=across, color=shade
    )
    tooltips = [alt.Tooltip("label:N"), alt.Tooltip("words:N")]
    mean = (
        alt.Chart(chart_data(means))
        .mark_point(shape="diamond", size=120, filled=True, opacity=1)
        .encode(x=gain_axis("gain:Q", unit), y=across, color=shade, tooltip=tooltips)
    )
    each = (
        alt.Chart(chart_data(seeds))
        .mark_circle(size=40, opacity=0.6, yOffset=12)
        .encode(x=gain_axis("gain:Q", unit), y=across, color=shade)
    )
    band = _band(report.findings.margin, unit)
    return layer_charts(*band, zero_line(unit), bar, mean, each)


def _rows_axis(rows: Sequence[ChartRow]) -> alt.Y:
    labels = row_labels([break_name(row["label"]) for row in rows], LABEL_SIZE, LABEL_WIDTH)
    return alt.Y("row:N", title=None, sort=list(map(row_key, range(len(rows)))), axis=labels)


def _with_place(row: ChartRow, place: int, shades: Sequence[str]) -> ChartRow:
    """A row with what its place in the chart gives it."""
    return {**row, "row": row_key(place), "shade": shades[place]}


def _has_bar(row: ChartRow) -> bool:
    return row["low"] is not None and row["high"] is not None


def _band(margin: float | None, unit: str) -> list[alt.Chart]:
    """The margin behind all rows."""
    if margin is None:
        return []
    ends = alt.Chart(chart_data([{"from": -margin, "to": margin}]))
    return [
        ends.mark_rect(color=css_colour("band")).encode(
            x=gain_axis("from:Q", unit), x2=alt.X2("to:Q")
        )
    ]
