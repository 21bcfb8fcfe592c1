"""The page that answers are written on."""

import codecs
import io
import json
import re
import sys
from collections.abc import Iterable
from typing import IO, Any, TextIO, cast

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 1000  # what reads a pipe can cut lines itself, but cannot bring back what was cut
_ENDLESS = 100_000  # wider than any table
_PLAIN = str.maketrans(
    {
        "×": "x",
        "–": "-",
        "—": "-",
        "…": ".",
        "·": ".",
        "√": "V",
        "→": ">",
        "✓": "+",
        "✗": "x",
        "’": "'",
        "‹": "<",
        "›": ">",
        "─": "-",
    }
)


def console() -> Console:
    """Fitted to a terminal or notebook; without colour and wide enough for anything when piped."""
    page = Console(highlight=False, markup=False, emoji=False)
    if page.is_terminal or page.is_jupyter:
        return page
    pipe = cast(IO[str], _Trimmed(sys.stdout))
    return Console(highlight=False, markup=False, emoji=False, no_color=True, width=_PIPE_WIDTH, file=pipe)


class _Trimmed:
    """A stream without the spaces that tables leave at the ends of lines."""

    def __init__(self, stream: TextIO):
        self.stream, self.encoding = stream, stream.encoding

    def write(self, text: str) -> int:
        return self.stream.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return False


def room(table: Table, page: Console) -> Measurement:
    """The least and the natural width of a table, however wide the page is."""
    return Measurement.get(page, page.options.update_width(_ENDLESS), table)


def complain(problems: Iterable[str]) -> None:
    """Every problem on a line of its own, on stderr."""
    page = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for problem in problems:
        page.print(Text.assemble(("error: ", "bold red"), problem))


def note(*said: str) -> None:
    """Each thing a person should know beside the answer, on a line of its own, on stderr."""
    page = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for one in said:
        page.print(f"note: {one}", style="dim")


def print_json(value: Any) -> None:
    """For another program: exact numbers, whole ones as integers."""
    print(json.dumps(_whole(value), indent=2))


def write_plainly() -> None:
    """Let streams that are not UTF-8 write `x` for `×` and the like, where they would fail."""
    codecs.register_error("paribus", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="paribus")


def _plain(fault: UnicodeError) -> tuple[str, int]:
    assert isinstance(fault, UnicodeEncodeError)
    given = fault.object[fault.start : fault.end].translate(_PLAIN)
    return given.encode("ascii", "replace").decode(), fault.end


def _whole(value: Any) -> Any:
    match value:
        case dict():
            return {key: _whole(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_whole(inner) for inner in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
