"""List every field of a run file and of a design: its type, its default and what it does.

Without PATH, all tables are listed. PATH is dotted, such as training, training.optimizer.rate,
design.primary or training.schedule.cosine. docs/reference.md has the same content.
"""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paribus.cli.terminal.arguments import JsonOption
from paribus.cli.terminal.console import console, print_json, print_page
from paribus.errors import SpecError
from paribus.escapes import escape_unprintable
from paribus.spec.fields import FieldEntry, FieldMatch, TableEntry, all_tables, find_fields
from paribus.spec.reference import reference_page

MORE = "paribus fields PATH shows one of them in full, such as paribus fields training.optimizer."


def fields(path: str | None = None) -> None:
    """Print every table, or what lies at a dotted path."""
    if path is None:
        _print_overview(console())
    else:
        _print_found(find_fields(path), console())


def command(
    path: Annotated[
        str | None,
        typer.Argument(metavar="PATH", help="A dotted path, such as training.optimizer."),
    ] = None,
    json: JsonOption = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print all of docs/reference.md.")
    ] = False,
) -> None:
    if markdown:
        _require_alone(path, json)
        print_page(reference_page())
    elif json:
        print_json(
            [asdict(table) for table in all_tables()] if path is None else asdict(find_fields(path))
        )
    else:
        fields(path)


def _require_alone(path: str | None, json: bool) -> None:
    if path is not None or json:
        given = "--json" if path is None else repr(path)
        raise SpecError(
            f"--markdown prints the whole page, and {given} is given beside it; leave one of"
            " them out"
        )


def _print_overview(page: Console) -> None:
    """One line per table."""
    listed = _grid()
    for table in all_tables():
        listed.add_row(_name(table), escape_unprintable(table.about))
    page.print(listed)
    page.print(f"\n{MORE}", style="dim")


def _print_found(found: FieldMatch, page: Console) -> None:
    for field in found.fields:
        page.print(found.path, style="bold", highlight=False)
        page.print(_details(field))
    for table in found.tables:
        if found.fields or table is not found.tables[0]:
            page.print()
        if table.kind is not None or not found.fields:
            page.print(_name(table), style="bold", highlight=False)
            page.print(escape_unprintable(table.about), highlight=False)
        if table.fields:
            page.print(_field_table(table))


def _details(field: FieldEntry) -> Table:
    """One field, a line for each thing that is known of it."""
    told = _grid()
    for name, text in (
        ("what it does", field.about),
        ("type", field.type),
        ("values", field.values),
    ):
        if text:
            told.add_row(f"  {name}", escape_unprintable(_plain(text)))
    told.add_row("  default", escape_unprintable(field.default))
    return told


def _field_table(table: TableEntry) -> Table:
    listed = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("  key", "default", "type", "what it does"):
        listed.add_column(name, overflow="fold")
    for field in table.fields:
        allowed = f": {_plain(field.values)}" if field.values else ""
        about = escape_unprintable(_plain(field.about))
        listed.add_row(
            f"  {field.key}",
            escape_unprintable(field.default),
            escape_unprintable(f"{field.type}{allowed}"),
            about,
        )
    return listed


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _name(table: TableEntry) -> str:
    if table.kind is None:
        return table.path
    return f"{table.path} = {table.kind!r}"


def _plain(text: str) -> str:
    """Without the marks of Markdown around names."""
    return text.replace("`", "")
