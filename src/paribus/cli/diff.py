"""Every field at which two architectures differ, and what that does to their price.

Exit status 0 whether they differ or not; --json gives [] where they are the same model.
"""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from paribus.cli.terminal.arguments import ARCH, Asked, Json, Settings, Source, asked, changes, notes_of
from paribus.cli.terminal.console import console, print_json, room
from paribus.cli.terminal.prices import CACHE, SIZES, WORK, terms
from paribus.cli.terminal.spelling import spelled
from paribus.cli.terminal.text_price import longest_text, text_price, text_words
from paribus.report.numbers import significant
from paribus.spec import Difference, difference


def diff(left: Source, right: Source) -> tuple[Difference, ...]:
    """Every path at which two architectures differ once resolved; empty where they are the same model."""
    return difference(asked(left).spec, asked(right).spec)


def command(
    left: Annotated[str, typer.Argument(metavar="A", help=ARCH)],
    right: Annotated[str, typer.Argument(metavar="B", help=ARCH)],
    settings: Settings = None,
    set_a: Annotated[list[str] | None, typer.Option(metavar="PATH=VALUE", help="Change a field of A alone.")] = None,
    set_b: Annotated[list[str] | None, typer.Option(metavar="PATH=VALUE", help="Change a field of B alone.")] = None,
    json: Json = False,
) -> None:
    both = changes(settings)
    a = asked(left, both | changes(set_a, "--set-a"))
    b = asked(right, both | changes(set_b, "--set-b"))
    found = difference(a.spec, b.spec)
    if json:
        print_json([asdict(one) for one in found])
        return
    page = console()
    for note in notes_of([a, b]):
        page.print(note, style="yellow")
    if not found:
        page.print(f"same model: {a.name} and {b.name} resolve alike")
        return
    _print_fields(a, b, found, page)
    page.print()
    _print_price(a, b, page)


def _print_fields(a: Asked, b: Asked, found: tuple[Difference, ...], page: Console) -> None:
    """Side by side where both sides fit on the page, one under the other where not."""
    sides = [(one.path, _side(one.path, one.left), _side(one.path, one.right)) for one in found]
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="bold")
    for heading, style in (("field", ""), (a.name, "red"), (b.name, "green")):
        table.add_column(heading, style=style)
    for path, left, right in sides:
        table.add_row(path, left, right)
    if room(table, page).maximum <= page.width:
        page.print(table)
        return
    widest = max(len(path) for path, _, _ in sides)
    for path, left, right in [("field", a.name, b.name), *sides]:
        change = Text.assemble(f"{path:{widest}}   ", (left, "red"), " → ", (right, "green"))
        if len(change) <= page.width:
            page.print(change)
        else:
            page.print(
                Group(path, Padding(Text(left, "red"), (0, 0, 0, 3)), Padding(Text(right, "green"), (0, 0, 0, 3)))
            )


def _side(path: str, value: Any) -> str:
    return spelled(value, path.rpartition(".")[-1] if isinstance(value, str) else "")


def _print_price(a: Asked, b: Asked, page: Console) -> None:
    """What is counted and differs, for the longest text both can read."""
    length = longest_text([a.spec, b.spec])
    left, right = (text_price(one.spec, length) for one in (a, b))
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("price", no_wrap=True)
    for heading in (a.name, b.name, "B / A"):
        table.add_column(heading, justify="right")
    for line in (*SIZES, *CACHE, *WORK):
        before, after = line.value(left), line.value(right)
        if before != after:
            ratio = significant(after / before) if before and not isinstance(before, bool) else ""
            table.add_row(line.label.strip(), *line.written([left, right]), ratio)
    if table.row_count:
        page.print(table)
        page.print()
    if (a.spec.encoder is None) != (b.spec.encoder is None):
        said = f"{text_words([a, b], [left, right])} {left.bytes_per_value} bytes a cached value."
        page.print(said, style="dim")
        return
    cost = f"At {terms(left, [*a.spec.stack.masks, *b.spec.stack.masks])}"
    page.print(f"{cost}." if table.row_count else f"{cost}, both cost the same.", style="dim")
