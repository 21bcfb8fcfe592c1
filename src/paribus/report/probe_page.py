"""One self-contained page of what probes found, and the same figures for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from paribus.record.attention_maps import AttentionMap
from paribus.record.probe_rows import ProbeRow
from paribus.report.images import plot_files
from paribus.report.page_frame import render_template
from paribus.report.probe_charts import figure_plots, probe_figures
from paribus.report.probe_panels import ProbeFigure

NOTE = (
    "Every value is a mean over held-out texts, described without an interval. What differs between"
    " two runs here may be the luck of a seed: a design that names a probe gives paired intervals"
    " over seeds. Touch or hover over a figure for its numbers."
)


def render_probe_page(
    runs: Mapping[str, Sequence[ProbeRow]], maps: Sequence[AttentionMap] = ()
) -> str:
    """The page as text."""
    figures = probe_figures(runs, maps)
    probes = dict.fromkeys(row.probe for rows in runs.values() for row in rows)
    return render_template(
        "probe_page.html.jinja",
        figure_plots(figures),
        figures=figures,
        runs=list(runs),
        probes=list(probes),
        note=NOTE,
    )


def notebook_figures(
    runs: Mapping[str, Sequence[ProbeRow]], maps: Sequence[AttentionMap] = ()
) -> str:
    """The figures as HTML without scripts, for the last line of a cell."""
    return "".join(map(_notebook_figure, probe_figures(runs, maps)))


def _notebook_figure(figure: ProbeFigure) -> str:
    pictures = []
    for content in plot_files(figure_plots([figure]), "svg").values():
        pictures.append(f"<div>{content.decode()}</div>")
    return (
        f"<h3>{escape(figure.title)}</h3><div"
        f' style="display:flex;flex-wrap:wrap;gap:1em">{"".join(pictures)}</div>'
        f"<p>{escape(figure.caption)}</p>"
    )
