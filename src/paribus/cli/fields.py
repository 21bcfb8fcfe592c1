"""List every field of a run file and of a design: its type, its default and what it does.

Without PATH, all tables are listed. PATH is dotted, such as training, training.optimizer.rate,
design.primary or training.schedule.cosine. docs/reference.md has the same content.
"""

from dataclasses import asdict
from typing import Annotated, Any

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
        _print_match(find_fields(path), console())


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
        print_json(_fields_json(path))
    else:
        fields(path)


def _fields_json(path: str | None) -> Any:
    if path is None:
        return [asdict(table) for table in all_tables()]
    return asdict(find_fields(path))


def _require_alone(path: str | None, json: bool) -> None:
    other = ""
    if path is not None:
        other = repr(path)
    elif json:
        other = "--json"
    if other:
        raise SpecError(
            f"--markdown prints the whole page, and {other} is given beside it; leave one of"
            " them out"
        )


def _print_overview(page: Console) -> None:
    """One line per table."""
    overview = _grid()
    for table in all_tables():
        overview.add_row(_name(table), escape_unprintable(table.about))
    page.print(overview)
    page.print(f"\n{MORE}", style="dim")


def _print_match(match: FieldMatch, page: Console) -> None:
    for field in match.fields:
        page.print(match.path, style="bold", highlight=False)
        page.print(_details(field))
    for table in match.tables:
        if match.fields or table is not match.tables[0]:
            page.print()
        if table.kind is not None or not match.fields:
            page.print(_name(table), style="bold", highlight=False)
            page.print(escape_unprintable(table.about), highlight=False)
        if table.fields:
            page.print(_field_table(table))


def _details(field: FieldEntry) -> Table:
    """One field: what it does, its type, values and default, a line each."""
    details = _grid()
    for name, text in (
        ("what it does", field.about),
        ("type", field.type),
        ("values", field.values),
    ):
        if text:
            details.add_row(f"  {name}", escape_unprintable(_plain(text)))
    details.add_row("  default", escape_unprintable(field.default))
    return details


def _field_table(table: TableEntry) -> Table:
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("  key", "default", "type", "what it does"):
        rows.add_column(name, overflow="fold")
    for field in table.fields:
        values = ""
        if field.values:
            values = f": {_plain(field.values)}"
        about = escape_unprintable(_plain(field.about))
        rows.add_row(
            f"  {field.key}",
            escape_unprintable(field.default),
            escape_unprintable(f"{field.type}{values}"),
            about,
        )
    return rows


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
