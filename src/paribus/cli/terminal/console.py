"""The page that answers are written on."""

import codecs
import io
import json
import re
import sys
from collections.abc import Iterable
from typing import IO, Any, TextIO, cast

from rich.console import Console, JustifyMethod
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from paribus.cli.terminal.torchrun_summary import is_first_of_machine, write_to_summary
from paribus.errors import first_problems
from paribus.escapes import SafeConsole, escape_unprintable

_PIPE_WIDTH = 1000  # what reads a pipe can cut lines itself, but cannot bring back what was cut
_UNLIMITED_WIDTH = 100_000  # wider than any table
_ASCII_SUBSTITUTES = str.maketrans(
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
    page = SafeConsole()
    if page.is_terminal or page.is_jupyter:
        return page
    return SafeConsole(
        no_color=True, width=_PIPE_WIDTH, file=cast(IO[str], _TrimmingStream(page.file))
    )


class _TrimmingStream:
    """A stream without the spaces that tables leave at the ends of lines."""

    def __init__(self, stream: IO[str]):
        self.stream, self.encoding = stream, cast(TextIO, stream).encoding

    def write(self, text: str) -> int:
        return self.stream.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return False


def table_width(table: Table, page: Console) -> Measurement:
    """The least and the natural width of a table, however wide the page is."""
    return Measurement.get(page, page.options.update_width(_UNLIMITED_WIDTH), table)


def justify_method(is_number: bool) -> JustifyMethod:
    """How a column is set: numbers to the right, words to the left."""
    if is_number:
        return "right"
    return "left"


def print_errors(problems: Iterable[str]) -> None:
    """The first problems on a line each, on stderr. Under torchrun its summary shows them last,
    and one process of a machine prints them, too.
    """
    texts = first_problems(problems)
    is_in_summary = write_to_summary("\n".join(f"error: {text}" for text in texts))
    if is_in_summary and not is_first_of_machine():
        return
    page = SafeConsole(stderr=True, soft_wrap=True)
    for text in texts:
        page.print(Text.assemble(("error: ", "bold red"), escape_unprintable(text)))


def print_notes(*notes: str) -> None:
    """Each thing a person should know beside the answer, on a line of its own, on stderr."""
    page = SafeConsole(stderr=True, soft_wrap=True)
    for one in notes:
        page.print(f"note: {one}", style="dim")


def print_page(text: str) -> None:
    """A page of ours as it is, to be written to a file."""
    print(text, end="")


def print_json(value: Any) -> None:
    """For another program: exact numbers, whole ones as integers."""
    print(json.dumps(_with_whole_integers(value), indent=2).replace("\x7f", "\\u007f"))


def replace_unencodable() -> None:
    """Let streams that are not UTF-8 write `x` for `×` and the like, where they would fail."""
    codecs.register_error("paribus", _encode_error_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="paribus")


def _encode_error_handler(fault: UnicodeError) -> tuple[str, int]:
    assert isinstance(fault, UnicodeEncodeError)
    text = fault.object[fault.start : fault.end].translate(_ASCII_SUBSTITUTES)
    return text.encode("ascii", "replace").decode(), fault.end


def _with_whole_integers(value: Any) -> Any:
    match value:
        case dict():
            return {key: _with_whole_integers(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_with_whole_integers(inner) for inner in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
