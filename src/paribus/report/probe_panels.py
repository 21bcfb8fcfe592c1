"""Figures of what probes found: panels that share a title and a caption."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from paribus.record.probe_rows import ProbeRow
from paribus.report.charts import Plot, chart_data, chart_spec, css_colour
from paribus.report.numbers import round_digits, significant, true_minus
from paribus.spec.measure import PROBE_UNITS

RunRows = Mapping[str, Sequence[ProbeRow]]  # what was found in each run, or in each arm
RowTest = Callable[[ProbeRow], bool]
PANEL_WIDTH = 400  # pixels of a panel in a file of its own
MAX_PANELS = 12  # of a figure
MAX_LAYERS = 6  # that are told apart in a figure
DECODER = "decoder"  # the main stack beside an encoder
FILL = "arm-1"  # colour of maps and bars
MAX_TITLE = 22  # letters of a line
_DIGITS = 4  # that a picture can show, and that a page has room for
# of quantities that are curves alone, so that no design shows them
CURVE_UNITS = {"context": {"loss": "bits per byte"}}
_NO_SLUG = re.compile(r"[^a-z0-9]+")


def panel_data(values: Iterable[dict[str, Any]], order: Sequence[str] = ()) -> alt.Data:
    """Values of a panel, with as many digits as can be seen: a page holds thousands of them."""
    rounded = []
    for row in values:
        rounded.append({name: _round(value) for name, value in row.items()})
    return chart_data(rounded, order)


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return round_digits(value, _DIGITS)
    return value


@dataclass(frozen=True, eq=False)
class ProbeFigure:
    """Panels that are seen together."""

    key: str
    title: str
    caption: str
    panels: tuple[Plot, ...]


@dataclass(frozen=True)
class PanelPlace:
    """Which attention, or which stack, a panel is of."""

    stack: str
    branch: str

    def label(self, main_stack: str) -> str:
        """decoder, cross-attention, where the main stack is called decoder. Nothing else has
        cross-attention.
        """
        own_name = DECODER if self.branch == "cross" else main_stack
        stack = {"stack": own_name}.get(self.stack, self.stack)
        branch = {"attention": "self-attention", "cross": "cross-attention"}.get(self.branch, "")
        return ", ".join(filter(None, (stack, branch)))


def row_place(row: ProbeRow) -> PanelPlace:
    return PanelPlace(row.stack, row.branch)


def distinct_places(runs: RunRows) -> list[PanelPlace]:
    """The places of all rows, in the order of first appearance."""
    found: dict[PanelPlace, None] = {}
    for rows in runs.values():
        found |= dict.fromkeys(map(row_place, rows))
    return list(found)


def main_stack_name(runs: RunRows) -> str:
    """What the main stack of some runs is called: decoder beside an encoder; a lone one has no
    name.
    """
    with_encoder = [run for run, rows in runs.items() if _has_encoder(rows)]
    with_rows = [run for run, rows in runs.items() if rows]
    if not with_encoder:
        return ""
    return DECODER if with_encoder == with_rows else "main stack"


def _has_encoder(rows: Sequence[ProbeRow]) -> bool:
    return any(row.stack == "encoder" for row in rows)


def of_place(runs: RunRows, place: PanelPlace) -> dict[str, list[ProbeRow]]:
    """Rows of one place, of the runs that have any."""
    return selected_rows(runs, lambda row: row_place(row) == place)


def selected_rows(runs: RunRows, is_selected: RowTest) -> dict[str, list[ProbeRow]]:
    """Rows that pass a test, of the runs that have any."""
    selected = {run: [row for row in rows if is_selected(row)] for run, rows in runs.items()}
    return {run: rows for run, rows in selected.items() if rows}


def axis_name(probe: str, quantity: str) -> str:
    """A quantity with its unit, where it has one."""
    unit = {**PROBE_UNITS.get(probe, {}), **CURVE_UNITS.get(probe, {})}.get(quantity, "")
    return f"{quantity}, {unit}" if unit else quantity


def probe_of(runs: RunRows) -> str:
    """The probe that rows are of; empty where there are none."""
    for rows in runs.values():
        return rows[0].probe
    return ""


def panel_title(*parts: str) -> str:
    """What tells a panel from the others of its figure."""
    return ", ".join(filter(None, parts))


def title_lines(title: str) -> list[str]:
    """A title in lines that fit above a small panel, broken at its commas."""
    lines: list[str] = []
    for part in title.split(", "):
        if lines and len(lines[-1]) + len(part) + 2 <= MAX_TITLE:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return lines


def number_text(value: float) -> str:
    """A value of a figure: three digits, with a true minus."""
    return true_minus(significant(value))


def slug(text: str) -> str:
    """A text as it stands in the name of a file: log |det| → log-det."""
    return _NO_SLUG.sub("-", text.lower()).strip("-")


def layers_shown(layers: Iterable[int]) -> list[int]:
    """At most six layers, spread evenly, the first and the last among them."""
    numbers = sorted(set(layers))
    if len(numbers) <= MAX_LAYERS:
        return numbers
    last = len(numbers) - 1
    return [numbers[round(place * last / (MAX_LAYERS - 1))] for place in range(MAX_LAYERS)]


@dataclass(frozen=True, eq=False)
class Panel:
    """A chart, what it is of, its height, its description, and its numbers as a table."""

    title: str
    chart: alt.LayerChart
    height: int
    description: str
    heading: tuple[str, ...]
    numbers: tuple[tuple[str, ...], ...]


def probe_figure(
    key: str, title: str, caption: str, panels: Sequence[Panel], width: int = PANEL_WIDTH
) -> ProbeFigure | None:
    """A figure of some panels; None where there are none."""
    if not panels:
        return None
    if len(panels) > MAX_PANELS:
        caption += f" The first {MAX_PANELS} of {len(panels)} panels are drawn."
    if len(panels) == 1:
        width *= 2
    plots = []
    for number, panel in enumerate(panels[:MAX_PANELS], 1):
        plot_key = key if len(panels) == 1 else f"{key}-{number}"
        plots.append(_plot(plot_key, title, panel, width))
    return ProbeFigure(key, title, caption, tuple(plots))


def _plot(key: str, title: str, panel: Panel, width: int) -> Plot:
    heading = None
    if panel.title:
        heading = alt.TitleParams(
            text=title_lines(panel.title),
            anchor="start",
            color=css_colour("ink"),
            fontSize=13,
            fontWeight=600,
            offset=6,
        )
    description = f"{panel_title(title, panel.title)}. {panel.description}"
    return Plot(
        key=key,
        title=panel_title(title, panel.title),
        caption="",
        spec=chart_spec(panel.chart, description, panel.height, heading),
        heading=panel.heading,
        numbers=panel.numbers,
        width=width,
    )
