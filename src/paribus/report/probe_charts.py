"""Which figures rows of probes give, and what each caption says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from paribus.analyse.probe_means import finite_rows
from paribus.record.attention_maps import AttentionMap
from paribus.record.probe_rows import ProbeRow
from paribus.report.attention_charts import attention_figure
from paribus.report.charts import Plot, parts_unvalidated
from paribus.report.corruption_chart import corruption_losses
from paribus.report.heat_maps import domain_maps, head_maps, load_bars
from paribus.report.probe_captions import (
    CAPTIONS,
    CORRUPTION_CAPTION,
    DOMAIN_CAPTION,
    LOAD_CAPTION,
    SPECTRA_CAPTION,
    known_caption,
    quantity_caption,
)
from paribus.report.probe_curves import (
    SPECTRUM,
    SPECTRUM_X,
    layer_curves,
    spectra,
    without_control,
    x_curves,
)
from paribus.report.probe_panels import ProbeFigure, RunRows

EXPERT = "expert"
LOAD, DOMAIN_SHARE = "load", "share of tokens"
# of what heads have: what is drawn by layer beside a map, and what is drawn by layer alone
BY_LAYER_TOO = ("effective rank over the most there can be", "attention distance")
BY_LAYER_ALONE = (
    "attention entropy",
    "weight on the first token",
    "weight on itself",
    "weight on the most attended token",
)


@dataclass(frozen=True)
class QuantityShape:
    """What rows of a quantity depend on, which decides how it is drawn."""

    probe: str
    quantity: str
    x_name: str
    has_layers: bool
    has_heads: bool


@parts_unvalidated()
def probe_figures(
    runs: Mapping[str, Sequence[ProbeRow]], maps: Sequence[AttentionMap] = ()
) -> list[ProbeFigure]:
    """The figures of what was found in runs, or in arms, by name.

    Of one run lines are layers or variants; of several they are runs. Quantities of a known probe
    are drawn where they have a caption, those of another probe all.
    """
    own = {run: finite_rows(rows) for run, rows in runs.items()}
    figures = [attention_figure(maps)]
    for shape in _shapes(own):
        figures += _shape_figures(own, shape)
    figures.append(corruption_losses(own, CORRUPTION_CAPTION))
    drawn: dict[str, ProbeFigure] = {}
    for figure in figures:
        if figure is not None:
            drawn.setdefault(figure.key, figure)
    return list(drawn.values())


def figure_plots(figures: Sequence[ProbeFigure]) -> dict[str, Plot]:
    """Every panel of some figures, by its key."""
    return {plot.key: plot for figure in figures for plot in figure.panels}


def _shapes(runs: RunRows) -> list[QuantityShape]:
    """The shapes that are drawn: probes in the order of first appearance, their quantities in
    that of captions.
    """
    found: dict[QuantityShape, None] = {}
    for rows in runs.values():
        for row in rows:
            shape = QuantityShape(
                probe=row.probe,
                quantity=_drawn_quantity(row),
                x_name=row.x_name,
                has_layers=row.layer is not None,
                has_heads=row.head is not None,
            )
            found[shape] = None
    probes = list(dict.fromkeys(shape.probe for shape in found))
    drawn = list(filter(_is_drawn, found))
    return sorted(drawn, key=lambda shape: (probes.index(shape.probe), _caption_place(shape)))


def _caption_place(shape: QuantityShape) -> int:
    """Where the captions of a probe list a quantity; those that have none come last."""
    caption = known_caption(shape.probe, shape.quantity, shape.x_name)
    captions = list(CAPTIONS.get(shape.probe, {}).values())
    return captions.index(caption) if caption in captions else len(captions)


def _drawn_quantity(row: ProbeRow) -> str:
    """The quantity whose figure a row is in."""
    if row.x_name == SPECTRUM_X:
        return SPECTRUM
    return without_control(row.quantity)


def _has_shape(row: ProbeRow, shape: QuantityShape) -> bool:
    return row.probe == shape.probe and row.x_name == shape.x_name


def _is_drawn(shape: QuantityShape) -> bool:
    if shape.x_name in (SPECTRUM_X, EXPERT):
        return True
    has_extent = shape.has_layers or shape.x_name != ""
    is_known = shape.probe in CAPTIONS
    has_caption = known_caption(shape.probe, shape.quantity, shape.x_name) is not None
    return has_extent and (has_caption or not is_known)


def _shape_figures(runs: RunRows, shape: QuantityShape) -> Iterator[ProbeFigure | None]:
    quantity, x_name = shape.quantity, shape.x_name
    # runs without such rows stay, for it is told by their number whether panels name a run
    own = {run: [row for row in rows if _has_shape(row, shape)] for run, rows in runs.items()}
    caption = quantity_caption(shape.probe, quantity, x_name)
    layer_caption = quantity_caption(shape.probe, quantity, "layer")
    if x_name == SPECTRUM_X:
        yield spectra(own, SPECTRA_CAPTION)
    elif x_name == EXPERT and quantity == LOAD:
        yield load_bars(own, quantity, LOAD_CAPTION)
    elif x_name == EXPERT and quantity == DOMAIN_SHARE:
        yield domain_maps(own, quantity, DOMAIN_CAPTION)
    elif x_name == EXPERT:
        return  # what experts are beside, and tokens that they prefer, are tables
    elif x_name:
        yield x_curves(own, quantity, x_name, caption)
    elif shape.has_heads and quantity not in BY_LAYER_ALONE:
        yield head_maps(own, quantity, caption)
        if quantity in BY_LAYER_TOO:
            yield layer_curves(own, quantity, layer_caption)
    else:
        yield layer_curves(own, quantity, layer_caption)
