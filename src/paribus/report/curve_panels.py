"""Panels of lines: bands where points have ends, and controls dashed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any, Literal

import altair as alt

from paribus.report.charts import (
    DASHES,
    KEY_FIELD,
    KEY_PREFIX,
    LEGEND_WIDTH,
    LETTER,
    SYMBOL,
    arm_colours,
    arm_dashes,
    css_colour,
)
from paribus.report.numbers import DASH
from paribus.report.probe_panels import Panel, number_text, panel_data

HEIGHT = 240
MODEL = "the model"  # what is no control
CONTROL_DASHES = ([5, 4], [2, 3], [9, 3, 2, 3], [1, 4])
MAX_TICKS = 14
LEAST_SPAN = 0.02  # of an axis, over its farther end
LEAST_RATIO = 10  # of the ends of a logarithmic axis: a shorter one has too few ticks
TICK_STEPS = (1, 2, 5)  # of a logarithmic axis
FEW_POWERS = 3
PLAIN_LABEL = "format(datum.value, '~g')"  # the axis would round it to few digits
# of the powers of ten from 1 down, where they are many
_POWERS = "10⁻³ 10⁻⁴ 10⁻⁵ 10⁻⁶ 10⁻⁷ 10⁻⁸ 10⁻⁹ 10⁻¹⁰ 10⁻¹¹ 10⁻¹²"
POWER_LABELS = ("1", "0.1", "0.01", *_POWERS.split())
LOW_TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)  # of a logarithmic axis that holds zero
POWER_LABEL = (
    f"datum.value > 0.005 ? {PLAIN_LABEL} :"
    f" split('{' '.join(POWER_LABELS)}', ' ')[round(-log(datum.value) / LN10)]"
)
# lines are thinner from one to the next, so that one upon another hides none
WIDEST, MEAN_WIDTH, THINNEST = 3.2, 2.0, 1.4
DOT_SIZE = 6  # of a line that is one pixel wide


@dataclass(frozen=True)
class CurvePoint:
    """A point of a line. A control is dashed beside the line that it belongs to."""

    line: str
    x: float
    y: float
    low: float | None = None  # the ends of a band
    high: float | None = None
    control: str = ""  # such as untrained


@dataclass(frozen=True)
class CurveAxes:
    """What is drawn over what, what the lines are, and which axes are logarithmic."""

    x_name: str
    y_name: str
    line_name: str
    is_log_x: bool = False  # logarithmic; near zero it is linear
    is_log_y: bool = False  # logarithmic where values are positive and far apart


def lines_in(points: Sequence[CurvePoint]) -> list[str]:
    """The names of lines, in the order of first appearance."""
    return list(dict.fromkeys(point.line for point in points))


def curve_panel(
    points: Sequence[CurvePoint], order: Sequence[str], title: str, axes: CurveAxes
) -> Panel:
    """Lines over each other. `order` has all lines that may be there, so that each has one colour
    in all panels.
    """
    has_bands = any(point.low is not None for point in points)
    ends = ("from", "to") if has_bands else ()
    return Panel(
        title=title,
        chart=_chart(points, order, axes),
        height=HEIGHT,
        description=_describe_ends(points),
        heading=(axes.line_name, axes.x_name, axes.y_name, *ends),
        numbers=tuple(_point_cells(point, has_bands) for point in points),
    )


def _chart(points: Sequence[CurvePoint], order: Sequence[str], axes: CurveAxes) -> alt.LayerChart:
    lines = lines_in(points)
    has_controls = any(point.control for point in points)
    values = [_point_value(point, has_controls) for point in points]
    base = alt.Chart()
    shade = arm_colours(order, lines, has_strokes=True)
    if len(order) == 1:
        shade = shade.legend(None)
    x = _x_axis(points, axes)
    y, low = _y_axis("y:Q", points, axes), _y_axis("low:Q", points, axes)
    line = base.mark_line().encode(
        y=y,
        strokeDash=_dashes(points, order),
        strokeWidth=alt.StrokeWidth("width:Q", scale=None, legend=None),
    )
    dots = base.mark_circle(opacity=1).encode(
        y=y,
        size=alt.Size("size:Q", scale=None, legend=None),
        tooltip=_tooltips(points, axes),
    )
    layers = [line, dots]
    if any("low" in value for value in values):
        layers.insert(0, _band(low, has_controls))
    # in one piece: each call of encode(…) or transform_…(…) would copy all layers
    return alt.LayerChart(
        layer=layers,
        data=panel_data(values, order),
        encoding=alt.FacetedEncoding(x=x, color=shade),
        transform=[
            _calculation("width", _width_expression(lines, order)),
            _calculation("size", f"{DOT_SIZE} * datum.width * datum.width"),
        ],
    )


def _calculation(name: str, expression: str) -> alt.CalculateTransform:
    return alt.CalculateTransform(**{"as": name, "calculate": expression})


def _band(low: alt.Y, has_controls: bool) -> alt.Chart:
    base = alt.Chart()
    band = base.transform_filter("isValid(datum.low)").mark_area(opacity=0.14)
    band = band.encode(y=low, y2=alt.Y2("high:Q"))
    if has_controls:
        band = band.encode(detail=alt.Detail("model:N"))
    return band


def _width_expression(lines: Sequence[str], order: Sequence[str]) -> str:
    """The expression of the width of a line, whose place in `order` its key names."""
    widths = dict(zip(lines, line_widths(len(lines)), strict=True))
    listed = json.dumps([widths.get(line, 0) for line in order])
    return f"{listed}[slice(datum.{KEY_FIELD}, {len(KEY_PREFIX)})]"


def line_widths(n_lines: int) -> list[float]:
    """Widths that fall from the first line to the last."""
    if n_lines == 1:
        return [MEAN_WIDTH]
    step = (WIDEST - THINNEST) / (n_lines - 1)
    return [round(WIDEST - step * place, 2) for place in range(n_lines)]


def _point_value(point: CurvePoint, has_controls: bool) -> dict[str, Any]:
    """A point as the chart has it; it names its control where some point has one."""
    value: dict[str, Any] = {
        "arm": point.line,
        "x": point.x,
        "y": point.y,
        "value": number_text(point.y),
    }
    if has_controls:
        value["model"] = point.control or MODEL
    if point.low is not None and point.high is not None:
        value |= {"low": point.low, "high": point.high, "range": _describe_range(point)}
    return value


def _describe_range(point: CurvePoint) -> str:
    assert point.low is not None
    assert point.high is not None
    return f"{number_text(point.low)} to {number_text(point.high)}"


def _point_cells(point: CurvePoint, has_bands: bool) -> tuple[str, ...]:
    name = f"{point.line}, {point.control}" if point.control else point.line
    ends = (DASH, DASH) if has_bands else ()
    if point.low is not None and point.high is not None:
        ends = (number_text(point.low), number_text(point.high))
    return name, number_text(point.x), number_text(point.y), *ends


def _tooltips(points: Sequence[CurvePoint], axes: CurveAxes) -> list[alt.Tooltip]:
    tooltips = [alt.Tooltip("arm:N", title=axes.line_name)]
    if any(point.control for point in points):
        tooltips.append(alt.Tooltip("model:N", title="of"))
    tooltips.append(alt.Tooltip("x:Q", title=axes.x_name))
    tooltips.append(alt.Tooltip("value:N", title=axes.y_name))
    if any(point.low is not None for point in points):
        tooltips.append(alt.Tooltip("range:N", title="band"))
    return tooltips


def _dashes(
    points: Sequence[CurvePoint], order: Sequence[str]
) -> alt.StrokeDash | alt.StrokeDashValue:
    """Dashes for controls; where there are none, for lines that share a colour with another."""
    controls = list(dict.fromkeys(point.control for point in points if point.control))
    if not controls:
        return arm_dashes(order, lines_in(points))
    names = list(dict.fromkeys(point.control or MODEL for point in points))
    dashes = []
    for name in names:
        if name == MODEL:
            dashes.append(DASHES[0])
        else:
            dashes.append(CONTROL_DASHES[controls.index(name) % len(CONTROL_DASHES)])
    legend = alt.Legend(
        title=None,
        orient="bottom",
        direction="horizontal",
        symbolType="stroke",
        symbolStrokeColor=css_colour("ink"),
        symbolSize=300,
        labelLimit=0,
        columns=_legend_columns(names),
    )
    return alt.StrokeDash("model:N", scale=alt.Scale(domain=names, range=dashes), legend=legend)


def _legend_columns(names: Sequence[str]) -> alt.ExprRef:
    """As many columns as there is room for."""
    widest = LETTER * max(map(len, names)) + SYMBOL
    return alt.ExprRef(f"max(1, floor({LEGEND_WIDTH} / {widest}))")


def _x_axis(points: Sequence[CurvePoint], axes: CurveAxes) -> alt.X:
    ends = [min(point.x for point in points), max(point.x for point in points)]
    kind, ticks = "linear", alt.Undefined
    if axes.is_log_x:
        kind, ticks = _log_scale(*ends)
    places = sorted({point.x for point in points})
    if len(places) <= MAX_TICKS:
        ticks = places
    axis = alt.Axis(
        grid=False,
        values=ticks,
        tickCount=6,
        labelOverlap=alt.Undefined if axes.is_log_x else True,
        labelFlush=False,
        labelExpr=PLAIN_LABEL,
    )
    scale = alt.Scale(type=kind, nice=False, domain=ends)
    return alt.X("x:Q", title=axes.x_name, scale=scale, axis=axis)


def _log_scale(low: float, high: float) -> tuple[Literal["log", "symlog"], list[float]]:
    """The kind of a logarithmic axis from low to high, and its ticks."""
    if low > 0:
        return "log", log_ticks(low, high)
    return "symlog", [tick for tick in LOW_TICKS if low <= tick <= high]


def _y_axis(field: str, points: Sequence[CurvePoint], axes: CurveAxes) -> alt.Y:
    lows = [point.y if point.low is None else point.low for point in points]
    highs = [point.y if point.high is None else point.high for point in points]
    ends = [min(lows), max(highs)]
    if not axes.is_log_y or ends[0] <= 0 or ends[1] < LEAST_RATIO * ends[0]:
        scale = alt.Scale(zero=_is_near_zero(points))
        least = LEAST_SPAN * max(map(abs, ends))
        if least > 0 and ends[1] - ends[0] < least:  # rounding would look like a curve
            scale = alt.Scale(zero=False, domain=[ends[1] - least, ends[1]])
        return alt.Y(field, title=axes.y_name, scale=scale, axis=alt.Axis(tickCount=5))
    ticks = log_ticks(*ends)
    are_powers = all(log10(tick).is_integer() for tick in ticks)
    label = POWER_LABEL if are_powers else PLAIN_LABEL
    axis = alt.Axis(values=ticks, labelExpr=label, labelOverlap=True)
    scale = alt.Scale(type="log", nice=False, domain=ends)
    return alt.Y(field, title=axes.y_name, scale=scale, axis=axis)


def _is_near_zero(points: Sequence[CurvePoint]) -> bool:
    """Does the axis lose little where it begins at zero?"""
    values = [point.y for point in points]
    return min(values) >= 0 and min(values) < max(values) / 2


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks between two positive numbers: powers of ten, and of few powers 2 and 5 times each."""
    first, last = floor(log10(low)), floor(log10(high))
    steps = TICK_STEPS if last - first < FEW_POWERS else TICK_STEPS[:1]
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def _describe_ends(points: Sequence[CurvePoint]) -> str:
    """Where each line ends."""
    last: dict[str, CurvePoint] = {}
    for point in points:
        name = f"{point.line}, {point.control}" if point.control else point.line
        if name not in last or point.x > last[name].x:
            last[name] = point
    ends = [f"{name} ends at {number_text(point.y)}" for name, point in last.items()]
    return f"{'; '.join(ends)}."
