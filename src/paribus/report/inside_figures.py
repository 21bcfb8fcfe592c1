"""Figures of the probes of a study: probes of one kind are told apart by their settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paribus.analyse.study_probes import StudyProbe
from paribus.report.charts import Plot
from paribus.report.probe_charts import probe_figures
from paribus.report.probe_panels import ProbeFigure
from paribus.report.probe_settings import describe_settings


def study_figures(probes: Sequence[StudyProbe]) -> list[ProbeFigure]:
    """The figures of each probe, one after another."""
    all_settings = [probe.settings for probe in probes]
    n_drawn: dict[str, int] = {}  # of each kind
    figures: list[ProbeFigure] = []
    for probe in probes:
        kind = probe.settings["kind"]
        n_drawn[kind] = n_drawn.get(kind, 0) + 1
        words = describe_settings(probe.settings, all_settings)
        for figure in probe_figures(probe.rows):
            figures.append(_with_settings(figure, words, n_drawn[kind]))
    return figures


def _with_settings(figure: ProbeFigure, words: str, number: int) -> ProbeFigure:
    """A figure that names the settings of its probe; of the first of a kind, keys stay."""
    if not words:
        return figure
    ending = "" if number == 1 else f"-probe-{number}"
    panels = []
    for panel in figure.panels:
        panels.append(_with_title(panel, f"{panel.key}{ending}", words))
    return replace(
        figure,
        key=f"{figure.key}{ending}",
        title=f"{figure.title}, {words}",
        panels=tuple(panels),
    )


def _with_title(panel: Plot, key: str, words: str) -> Plot:
    description = f"{panel.spec['description']} Settings: {words}."
    return replace(
        panel,
        key=key,
        title=f"{panel.title}, {words}",
        spec={**panel.spec, "description": description},
    )
