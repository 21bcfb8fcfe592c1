"""The table of what probes found."""

from __future__ import annotations

import io

from rich.console import Console

from paribus.cli.terminal.probe_table import probe_table
from paribus.record.probe_rows import ProbeRow


def table_lines(*rows: ProbeRow) -> list[list[str]]:
    """The cells of each line; no cell of these rows has two spaces in it."""
    page = Console(file=io.StringIO(), width=200)
    page.print(probe_table({"first": rows}))
    assert isinstance(page.file, io.StringIO)
    lines = page.file.getvalue().splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_a_value_of_the_whole_model_has_no_place_and_no_range() -> None:
    row = ProbeRow(probe="context", quantity="gain of order", value=-0.25, n=4)
    dash = "–"
    cells = ["first", "context", dash, dash, "gain of order", "−0.25", dash, dash, dash, dash, dash]
    assert table_lines(row)[1] == cells


def test_values_of_layers_have_a_range_and_ends() -> None:
    rows = []
    for layer, value in enumerate((3.0, -1.0, 1.0)):
        own = ProbeRow(
            probe="gradients", quantity="norm", value=value, n=1, stack="stack", layer=layer
        )
        rows.append(own)
    found = table_lines(*rows)[1]
    assert found == ["first", "gradients", "stack", "–", "norm", "1", "−1", "3", "layer", "3", "1"]


def test_curves_over_different_axes_are_different_lines() -> None:
    rows = []
    for x_name, values in (("tokens of context", (4.0, 3.0)), ("position", (6.0, 5.0))):
        for x, value in enumerate(values):
            own = ProbeRow(probe="context", quantity="loss", value=value, n=1, x=x, x_name=x_name)
            rows.append(own)
    first, second = table_lines(*rows)[1:]
    assert first[5:] == ["3.5", "3", "4", "tokens of context", "4", "3"]
    assert second[5:] == ["5.5", "5", "6", "position", "6", "5"]
