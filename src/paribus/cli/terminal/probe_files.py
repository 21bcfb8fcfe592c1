"""What probes found as files: rows, figures, attention maps and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from paribus.analyse.run_table import RowTable
from paribus.record.attention_maps import AttentionMap, write_attention_maps
from paribus.record.disk import replace
from paribus.record.file_names import ATTENTION_MAPS_FILE, PROBES_CSV_FILE, PROBES_PAGE_FILE
from paribus.record.probe_rows import ProbeRow
from paribus.report.csv_tables import to_csv
from paribus.report.formats import missing_package, parse_formats, require_formats

PROBE_FORMATS = ("html", "csv", "svg", "png")


class ProbeFindings(list[ProbeRow]):
    """The rows that probes found in a run, and maps of some of its heads; a notebook shows the
    figures.
    """

    def __init__(
        self, run: str, rows: Sequence[ProbeRow], attention_maps: Sequence[AttentionMap]
    ) -> None:
        super().__init__(rows)
        self.run = run
        self.attention_maps = tuple(attention_maps)

    def _repr_html_(self) -> str:
        """The figures; a table of the rows where the packages that draw are not there."""
        title = f"<h2>Inside of {escape(self.run)}</h2>"
        if missing_package("svg") is None:
            from paribus.report.probe_page import notebook_figures

            return title + notebook_figures({self.run: self}, self.attention_maps)
        return title + RowTable(tuple(map(asdict, self)))._repr_html_()


def probe_formats(format_list: str) -> tuple[str, ...]:
    """The formats asked for; SpecError where one is not of figures, UnsupportedError where a
    package is missing.
    """
    formats = parse_formats(format_list, PROBE_FORMATS)
    require_formats(formats)
    return formats


def row_tables(findings: Mapping[str, Sequence[ProbeRow]]) -> list[dict[str, Any]]:
    """Every row with the name of its run."""
    return [{"run": run, **asdict(row)} for run, rows in findings.items() for row in rows]


def write_findings(
    findings: Mapping[str, ProbeFindings], folder: Path, formats: Sequence[str]
) -> list[Path]:
    """The files of some formats in a folder, the rows first."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {PROBES_CSV_FILE: to_csv(row_tables(findings)).encode()}
    maps = [one for own in findings.values() for one in own.attention_maps]
    for kind in formats:
        files |= _contents(kind, findings, maps)
    for name, content in files.items():
        replace(folder / name, content)
    paths = [folder / name for name in files]
    if maps:
        write_attention_maps(folder / ATTENTION_MAPS_FILE, maps)
        paths.append(folder / ATTENTION_MAPS_FILE)
    return paths


def _contents(
    kind: str, findings: Mapping[str, ProbeFindings], maps: Sequence[AttentionMap]
) -> dict[str, bytes]:
    """File name → content. What draws is imported only if needed."""
    if kind == "csv":
        return {}
    if kind == "html":
        from paribus.report.probe_page import render_probe_page

        return {PROBES_PAGE_FILE: render_probe_page(findings, maps).encode()}
    from paribus.report.images import plot_files
    from paribus.report.probe_charts import figure_plots, probe_figures

    return plot_files(figure_plots(probe_figures(findings, maps)), kind)
