"""Architectures side by side: a row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from paribus.cli.terminal.arguments import Asked
from paribus.cli.terminal.console import room
from paribus.cli.terminal.picture import icons
from paribus.cli.terminal.spelling import whether
from paribus.report.numbers import count, percent, size
from paribus.spec import Price


@dataclass(frozen=True)
class Entry:
    """An architecture and its price."""

    asked: Asked
    price: Price

    @property
    def prefix_share(self) -> float:
        return self.price.prefix / self.price.length


@dataclass(frozen=True)
class Column:
    """A heading, what stands under it, and how early it goes when the page is narrow (0: never)."""

    heading: str
    cell: Callable[[Entry], str]
    leaves: int = 0
    number: bool = True


def _layers(entry: Entry) -> str:
    encoder = entry.asked.spec.encoder
    above = f"{len(encoder.layers)}+" if encoder else ""
    return f"{above}{len(entry.asked.spec.stack.layers)}"


def _second(entry: Entry) -> str:
    encoder = entry.asked.architecture.encoder
    return f"{encoder.mask}{', shared blocks' if encoder.shared else ''}" if encoder else "—"


def _icons(entry: Entry) -> str:
    return icons(entry.asked.spec.stack, entry.prefix_share)


COLUMNS = (
    Column("architecture", lambda entry: entry.asked.name, number=False),
    Column("sight", _icons, leaves=4, number=False),
    Column("mask", lambda entry: str(entry.asked.architecture.mask), number=False),
    Column("second\nsequence", _second, number=False),
    Column("layers", _layers, leaves=3),
    Column("width", lambda entry: str(entry.asked.spec.d_model), leaves=1),
    Column("parameters", lambda entry: count(entry.price.parameters)),
    Column("active", lambda entry: count(entry.price.active_parameters), leaves=2),
    Column("visible\nshare", lambda entry: percent(entry.price.visible_share)),
    Column("KV cache\na token", lambda entry: size(entry.price.kv_bytes_per_token), leaves=6),
    Column("cache\nkept", lambda entry: whether(entry.price.appendable), leaves=5),
)
NOTES = (
    "Visible share: query-key pairs the mask lets through, over layers and heads. "
    "Cache kept: when text is appended, every cached key and value stays valid."
)


def overview(entries: Sequence[Entry], page: Console) -> tuple[Table, tuple[str, ...]]:
    """The table, and the headings there was no room for: first masks are broken into lines, then columns leave."""
    tries = [(columns, _table(entries, columns, folded)) for columns, folded in _narrower(page.options.ascii_only)]
    columns, table = next((one for one in tries if room(one[1], page).maximum <= page.width), tries[-1])
    return table, tuple(column.heading.replace("\n", " ") for column in tries[0][0] if column not in columns)


def _narrower(ascii_only: bool) -> Iterator[tuple[list[Column], bool]]:
    """Which columns to try, and whether to break masks into lines, from the widest table to the narrowest."""
    kept = [column for column in COLUMNS if column.cell is not _icons or not ascii_only]
    yield kept, False
    for leaving in sorted((column for column in kept if column.leaves), key=lambda column: column.leaves):
        yield kept, True
        kept = [column for column in kept if column is not leaving]
    yield kept, True


def _table(entries: Sequence[Entry], columns: Sequence[Column], folded: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        style = "cyan" if column.cell is _icons else ""
        table.add_column(column.heading, justify="right" if column.number else "left", no_wrap=True, style=style)
    for entry in entries:
        cells = (column.cell(entry) for column in columns)
        table.add_row(*(cell.replace(", ", ",\n") if folded else cell for cell in cells))
    return table
