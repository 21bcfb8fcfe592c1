"""Curves of what probes found: spectra, and quantities over depth, layers or positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from paribus.analyse.probe_means import mean_over_heads, mean_over_layers, value_range
from paribus.record.probe_rows import ProbeRow
from paribus.report.curve_panels import CurveAxes, CurvePoint, curve_panel, lines_in
from paribus.report.numbers import capitalise
from paribus.report.probe_panels import (
    Panel,
    PanelPlace,
    ProbeFigure,
    RunRows,
    axis_name,
    distinct_places,
    layers_shown,
    main_stack_name,
    of_place,
    panel_title,
    probe_figure,
    probe_of,
    selected_rows,
    slug,
)

AS_IT_IS = "as it is"  # a variant in which nothing is changed
# controls: what variants name, and what quantities end with
CONTROL_VARIANTS = ("untrained", "uniform attention")
CONTROL_ENDINGS = ("by chance", "random update", "before tuning", "random attention")
LOG_X = ("tokens of context", "tokens in order", "distance")  # drawn by their logarithm
LOG_Y = ("share of the gradient", "gradient norm")
LEAST_SHOWN = 1e-8  # of a singular value over the largest
SPECTRUM = "singular value"
SPECTRUM_X = "number of the singular value"
MEDIAN, LOWEST, HIGHEST = "median over heads", "lowest tenth", "highest tenth"


def spectra(runs: RunRows, caption: str) -> ProbeFigure | None:
    """Singular values over the largest, median over heads with a band of tenths: a line for each
    layer of a run, or for each of several runs.
    """
    own = selected_rows(runs, lambda row: row.quantity.startswith(f"{SPECTRUM}, "))
    axes = CurveAxes(SPECTRUM_X, f"{SPECTRUM} over the largest", _line_name(runs), True, True)
    panels = []
    for place, variant in _places_and_variants(own):
        if variant and len(runs) == 1:
            continue
        here = selected_rows(of_place(own, place), lambda row, only=variant: row.variant == only)
        points: list[CurvePoint] = []
        for line, rows in _lines_of_layers(here, len(runs) > 1):
            points += _spectrum_points(line, rows)
        title = panel_title(place.label(main_stack_name(runs)), variant)
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
    own = selected_rows(runs, lambda row: _is_of_curve(row, quantity, x_name))
    name = axis_name(probe_of(own), quantity)
    is_log_x, is_log_y = x_name in LOG_X, quantity in LOG_Y
    axes = CurveAxes(x_name, name, _line_name(runs, "variant"), is_log_x, is_log_y)
    panels = []
    for place in distinct_places(own):
        here = of_place(own, place)
        label = place.label(main_stack_name(runs))
        if len(runs) > 1:
            panels += _panels_by_variant(runs, here, label, axes)
        elif _has_layers(here):
            panels += _panels_by_layer(here, label, axes)
        else:
            points = [_x_point(row) for rows in here.values() for row in rows]
            panels.append(curve_panel(points, _variant_order(runs, points), label, axes))
    key = slug(f"{probe_of(own)} {quantity} by {x_name}")
    return probe_figure(key, f"{capitalise(quantity)} by {x_name}", caption, panels)


def _is_of_curve(row: ProbeRow, quantity: str, x_name: str) -> bool:
    return without_control(row.quantity) == quantity and row.x_name == x_name


def _panels_by_variant(
    runs: RunRows, here: RunRows, label: str, axes: CurveAxes
) -> Iterator[Panel]:
    """One panel per variant, with a line for each run. What is equal in all runs, as a known
    learner is, stands in the first panel instead.
    """
    points: dict[str, list[CurvePoint]] = {}
    for run, rows in here.items():
        for row in mean_over_layers(rows):
            variant, control = split_control_name(row)
            assert row.x is not None
            point = CurvePoint(run, row.x, row.value, control=control)
            points.setdefault(variant, []).append(point)
    common = _common_lines(points)
    own = {variant: found for variant, found in points.items() if variant not in common}
    order = [*runs, *common]
    for variant, found in own.items():
        name = variant if len(own) > 1 else ""
        beside = [point for line in common.values() for point in line]
        if variant != AS_IT_IS:
            beside = []
        yield curve_panel([*found, *beside], order, panel_title(label, name), axes)


def _common_lines(points: Mapping[str, Sequence[CurvePoint]]) -> dict[str, list[CurvePoint]]:
    """Variants that have the same values in two runs or more, as one line each, beside the model
    as it is.
    """
    common: dict[str, list[CurvePoint]] = {}
    for variant, found in points.items():
        by_run: dict[str, list[tuple[float, float]]] = {}
        for point in found:
            by_run.setdefault(point.line, []).append((point.x, point.y))
        first, *others = by_run.values()
        is_equal = bool(others) and all(one == first for one in others)
        if is_equal and variant != AS_IT_IS and AS_IT_IS in points:
            common[variant] = [CurvePoint(variant, x, y) for x, y in first]
    return common


def _panels_by_layer(here: RunRows, label: str, axes: CurveAxes) -> Iterator[Panel]:
    """One panel per variant of a run whose rows differ by layer, with a line for each layer."""
    ((_, rows),) = here.items()
    by_layer = replace(axes, line_name="layer")
    variants = list(dict.fromkeys(split_control_name(row)[0] for row in rows))
    for variant in variants:
        own = [row for row in rows if split_control_name(row)[0] == variant]
        points = []
        for line, line_rows in _lines_of_layers({"": own}, False):
            for row in line_rows:
                assert row.x is not None
                control = split_control_name(row)[1]
                points.append(CurvePoint(line, row.x, row.value, control=control))
        name = variant if len(variants) > 1 else ""
        yield curve_panel(points, lines_in(points), panel_title(label, name), by_layer)


def layer_curves(runs: RunRows, quantity: str, caption: str) -> ProbeFigure | None:
    """A quantity of each layer, mean over heads with a band from the lowest to the highest: a line
    for each variant of a run, or a panel for each variant and a line for each of several runs.
    """
    own = selected_rows(runs, lambda row: without_control(row.quantity) == quantity)
    name = axis_name(probe_of(own), quantity)
    axes = CurveAxes("layer", name, _line_name(runs, "variant"), is_log_y=quantity in LOG_Y)
    panels = []
    for place in distinct_places(own):
        points: dict[str, list[CurvePoint]] = {}
        for run, rows in of_place(own, place).items():
            for point, variant in _layer_points(run, rows, len(runs) > 1):
                panel = variant if len(runs) > 1 else ""
                points.setdefault(panel, []).append(point)
        for variant, panel_points in points.items():
            variant_name = variant if len(points) > 1 else ""
            title = panel_title(place.label(main_stack_name(runs)), variant_name)
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
    """A variant without the controls that it names, and the controls: untrained, without skips →
    without skips, untrained.
    """
    parts = list(filter(None, row.variant.split(", ")))
    controls = [part for part in parts if part in CONTROL_VARIANTS]
    own = [part for part in parts if part not in CONTROL_VARIANTS]
    quantity = without_control(row.quantity)
    if quantity != row.quantity:
        controls.append(row.quantity.removeprefix(f"{quantity}, "))
    return ", ".join(own) or AS_IT_IS, ", ".join(controls)


def without_control(quantity: str) -> str:
    """A quantity without the control that it ends with: saturation, by chance → saturation."""
    for ending in CONTROL_ENDINGS:
        quantity = quantity.removesuffix(f", {ending}")
    return quantity


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


def _variant_order(runs: RunRows, points: Sequence[CurvePoint]) -> list[str]:
    """All variants of the one run, so that each has one colour in all figures of a probe; a lone
    line needs no legend.
    """
    lines = lines_in(points)
    if len(lines) == 1:
        return lines
    variants: dict[str, None] = {}
    for rows in runs.values():
        variants |= dict.fromkeys(split_control_name(row)[0] for row in rows)
    return list(variants)


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
