"""Vega-Lite charts: one look for all, colours by name, which the page gives for light, dark and
print.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

N_COLOURS = 8
KEY_FIELD = "key"  # the field by which arms are told apart
KEY_PREFIX = "place-"  # what a key begins with
SEPARATOR, LINE_END = "\x1e", "\x1f"  # of labels, and of the lines of one: no name has them
# pixels between two columns of a legend: fonts of readers may be wider than ours
LEGEND_GAP = 40
# pixels of a legend, about: a letter, and what stands beside a name
LETTER, SYMBOL = 7, 18 + LEGEND_GAP
CONTAINER = (
    "containerSize()[0]"  # not the plot's own width, which is found after that of its legend
)
LEGEND_WIDTH = f"({CONTAINER} - 60)"  # beside the axis
LIGHT_COLOURS = {
    "paper": "#ffffff",
    "ink": "#1f2328",
    "muted": "#656d76",
    "line": "#d8dee4",
    "band": "#e6eaef",
    "arm-0": "#57606a",
    "arm-1": "#0969da",
    "arm-2": "#bc4c00",
    "arm-3": "#1a7f37",
    "arm-4": "#8250df",
    "arm-5": "#bf3989",
    "arm-6": "#9a6700",
    "arm-7": "#1b7c83",
}
FILE_WIDTH = 720  # pixels of a plot in a file of its own
DASHES = ([1, 0], [6, 3], [2, 3])
_CSS_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")
Values = Sequence[dict[str, Any]]
# chart_spec validates each chart whole; to validate every part as it is made takes longer than that
parts_unvalidated = partial(debug_mode, False)


@dataclass(frozen=True, eq=False)
class Plot:
    """A chart with its text and numbers, for readers who cannot see it or run no script."""

    key: str  # of its place in the page
    title: str
    caption: str
    spec: dict[str, Any]
    heading: tuple[str, ...]  # of its numbers as a table
    numbers: tuple[tuple[str, ...], ...]
    width: int = FILE_WIDTH  # pixels, in a file of its own


def css_colour(name: str) -> str:
    return f"var(--{name})"


def arm_colours(
    order: Sequence[str], drawn_arms: Sequence[str] | None = None, has_strokes: bool = False
) -> alt.Color:
    """One colour for an arm in every chart, whichever arms the chart shows; with strokes for
    symbols where lines have dashes.
    """
    arms = _arms_in_chart(order, drawn_arms)
    shades, keys = [], []
    for arm in arms:
        shades.append(css_colour(f"arm-{order.index(arm) % N_COLOURS}"))
        keys.append(arm_key(order, arm))
    return alt.Color(
        f"{KEY_FIELD}:N",
        scale=alt.Scale(domain=keys, range=shades),
        legend=arm_legend(order, arms, has_strokes),
    )


def _arms_in_chart(order: Sequence[str], drawn_arms: Sequence[str] | None) -> list[str]:
    if drawn_arms is None:
        return list(order)
    return list(drawn_arms)


def arm_dashes(
    order: Sequence[str], drawn_arms: Sequence[str] | None = None
) -> alt.StrokeDash | alt.StrokeDashValue:
    """Whole lines; arms that share a colour, for there are more of them than colours, differ in
    their dashes.
    """
    if len(order) <= N_COLOURS:
        return alt.StrokeDashValue(DASHES[0])
    arms = _arms_in_chart(order, drawn_arms)
    dashes, keys = [], []
    for arm in arms:
        dashes.append(DASHES[order.index(arm) // N_COLOURS % len(DASHES)])
        keys.append(arm_key(order, arm))
    return alt.StrokeDash(
        f"{KEY_FIELD}:N", scale=alt.Scale(domain=keys, range=dashes), legend=arm_legend(order, arms)
    )


def pair_colours(
    order: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> tuple[alt.Color, alt.StrokeDash | alt.StrokeDashValue]:
    """Colours and dashes of comparisons, each an arm and a label, by the key of its place.

    A comparison has the colour of its arm. Further ones of the same arm have colours that no arm
    of the chart has, as far as there are any, and dashes.
    """
    taken = {order.index(arm) % N_COLOURS for arm, _ in pairs}
    free = [place for place in range(1, N_COLOURS) if place not in taken]
    shades: list[str] = []
    dashes: list[list[int]] = []
    n_of_arm: dict[str, int] = {}
    for arm, _ in pairs:
        place, n_before = order.index(arm), n_of_arm.get(arm, 0)
        n_of_arm[arm] = n_before + 1
        n_colour = place % N_COLOURS
        if n_before and free:
            n_colour = free.pop()
        shades.append(css_colour(f"arm-{n_colour}"))
        dashes.append(DASHES[(place // N_COLOURS + n_before) % len(DASHES)])
    labels = [label for _, label in pairs]
    keys = [row_key(place) for place in range(len(pairs))]
    has_dashes = any(dash != DASHES[0] for dash in dashes)
    legend = arm_legend(labels, labels, has_strokes=has_dashes)
    colours = alt.Color(f"{KEY_FIELD}:N", scale=alt.Scale(domain=keys, range=shades), legend=legend)
    if not has_dashes:
        return colours, alt.StrokeDashValue(DASHES[0])
    scale = alt.Scale(domain=keys, range=dashes)
    return colours, alt.StrokeDash(f"{KEY_FIELD}:N", scale=scale, legend=legend)


def arm_legend(
    order: Sequence[str], drawn_arms: Sequence[str], has_strokes: bool = False
) -> alt.Legend:
    """One line where there is room, else as many columns as there is; dashes can be told by
    their symbols.
    """
    wide = [LETTER * len(arm) + SYMBOL for arm in drawn_arms]
    columns = alt.ExprRef(
        f"{LEGEND_WIDTH} < {sum(wide)} ? max(1, floor({LEGEND_WIDTH} / {max(wide, default=1)})) : 0"
    )
    symbol = alt.Undefined
    if has_strokes or len(order) > N_COLOURS:
        symbol = "stroke"
    labels = label_expression(order)
    return alt.Legend(
        title=None, orient="top", columns=columns, labelLimit=0, symbolType=symbol, labelExpr=labels
    )


def layer_charts(*charts: alt.Chart, data: alt.Data | None = None) -> alt.LayerChart:
    """Charts over each other, the first at the bottom. Those without data of their own share
    `data`, which lies in the page once.
    """
    if data is None:
        return alt.LayerChart(layer=list(charts))
    return alt.LayerChart(layer=list(charts), data=data)


def arm_key(order: Sequence[str], arm: str) -> str:
    """What an arm is called inside a chart. Vega keeps tables by these names, which
    `constructor` would break.
    """
    return row_key(order.index(arm))


def row_key(place: int) -> str:
    return f"{KEY_PREFIX}{place}"


def label_expression(labels: Sequence[str], key: str = "datum.label") -> str:
    """The expression of the label whose place a key names.

    All labels stand in one text, for a text that is `constructor` and no more is taken for a
    signal.
    """
    text = json.dumps(SEPARATOR.join([*labels, ""]))
    return f"split({text}, {json.dumps(SEPARATOR)})[slice({key}, {len(KEY_PREFIX)})]"


def multiline_label_expression(labels: Sequence[Sequence[str]]) -> str:
    """A Vega expression for labels of several lines each."""
    expression = label_expression(list(map(LINE_END.join, labels)))
    return f"split({expression}, {json.dumps(LINE_END)})"


def chart_data(values: Values, order: Sequence[str] = ()) -> alt.Data:
    """Values of a chart; those that have an arm of `order` get its key."""
    # a tuple, for altair copies lists row by row whenever charts are put together
    return alt.Data(values=tuple(_with_key(row, order) for row in values))


def _with_key(row: dict[str, Any], order: Sequence[str]) -> dict[str, Any]:
    if order and "arm" in row:
        return {**row, KEY_FIELD: arm_key(order, row["arm"])}
    return row


def chart_spec(
    chart: alt.LayerChart, description: str, height: int, title: alt.TitleParams | None = None
) -> dict[str, Any]:
    """The chart as a table, as wide as its place; hidden from nobody: it carries its own
    description.
    """
    # set, for properties(…) and configure_…(…) would copy all layers, and with them their rows
    whole = chart.copy(deep=False)
    whole.width, whole.height, whole.background = "container", height, "transparent"
    whole.description = description
    if title is not None:
        whole.title = title
    whole.config = alt.Config(
        font="system-ui, sans-serif",
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        padding={"left": 2, "right": 8, "top": 4, "bottom": 4},
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelColor=css_colour("muted"),
            titleColor=css_colour("muted"),
            gridColor=css_colour("line"),
            domain=False,
            ticks=False,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            labelPadding=6,
            titlePadding=8,
        ),
        legend=alt.LegendConfig(
            labelColor=css_colour("ink"),
            labelFontSize=12,
            symbolOpacity=1,
            columnPadding=LEGEND_GAP,
        ),
    )
    spec = whole.to_dict(validate=False)
    layers = [_with_first_row(layer) for layer in spec["layer"]]
    alt.LayerChart.validate({**_with_first_row(spec), "layer": layers})
    return spec


def _with_first_row(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a chart to validate: its rows are of one kind, and to check each takes longest."""
    match part:
        case {"data": {"values": [first, *_]}}:
            return {**part, "data": {"values": [first]}}
        case _:
            return part


def printable_spec(spec: Any, width: int = FILE_WIDTH) -> Any:
    """A chart for paper: colours spelled out, a width of its own."""
    match spec:
        case {"width": "container", **rest}:
            return printable_spec({"width": width, **rest, "background": "white"}, width)
        case dict():
            return {key: printable_spec(value, width) for key, value in spec.items()}
        case list():
            return [printable_spec(value, width) for value in spec]
        case str():
            return _CSS_VARIABLE.sub(lambda match: LIGHT_COLOURS[match[1]], spec).replace(
                CONTAINER, str(width)
            )
        case _:
            return spec
