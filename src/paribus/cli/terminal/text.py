"""Text from data or a model, made short for a terminal."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from paribus.escapes import visible

N_LINES = 12  # of one text


def cropped(text: str, width: int, whole: bool, n_lines: int = N_LINES) -> list[str]:
    """The first lines of a text, cut at the width; the last ends in `…` where something is left out."""
    given = text if whole else text.rstrip("\ufffd")  # half a letter, where it was cut
    lines = visible(given.rstrip("\n")).expandtabs(4).split("\n")
    kept = [line if cell_len(line) <= width else _cut(line, width) for line in lines[:n_lines]]
    if (len(lines) > n_lines or not whole) and not kept[-1].endswith("…"):
        kept[-1] = _cut(kept[-1] + " ", width)
    return kept


def _cut(line: str, width: int) -> str:
    return set_cell_size(line, min(cell_len(line), width) - 1) + "…"
