"""What others wrote, on a terminal: shown, never obeyed.

Text from data, names and messages may hold what a terminal obeys: colours, a moved cursor, a changed title, letters in
another order. A `Page` writes it out, and so does every stream inside `visible_streams`. What a page itself sends to
the terminal, such as colour, is not part of any text and passes.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO

from rich.console import Console, ConsoleOptions, HighlighterType, JustifyMethod, OverflowMethod, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text


def visible(text: str) -> str:
    """The text with what a terminal would obey, or not show, written out: `\\x1b` for an escape."""
    if text.isprintable():
        return text
    return "".join(letter if _is_plain(letter) else _written(letter) for letter in text)


def _is_plain(letter: str) -> bool:
    return letter.isprintable() or letter in "\n\t" or unicodedata.category(letter) == "Zs"


def _written(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode()


class Page(Console):
    """A console on which nothing that it is given to print is obeyed, neither by a terminal nor as markup."""

    def __init__(
        self, file: IO[str] | None = None, stderr: bool = False, width: int | None = None,
        soft_wrap: bool = False, no_color: bool | None = None,
    ):  # fmt: skip
        stream = file if file is not None else _beneath(sys.stderr if stderr else sys.stdout)
        super().__init__(
            file=stream, stderr=stderr, width=width, soft_wrap=soft_wrap, no_color=no_color, highlight=False,
            markup=False, emoji=False,
        )  # fmt: skip

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)

    def render_str(
        self, text: str, *, style: str | Style = "", justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None, emoji: bool | None = None, markup: bool | None = None,
        highlight: bool | None = None, highlighter: HighlighterType | None = None,
    ) -> Text:  # fmt: skip
        # Before it is measured and cut, so that what is written out has its room.
        return super().render_str(
            visible(text), style=style, justify=justify, overflow=overflow, emoji=emoji, markup=markup,
            highlight=highlight, highlighter=highlighter,
        )  # fmt: skip


class VisibleStream:
    """A stream that writes out what a terminal would obey."""

    def __init__(self, stream: TextIO):
        self.stream, self.encoding, self.errors = stream, stream.encoding, stream.errors

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write was given {type(text).__name__}; give text")
        return self.stream.write(visible(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()

    def writable(self) -> bool:
        return True


@contextmanager
def visible_streams() -> Iterator[None]:
    """Whoever prints, whatever it is: only a `Page` may send a terminal what it obeys."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_over, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _over(stream: TextIO | None) -> Any:
    """None where the caller has closed it, as in `paribus show 2>&-`."""
    return None if stream is None else VisibleStream(stream)


def _beneath(stream: Any) -> IO[str] | None:
    """The stream that a page writes to; None leaves the choice to the library, as a notebook needs."""
    return stream.stream if isinstance(stream, VisibleStream) else None
