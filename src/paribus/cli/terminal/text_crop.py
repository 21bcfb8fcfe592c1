"""Text from data or a model, made short for a terminal."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from paribus.escapes import escape_unprintable

N_LINES = 12  # of one text


def crop_lines(text: str, width: int, is_complete: bool, n_lines: int = N_LINES) -> list[str]:
    """The first lines of a text, cut at the width; the last ends in `…` where something is left
    out.
    """
    if not is_complete:
        text = text.rstrip("\ufffd")  # half a letter, where it was cut
    lines = escape_unprintable(text.rstrip("\n")).expandtabs(4).split("\n")
    first_lines = lines[:n_lines]
    for place, line in enumerate(first_lines):
        if cell_len(line) > width:
            first_lines[place] = _crop_line(line, width)
    if (len(lines) > n_lines or not is_complete) and not first_lines[-1].endswith("…"):
        first_lines[-1] = _crop_line(first_lines[-1] + " ", width)
    return first_lines


def _crop_line(line: str, width: int) -> str:
    return set_cell_size(line, min(cell_len(line), width) - 1) + "…"
