"""What others wrote, on a terminal: shown, never obeyed.

Text from data, names and messages may hold what a terminal obeys: colours, a moved cursor, a
changed title, letters in another order. A `SafeConsole` writes it out, and so does every stream
inside `escaped_streams`. What a page itself sends to the terminal, such as colour, is not part of
any text and passes.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO

from rich.console import (
    Console,
    ConsoleOptions,
    HighlighterType,
    JustifyMethod,
    OverflowMethod,
    RenderableType,
)
from rich.segment import Segment
from rich.style import Style
from rich.text import Text


def escape_unprintable(text: str) -> str:
    """The text with what a terminal would obey, or not show, written out: `\\x1b` for an escape."""
    if text.isprintable():
        return text
    return "".join(letter if _is_printable(letter) else _escape_sequence(letter) for letter in text)


def on_one_line(text: str) -> str:
    """The text without line breaks, which could pass for lines of what is printed around it."""
    return " ".join(text.split())


def _is_printable(letter: str) -> bool:
    return letter.isprintable() or letter in "\n\t" or unicodedata.category(letter) == "Zs"


def _escape_sequence(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode()


class SafeConsole(Console):
    """A console on which nothing that it is given to print is obeyed, neither by a terminal nor
    as markup.
    """

    def __init__(
        self,
        file: IO[str] | None = None,
        stderr: bool = False,
        width: int | None = None,
        soft_wrap: bool = False,
        no_color: bool | None = None,
    ):
        if file is not None:
            stream = file
        else:
            stream = _underlying_stream(sys.stderr if stderr else sys.stdout)
        super().__init__(
            file=stream,
            stderr=stderr,
            width=width,
            soft_wrap=soft_wrap,
            no_color=no_color,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(escape_unprintable(segment.text), segment.style)

    def render_str(
        self,
        text: str,
        *,
        style: str | Style = "",
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        emoji: bool | None = None,
        markup: bool | None = None,
        highlight: bool | None = None,
        highlighter: HighlighterType | None = None,
    ) -> Text:
        # Before it is measured and cut, so that what is written out has its room.
        return super().render_str(
            escape_unprintable(text),
            style=style,
            justify=justify,
            overflow=overflow,
            emoji=emoji,
            markup=markup,
            highlight=highlight,
            highlighter=highlighter,
        )


class EscapingStream:
    """A stream that writes out what a terminal would obey."""

    def __init__(self, stream: TextIO):
        self.stream, self.encoding, self.errors = stream, stream.encoding, stream.errors

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write was given {type(text).__name__}; give text")
        return self.stream.write(escape_unprintable(text))

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

    def close(self) -> None:
        """Nothing: the stream is not ours. Libraries that log may close what they logged to."""


@contextmanager
def escaped_streams() -> Iterator[None]:
    """Whoever prints, whatever it is: only a `SafeConsole` may send a terminal what it obeys."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_wrap_stream, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _wrap_stream(stream: TextIO | None) -> Any:
    """None where the caller has closed it, as in `paribus show 2>&-`."""
    if stream is None:
        return None
    return EscapingStream(stream)


def _underlying_stream(stream: Any) -> IO[str] | None:
    """The stream that a page writes to; None leaves the choice to the library, as a notebook
    needs.
    """
    if isinstance(stream, EscapingStream):
        return stream.stream
    return None
