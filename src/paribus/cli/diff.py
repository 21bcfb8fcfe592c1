"""List the fields in which two architectures differ, and compare their prices.

The exit status is 0 whether they differ or not; --json prints [] if they are the same model.
"""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from paribus.cli.terminal.arguments import (
    ARCH_HELP,
    ArchitectureSource,
    JsonOption,
    NamedArchitecture,
    SettingsOption,
    architecture_notes,
    load_architecture,
    parse_settings,
)
from paribus.cli.terminal.console import console, print_json, table_width
from paribus.cli.terminal.field_format import format_field
from paribus.cli.terminal.price_table import CACHE_LINES, FLOP_LINES, SIZE_LINES, describe_lengths
from paribus.cli.terminal.text_price import describe_priced_text, longest_text, text_price
from paribus.report.numbers import significant
from paribus.spec import Difference, difference


def diff(left: ArchitectureSource, right: ArchitectureSource) -> tuple[Difference, ...]:
    """Every path at which two resolved architectures differ; empty if they are the same model."""
    return difference(load_architecture(left).spec, load_architecture(right).spec)


def command(
    left: Annotated[str, typer.Argument(metavar="A", help=ARCH_HELP)],
    right: Annotated[str, typer.Argument(metavar="B", help=ARCH_HELP)],
    settings: SettingsOption = None,
    set_a: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH=VALUE", help="Set a field of A only. May be repeated."),
    ] = None,
    set_b: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH=VALUE", help="Set a field of B only. May be repeated."),
    ] = None,
    json: JsonOption = False,
) -> None:
    both = parse_settings(settings)
    a = load_architecture(left, both | parse_settings(set_a, "--set-a"))
    b = load_architecture(right, both | parse_settings(set_b, "--set-b"))
    differences = difference(a.spec, b.spec)
    if json:
        print_json([asdict(one) for one in differences])
        return
    page = console()
    for note in architecture_notes([a, b]):
        page.print(note, style="yellow")
    if not differences:
        page.print(f"same model: {a.name} and {b.name} resolve to the same architecture")
        return
    _print_fields(a, b, differences, page)
    page.print()
    _print_price(a, b, page)


def _print_fields(
    a: NamedArchitecture, b: NamedArchitecture, differences: tuple[Difference, ...], page: Console
) -> None:
    """Side by side where both sides fit on the page, one under the other where not."""
    sides = [
        (one.path, _format_side(one.path, one.left), _format_side(one.path, one.right))
        for one in differences
    ]
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="bold")
    for heading, style in (("field", ""), (a.name, "red"), (b.name, "green")):
        table.add_column(heading, style=style)
    for path, left, right in sides:
        table.add_row(path, left, right)
    if table_width(table, page).maximum <= page.width:
        page.print(table)
        return
    widest = max(len(path) for path, _, _ in sides)
    for path, left, right in [("field", a.name, b.name), *sides]:
        change = Text.assemble(f"{path:{widest}}   ", (left, "red"), " → ", (right, "green"))
        if len(change) <= page.width:
            page.print(change)
        else:
            page.print(
                Group(
                    path,
                    Padding(Text(left, "red"), (0, 0, 0, 3)),
                    Padding(Text(right, "green"), (0, 0, 0, 3)),
                )
            )


def _format_side(path: str, value: Any) -> str:
    if isinstance(value, str):
        return format_field(value, path.rpartition(".")[-1])
    return format_field(value)


def _print_price(a: NamedArchitecture, b: NamedArchitecture, page: Console) -> None:
    """What is counted and differs, for the longest text both can read."""
    length = longest_text([a.spec, b.spec])
    left, right = (text_price(one.spec, length) for one in (a, b))
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("price", no_wrap=True)
    for heading in (a.name, b.name, "B / A"):
        table.add_column(heading, justify="right")
    for line in (*SIZE_LINES, *CACHE_LINES, *FLOP_LINES):
        before, after = line.value(left), line.value(right)
        if before != after:
            if before and not isinstance(before, bool):
                ratio = significant(after / before)
            else:
                ratio = ""
            table.add_row(line.label.strip(), *line.format_values([left, right]), ratio)
    if table.row_count:
        page.print(table)
        page.print()
    if (a.spec.encoder is None) != (b.spec.encoder is None):
        text = describe_priced_text([a, b], [left, right])
        page.print(f"{text} {left.bytes_per_value} bytes per cached value.", style="dim")
        return
    cost = f"At {describe_lengths(left, [*a.spec.stack.masks, *b.spec.stack.masks])}"
    if table.row_count:
        page.print(f"{cost}.", style="dim")
    else:
        page.print(f"{cost}, both cost the same.", style="dim")
