"""Rows of words set under one another, broken into as many lines as the page is wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text


class InterlinearRow(NamedTuple):
    """A label, a word for each column, and their style."""

    label: str
    words: Sequence[str]
    style: str = ""


def interlinear_lines(rows: Sequence[InterlinearRow], width: int) -> Iterator[Text]:
    """Lines of at most `width`: all rows of the columns that fit, then of the next columns; empty
    rows are left out.
    """
    edge = max(cell_len(row.label) for row in rows) + 2
    columns = zip(*(row.words for row in rows), strict=True)
    widths = [max(map(cell_len, column)) + 1 for column in columns]
    for first, last in _column_blocks(widths, width - edge):
        if first and len(rows) > 1:
            yield Text()
        for label, words, style in rows:
            line = "".join(map(_pad_right, words[first:last], widths[first:last])).rstrip()
            if line:
                yield Text.assemble((_pad_right(label, edge), "dim"), (line, style))


def _column_blocks(widths: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Which columns share a block of lines; at least one does."""
    first, width = 0, 0
    for place, size in enumerate(widths):
        if width + size > room + 1 and place > first:  # the space after the last word may hang over
            yield first, place
            first, width = place, 0
        width += size
    yield first, len(widths)


def _pad_right(word: str, size: int) -> str:
    return word + " " * (size - cell_len(word))
