"""The plots of a study as files, for papers and slides."""

from __future__ import annotations

from collections.abc import Mapping

import vl_convert

from paribus.report.charts import Plot, printable_spec

SCALE = 2.0  # pixels of a PNG for each of the plot
PADDING = {
    "left": 24,
    "right": 24,
    "top": 6,
    "bottom": 6,
}  # a reader's font may be wider than the one measured with


def plot_files(plots: Mapping[str, Plot], kind: str) -> dict[str, bytes]:
    """File name → content, a file a plot."""
    return {f"{key}.{kind}": _render_plot(plot, kind) for key, plot in plots.items()}


def _render_plot(plot: Plot, kind: str) -> bytes:
    spec = {**printable_spec(plot.spec, plot.width), "padding": PADDING}
    if kind == "svg":
        return vl_convert.vegalite_to_svg(spec).encode()
    return vl_convert.vegalite_to_png(spec, scale=SCALE)
