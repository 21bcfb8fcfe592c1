"""Heat maps of layers and heads, or of domains and experts, and bars of loads.

A value is the opacity of a square: so one map serves light and dark pages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from paribus.record.probe_rows import ProbeRow
from paribus.report.charts import (
    SEPARATOR,
    css_colour,
    label_expression,
    layer_charts,
    row_key,
)
from paribus.report.numbers import capitalise, format_distinct, significant, true_minus
from paribus.report.probe_panels import (
    FILL,
    Panel,
    ProbeFigure,
    RunRows,
    axis_name,
    distinct_places,
    layers_shown,
    main_stack_name,
    number_text,
    of_place,
    panel_data,
    panel_title,
    probe_figure,
    probe_of,
    selected_rows,
    slug,
)

ROW_HEIGHT, MAX_HEIGHT = 24, 360  # pixels of a line of a map, and of all
BAR_HEIGHT = 130
LEAST_OPACITY = 0.06  # of the lowest value
MANY_COLUMNS = 24  # from here on not every one has a label
EVEN_LOAD = 1.0
LETTER_WIDTH, MAX_LABEL_WIDTH = 7, 110  # pixels of a label of a line
TITLE_PADDING = 8
FONT_ROOM = 0.25  # a viewer's font may be so much wider than that which a file was laid out with


@dataclass(frozen=True)
class HeatCell:
    """A value of a map, in a line and a column by number."""

    line: int
    column: int
    value: float


@dataclass(frozen=True)
class HeatAxes:
    """What lines, columns and values are called, and the ends of the scale for all panels."""

    line_name: str
    column_name: str
    value_name: str
    ends: tuple[float, float]


def head_maps(runs: RunRows, quantity: str, caption: str) -> ProbeFigure | None:
    """Layer × head maps of a quantity, a panel for each attention of each run; those of one
    attention share a scale.
    """
    own = selected_rows(runs, lambda row: row.quantity == quantity and row.variant == "")
    panels = []
    for place in distinct_places(own):
        here = of_place(own, place)
        ends = value_ends([row.value for rows in here.values() for row in rows])
        axes = HeatAxes("layer", "head", axis_name(probe_of(own), quantity), ends)
        for run, rows in here.items():
            name = run if len(runs) > 1 else ""
            title = panel_title(name, place.label(main_stack_name({run: runs[run]})))
            panels.append(_head_panel(rows, title, axes))
    key = slug(f"{probe_of(own)} {quantity} map")
    return probe_figure(key, f"{capitalise(quantity)}, head by head", caption, panels)


def _head_panel(rows: Sequence[ProbeRow], title: str, axes: HeatAxes) -> Panel:
    cells = []
    for row in rows:
        assert row.layer is not None
        assert row.head is not None
        cells.append(HeatCell(row.layer, row.head, row.value))
    n_layers = max(cell.line for cell in cells) + 1
    return heat_panel(cells, list(map(str, range(n_layers))), title, axes)


def domain_maps(runs: RunRows, quantity: str, caption: str) -> ProbeFigure | None:
    """Domain × expert maps of the share of tokens, a panel for each layer of each run."""
    own = selected_rows(runs, lambda row: row.quantity == quantity)
    ends = value_ends([0.0, *(row.value for rows in own.values() for row in rows)])
    axes = HeatAxes("domain", "expert", quantity, ends)
    panels = []
    for title, rows in _layer_panels(own, len(runs) > 1):
        domains = list(dict.fromkeys(row.variant for row in rows))
        cells = [HeatCell(domains.index(row.variant), round(row.x or 0), row.value) for row in rows]
        panels.append(heat_panel(cells, domains, title, axes))
    return probe_figure("experts-domains", "Experts by domain", caption, panels)


def load_bars(runs: RunRows, quantity: str, caption: str) -> ProbeFigure | None:
    """Bars of the load of each expert, a panel for each layer of each run."""
    own = selected_rows(runs, lambda row: row.quantity == quantity)
    highest = max([EVEN_LOAD, *(row.value for rows in own.values() for row in rows)])
    panels = []
    for title, rows in _layer_panels(own, len(runs) > 1):
        panels.append(_load_panel(rows, title, highest))
    return probe_figure("experts-load", "Load of each expert", caption, panels)


def _layer_panels(runs: RunRows, has_many_runs: bool) -> list[tuple[str, list[ProbeRow]]]:
    """Rows of some layers of each run and stack, with what each is called."""
    panels = []
    for run, all_rows in runs.items():
        for place in distinct_places({run: all_rows}):
            rows = of_place({run: all_rows}, place)[run]
            for layer in layers_shown(row.layer for row in rows if row.layer is not None):
                name = run if has_many_runs else ""
                label = place.label(main_stack_name({run: all_rows}))
                title = panel_title(name, label, f"layer {layer}")
                panels.append((title, [row for row in rows if row.layer == layer]))
    return panels


def heat_panel(
    cells: Sequence[HeatCell], line_labels: Sequence[str], title: str, axes: HeatAxes
) -> Panel:
    """A map whose lines have labels and whose columns have numbers."""
    values: list[dict[str, Any]] = []
    for cell in cells:
        values.append(
            {
                "row": row_key(cell.line),
                "column": cell.column,
                "level": cell.value,
                "value": number_text(cell.value),
            }
        )
    y = alt.Y(
        "row:N",
        title=axes.line_name,
        sort=list(map(row_key, range(len(line_labels)))),
        axis=alt.Axis(
            grid=False,
            labelExpr=label_expression(line_labels),
            labelLimit=MAX_LABEL_WIDTH,
            titlePadding=title_padding(line_labels),
        ),
    )
    opacity = alt.Opacity(
        "level:Q",
        scale=alt.Scale(domain=list(axes.ends), range=[LEAST_OPACITY, 1], clamp=True, nice=False),
        legend=_opacity_legend(axes.ends),
    )
    tooltips = [
        alt.Tooltip("label:N", title=axes.line_name),
        alt.Tooltip("column:N", title=axes.column_name),
        alt.Tooltip("value:N", title=axes.value_name),
    ]
    squares = (
        alt.Chart(panel_data(values))
        .transform_calculate(label=label_expression(line_labels, "datum.row"))
        .mark_rect(fill=css_colour(FILL), stroke=css_colour("paper"), strokeWidth=1)
        .encode(
            x=_column_axis(axes.column_name, [cell.column for cell in cells]),
            y=y,
            opacity=opacity,
            tooltip=tooltips,
        )
    )
    shown = sorted(cell.value for cell in cells)
    return Panel(
        title=title,
        chart=layer_charts(squares),
        height=min(MAX_HEIGHT, max(2, len(line_labels)) * ROW_HEIGHT),
        description=f"From {number_text(shown[0])} to {number_text(shown[-1])}.",
        heading=(axes.line_name, axes.column_name, axes.value_name),
        numbers=tuple(
            (line_labels[cell.line], str(cell.column), number_text(cell.value)) for cell in cells
        ),
    )


def title_padding(labels: Sequence[str]) -> float:
    """Pixels between the labels of an axis and its title, so that they do not meet in any font."""
    widest = max(map(len, labels), default=0) * LETTER_WIDTH
    return TITLE_PADDING + FONT_ROOM * min(widest, MAX_LABEL_WIDTH)


def _opacity_legend(ends: tuple[float, float]) -> alt.Legend:
    """The lowest value, the middle and the highest."""
    low, high = ends
    steps = [low, (low + high) / 2, high]
    labels = json.dumps(SEPARATOR.join(map(true_minus, format_distinct(steps, significant))))
    place = f"round(2 * (datum.value - {low}) / {high - low})"
    return alt.Legend(
        title=None,
        orient="bottom",
        direction="horizontal",
        values=steps,
        labelExpr=f"split({labels}, {json.dumps(SEPARATOR)})[{place}]",
        symbolType="square",
        symbolSize=150,
        symbolFillColor=css_colour(FILL),
        symbolStrokeWidth=0,
    )


def _column_axis(name: str, columns: Sequence[int]) -> alt.X:
    n_columns = max(columns) + 1
    step = 1 + n_columns // MANY_COLUMNS
    return alt.X(
        "column:O",
        title=name,
        axis=alt.Axis(
            grid=False, labelAngle=0, values=list(range(0, n_columns, step)), labelOverlap=True
        ),
    )


def _load_panel(rows: Sequence[ProbeRow], title: str, highest: float) -> Panel:
    values = []
    for row in rows:
        values.append(
            {"column": round(row.x or 0), "load": row.value, "value": number_text(row.value)}
        )
    base = alt.Chart(panel_data(values))
    y = alt.Y(
        "load:Q",
        title="load",
        scale=alt.Scale(domain=[0, highest], nice=True),
        axis=alt.Axis(tickCount=4),
    )
    tooltips = [alt.Tooltip("column:N", title="expert"), alt.Tooltip("value:N", title="load")]
    bars = base.mark_bar(color=css_colour(FILL), opacity=0.85).encode(
        x=_column_axis("expert", [value["column"] for value in values]), y=y, tooltip=tooltips
    )
    even = (
        alt.Chart(panel_data([{"load": EVEN_LOAD}]))
        .mark_rule(color=css_colour("ink"), strokeDash=[4, 3])
        .encode(y=y)
    )
    most = max(rows, key=lambda row: row.value)
    return Panel(
        title=title,
        chart=layer_charts(bars, even),
        height=BAR_HEIGHT,
        description=f"Expert {round(most.x or 0)} has the highest load, {number_text(most.value)}.",
        heading=("expert", "load"),
        numbers=tuple((str(value["column"]), value["value"]) for value in values),
    )


def value_ends(values: Sequence[float]) -> tuple[float, float]:
    """The ends of a scale: the lowest and the highest value, or a range about a single one."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low == high:
        return low - 0.5, high + 0.5
    return low, high
