"""Losses with a corrupted and with a plain input, joined by a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt

from paribus.record.probe_rows import ProbeRow
from paribus.report.charts import css_colour, label_expression, layer_charts, row_key
from paribus.report.probe_panels import (
    Panel,
    ProbeFigure,
    RunRows,
    number_text,
    panel_data,
    panel_title,
    probe_figure,
)

INPUTS = {"loss, corrupted input": "corrupted input", "loss, plain input": "plain input"}
COLOURS = ("arm-2", "arm-1")  # of the inputs
LINE_HEIGHT, LEAST_HEIGHT = 34, 80  # pixels of a line, and of all
UNIT = "bits per byte"
ALL_COMPONENTS = "all that corrupts"  # of a mixture, beside its components
Losses = dict[str, dict[str, float]]  # what a line is of → input → loss


def corruption_losses(runs: RunRows, caption: str) -> ProbeFigure | None:
    """A line for each run, and for each component of a mixture, with a dot for each input."""
    losses: Losses = {}
    for run, rows in runs.items():
        own = [row for row in rows if row.probe == "corruption" and row.quantity in INPUTS]
        for row in own:
            label = _line_label(row, run, len(runs) > 1, any(one.variant for one in own))
            losses.setdefault(label, {})[INPUTS[row.quantity]] = row.value
    panels = [_panel(losses)] if losses else []
    return probe_figure("corruption-loss", "Loss, corrupted and plain input", caption, panels)


def _line_label(row: ProbeRow, run: str, has_many_runs: bool, has_components: bool) -> str:
    name = run if has_many_runs else ""
    component = row.variant or (ALL_COMPONENTS if has_components else "")
    return panel_title(name, component)


def _panel(losses: Losses) -> Panel:
    labels = list(losses)
    values = list(_values(losses))
    base = alt.Chart(panel_data(values))
    x = alt.X(
        "loss:Q", title=UNIT, scale=alt.Scale(zero=False, padding=12), axis=alt.Axis(tickCount=5)
    )
    is_named = any(labels)
    y = alt.Y(
        "row:N",
        title=None,
        sort=list(map(row_key, range(len(labels)))),
        axis=alt.Axis(
            grid=False, labels=is_named, labelExpr=label_expression(labels), labelLimit=140
        ),
    )
    names = list(INPUTS.values())
    shade = alt.Color(
        "input:N",
        scale=alt.Scale(domain=names, range=list(map(css_colour, COLOURS))),
        legend=alt.Legend(title=None, orient="top"),
    )
    between = base.mark_line(color=css_colour("muted"), strokeWidth=1.5).encode(
        x=x, y=y, detail=alt.Detail("row:N")
    )
    dots = base.mark_circle(size=90, opacity=1).encode(
        x=x,
        y=y,
        color=shade,
        tooltip=[
            alt.Tooltip("label:N", title="of"),
            alt.Tooltip("input:N"),
            alt.Tooltip("value:N", title=UNIT),
        ],
    )
    return Panel(
        title="",
        chart=layer_charts(between, dots),
        height=max(LEAST_HEIGHT, len(labels) * LINE_HEIGHT),
        description=_describe(losses),
        heading=("of", "input", UNIT),
        numbers=tuple((one["label"], one["input"], one["value"]) for one in values),
    )


def _values(losses: Losses) -> Iterator[dict[str, Any]]:
    for place, (label, by_input) in enumerate(losses.items()):
        for name, loss in by_input.items():
            yield {
                "row": row_key(place),
                "label": label or "the run",
                "input": name,
                "loss": loss,
                "value": number_text(loss),
            }


def _describe(losses: Losses) -> str:
    parts = []
    for label, by_input in losses.items():
        ends = [f"{name} {number_text(loss)}" for name, loss in by_input.items()]
        parts.append(", ".join(filter(None, (label, *ends))))
    return f"{'; '.join(parts)}."
