"""Curves of what probes found: spectra, and quantities over depth, layers or positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paribus.analyse.probe_means import mean_over_heads, mean_over_layers, value_range
from paribus.record.probe_rows import ProbeRow
from paribus.report.curve_panels import CurveAxes, CurvePoint, curve_panel, lines_in
from paribus.report.numbers import capitalise
from paribus.report.probe_panels import (
    Panel,
    PanelPlace,
    ProbeFigure,
    RunRows,
    distinct_places,
    has_encoder,
    layers_shown,
    of_place,
    panel_title,
    probe_figure,
    probe_of,
    selected_rows,
    slug,
)

AS_IT_IS = "as it is"  # a variant in which nothing is changed
UNTRAINED, BY_CHANCE = "untrained", "by chance"  # controls
LEAST_SHOWN = 1e-8  # of a singular value over the largest
SPECTRUM = "singular value"
SPECTRUM_X = "number of the singular value"
MEDIAN, LOWEST, HIGHEST = "median over heads", "lowest tenth", "highest tenth"


def spectra(runs: RunRows, caption: str) -> ProbeFigure | None:
    """Singular values over the largest, median over heads with a band of tenths: a line for each
    layer of a run, or for each of several runs.
    """
    own = selected_rows(runs, lambda row: row.quantity.startswith(f"{SPECTRUM}, "))
    axes = CurveAxes(SPECTRUM_X, f"{SPECTRUM} over the largest", _line_name(runs), is_log=True)
    panels = []
    for place, variant in _places_and_variants(own):
        if variant and len(runs) == 1:
            continue
        here = selected_rows(of_place(own, place), lambda row, only=variant: row.variant == only)
        points: list[CurvePoint] = []
        for line, rows in _lines_of_layers(here, len(runs) > 1):
            points += _spectrum_points(line, rows)
        title = panel_title(place.label(has_encoder(runs)), variant)
        panels.append(curve_panel(points, _line_order(runs, points), title, axes))
    return probe_figure("rank-spectra", "Spectra of attention", caption, panels)


def _spectrum_points(line: str, rows: Sequence[ProbeRow]) -> Iterator[CurvePoint]:
    by_name: dict[str, dict[float, float]] = {}
    for row in rows:
        name = row.quantity.removeprefix(f"{SPECTRUM}, ")
        by_name.setdefault(name, {})[row.x or 1.0] = row.value
    for number, median in sorted(by_name.get(MEDIAN, {}).items()):
        if median >= LEAST_SHOWN:
            low = max(LEAST_SHOWN, by_name.get(LOWEST, {}).get(number, median))
            high = by_name.get(HIGHEST, {}).get(number, median)
            yield CurvePoint(line, number, median, low, high)


def x_curves(runs: RunRows, quantity: str, x_name: str, caption: str) -> ProbeFigure | None:
    """A quantity over depth, position or anything else that rows name: a line for each variant of
    a run, or a panel for each variant and a line for each of several runs.
    """
    own = selected_rows(runs, lambda row: row.quantity == quantity and row.x_name == x_name)
    axes = CurveAxes(x_name, quantity, _line_name(runs, "variant"))
    panels = []
    for place in distinct_places(own):
        here = of_place(own, place)
        label = place.label(has_encoder(runs))
        if len(runs) > 1:
            panels += _panels_by_variant(runs, here, label, axes)
        elif _has_layers(here):
            panels += _panels_by_layer(here, label, axes)
        else:
            points = [_x_point(row) for rows in here.values() for row in rows]
            panels.append(curve_panel(points, _line_order(runs, points), label, axes))
    key = slug(f"{probe_of(own)} {quantity} by {x_name}")
    return probe_figure(key, f"{capitalise(quantity)} by {x_name}", caption, panels)


def _panels_by_variant(
    runs: RunRows, here: RunRows, label: str, axes: CurveAxes
) -> Iterator[Panel]:
    """One panel per variant, with a line for each run."""
    points: dict[str, list[CurvePoint]] = {}
    for run, rows in here.items():
        for row in mean_over_layers(rows):
            variant, control = split_control_name(row)
            assert row.x is not None
            point = CurvePoint(run, row.x, row.value, control=control)
            points.setdefault(variant, []).append(point)
    for variant, own in points.items():
        name = variant if len(points) > 1 else ""
        yield curve_panel(own, list(runs), panel_title(label, name), axes)


def _panels_by_layer(here: RunRows, label: str, axes: CurveAxes) -> Iterator[Panel]:
    """One panel per variant of a run whose rows differ by layer, with a line for each layer."""
    ((_, rows),) = here.items()
    by_layer = CurveAxes(axes.x_name, axes.y_name, "layer")
    variants = list(dict.fromkeys(row.variant for row in rows))
    for variant in variants:
        own = [row for row in rows if row.variant == variant]
        points = []
        for line, line_rows in _lines_of_layers({"": own}, False):
            for row in line_rows:
                assert row.x is not None
                points.append(CurvePoint(line, row.x, row.value))
        name = variant if len(variants) > 1 else ""
        yield curve_panel(points, lines_in(points), panel_title(label, name), by_layer)


def layer_curves(runs: RunRows, quantity: str, caption: str) -> ProbeFigure | None:
    """A quantity of each layer, mean over heads with a band from the lowest to the highest: a line
    for each variant of a run, or a panel for each variant and a line for each of several runs.
    """
    chance = f"{quantity}, {BY_CHANCE}"
    own = selected_rows(runs, lambda row: row.quantity in (quantity, chance))
    axes = CurveAxes("layer", quantity, _line_name(runs, "variant"))
    panels = []
    for place in distinct_places(own):
        points: dict[str, list[CurvePoint]] = {}
        for run, rows in of_place(own, place).items():
            for point, variant in _layer_points(run, rows, len(runs) > 1):
                panel = variant if len(runs) > 1 else ""
                points.setdefault(panel, []).append(point)
        for variant, panel_points in points.items():
            name = variant if len(points) > 1 else ""
            title = panel_title(place.label(has_encoder(runs)), name)
            panels.append(curve_panel(panel_points, _line_order(runs, panel_points), title, axes))
    key = slug(f"{probe_of(own)} {quantity} by layer")
    return probe_figure(key, f"{capitalise(quantity)} by layer", caption, panels)


def _layer_points(
    run: str, rows: Sequence[ProbeRow], has_many_runs: bool
) -> Iterator[tuple[CurvePoint, str]]:
    """Points of a run, each with its variant."""
    values: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        assert row.layer is not None
        values.setdefault((*split_control_name(row), row.layer), []).append(row.value)
    for (variant, control, layer), own in values.items():
        found = value_range(own)
        line = run if has_many_runs else variant
        band = (found.low, found.high) if len(own) > 1 else (None, None)
        yield CurvePoint(line, layer, found.mean, *band, control=control), variant


def split_control_name(row: ProbeRow) -> tuple[str, str]:
    """A variant without the control that it names, and the control: untrained, without skips →
    without skips, untrained.
    """
    parts = list(filter(None, row.variant.split(", ")))
    if row.quantity.endswith(f", {BY_CHANCE}"):
        return ", ".join(parts) or AS_IT_IS, BY_CHANCE
    if UNTRAINED in parts:
        parts.remove(UNTRAINED)
        return ", ".join(parts) or AS_IT_IS, UNTRAINED
    return ", ".join(parts) or AS_IT_IS, ""


def _x_point(row: ProbeRow) -> CurvePoint:
    variant, control = split_control_name(row)
    assert row.x is not None
    return CurvePoint(variant, row.x, row.value, control=control)


def _lines_of_layers(runs: RunRows, has_many_runs: bool) -> Iterator[tuple[str, list[ProbeRow]]]:
    """The rows of each line: of each run over all layers, or of each layer that is shown."""
    for run, rows in runs.items():
        if has_many_runs:
            yield run, mean_over_layers(rows)
            continue
        flat = mean_over_heads(rows)
        for layer in layers_shown(row.layer for row in flat if row.layer is not None):
            yield f"layer {layer}", [row for row in flat if row.layer == layer]


def _line_order(runs: RunRows, points: Sequence[CurvePoint]) -> list[str]:
    """All runs, so that each has one colour in all panels; or the lines of the one run."""
    if len(runs) > 1:
        return list(runs)
    return lines_in(points)


def _line_name(runs: RunRows, of_one_run: str = "layer") -> str:
    """What lines are told apart by."""
    return "run" if len(runs) > 1 else of_one_run


def _places_and_variants(runs: RunRows) -> list[tuple[PanelPlace, str]]:
    found: dict[tuple[PanelPlace, str], None] = {}
    for place in distinct_places(runs):
        for rows in of_place(runs, place).values():
            found |= dict.fromkeys((place, row.variant) for row in rows)
    return list(found)


def _has_layers(runs: RunRows) -> bool:
    return any(row.layer is not None for rows in runs.values() for row in rows)
