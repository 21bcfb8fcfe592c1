"""Architectures side by side: a row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, JustifyMethod
from rich.table import Table

from paribus.cli.terminal.arguments import NamedArchitecture
from paribus.cli.terminal.console import justify_method, table_width
from paribus.cli.terminal.field_format import format_bool
from paribus.cli.terminal.mask_drawing import draw_icons
from paribus.report.numbers import format_count, format_percent, format_size
from paribus.spec import Price


@dataclass(frozen=True)
class PricedArchitecture:
    """An architecture and its price."""

    arch: NamedArchitecture
    price: Price

    @property
    def prefix_share(self) -> float:
        return self.price.prefix / self.price.length


@dataclass(frozen=True)
class ArchitectureColumn:
    """A heading, its cells, and how early it is dropped on a narrow page (0: never)."""

    heading: str
    cell: Callable[[PricedArchitecture], str]
    drop_order: int = 0
    is_number: bool = True

    @property
    def name(self) -> str:
        """The heading on one line."""
        return self.heading.replace("\n", " ")

    @property
    def justify(self) -> JustifyMethod:
        return justify_method(self.is_number)

    @property
    def style(self) -> str:
        if self.cell is _mask_icons:
            return "cyan"
        return ""


def _layer_counts(entry: PricedArchitecture) -> str:
    encoder = entry.arch.spec.encoder
    n_layers = len(entry.arch.spec.stack.layers)
    if encoder:
        return f"{len(encoder.layers)}+{n_layers}"
    return str(n_layers)


def _second_sequence(entry: PricedArchitecture) -> str:
    encoder = entry.arch.architecture.encoder
    if not encoder:
        return "—"
    if encoder.shared:
        return f"{encoder.mask}, shared blocks"
    return str(encoder.mask)


def _mask_icons(entry: PricedArchitecture) -> str:
    return draw_icons(entry.arch.spec.stack, entry.prefix_share)


COLUMNS = (
    ArchitectureColumn("architecture", lambda entry: entry.arch.name, is_number=False),
    ArchitectureColumn("sight", _mask_icons, drop_order=4, is_number=False),
    ArchitectureColumn("mask", lambda entry: str(entry.arch.architecture.mask), is_number=False),
    ArchitectureColumn("second\nsequence", _second_sequence, is_number=False),
    ArchitectureColumn("layers", _layer_counts, drop_order=3),
    ArchitectureColumn("width", lambda entry: str(entry.arch.spec.d_model), drop_order=1),
    ArchitectureColumn("parameters", lambda entry: format_count(entry.price.parameters)),
    ArchitectureColumn(
        "active", lambda entry: format_count(entry.price.active_parameters), drop_order=2
    ),
    ArchitectureColumn("visible\nshare", lambda entry: format_percent(entry.price.visible_share)),
    ArchitectureColumn(
        "KV cache\nper token",
        lambda entry: format_size(entry.price.kv_bytes_per_token),
        drop_order=6,
    ),
    ArchitectureColumn(
        "kept within\nan answer", lambda entry: format_bool(entry.price.appendable), drop_order=5
    ),
    ArchitectureColumn(
        "kept across\nturns", lambda entry: entry.price.across_turns, drop_order=7, is_number=False
    ),
)
NOTES = (
    "Visible share: query-key pairs that the mask lets through, over all layers and heads. "
    "Kept within an answer: when tokens are appended, every cached key and value stays valid. "
    'Kept across turns: they also stay valid in the next turn of a conversation; "if the prefix'
    ' stays": only if the prefix is the first turn and does not grow; "encoder only": the decoder'
    ' begins anew; "if a turn is a document": only if text and source have a document for each'
    " turn."
)


def architecture_table(
    entries: Sequence[PricedArchitecture], page: Console
) -> tuple[Table, tuple[str, ...]]:
    """The table, and the headings that do not fit: first cells are broken into lines, then
    columns are dropped.
    """
    layouts = list(_narrower_layouts(page.options.ascii_only))
    widest, folds_cells = layouts[0]
    columns, table = widest, _build_table(entries, widest, folds_cells)
    for columns, folds_cells in layouts:
        table = _build_table(entries, columns, folds_cells)
        if table_width(table, page).maximum <= page.width:
            break
    left_out = tuple(column.name for column in widest if column not in columns)
    return table, left_out


def _narrower_layouts(ascii_only: bool) -> Iterator[tuple[list[ArchitectureColumn], bool]]:
    """Which columns to try, and whether to break masks into lines, from the widest table to the
    narrowest.
    """
    columns = list(COLUMNS)
    if ascii_only:
        columns = [column for column in columns if column.cell is not _mask_icons]
    yield columns, False
    droppable = [column for column in columns if column.drop_order]
    for next_to_drop in sorted(droppable, key=lambda column: column.drop_order):
        yield columns, True
        columns = [column for column in columns if column is not next_to_drop]
    yield columns, True


def _build_table(
    entries: Sequence[PricedArchitecture], columns: Sequence[ArchitectureColumn], folds_cells: bool
) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.heading, justify=column.justify, no_wrap=True, style=column.style)
    for entry in entries:
        cells = [column.cell(entry) for column in columns]
        if folds_cells:
            cells = [cell.replace(", ", ",\n") for cell in cells]
        table.add_row(*cells)
    return table
