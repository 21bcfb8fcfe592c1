"""Architectures side by side, or one on a card with its masks drawn.

Without an architecture: all presets.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from paribus.cli.terminal.arguments import (
    ARCH,
    Asked,
    Json,
    Length,
    Prefix,
    Settings,
    Source,
    asked,
    changes,
)
from paribus.cli.terminal.card import card
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.overview import NOTES, Entry, overview
from paribus.spec import fingerprint, presets
from paribus.spec import price as priced


def show(*sources: Source, length: int | None = None, prefix: int | None = None) -> None:
    """Print one architecture's card, several side by side, or without any all presets."""
    _print(_entries([asked(source) for source in sources or presets()], length, prefix))


def command(
    arch: Annotated[list[str] | None, typer.Argument(metavar="ARCH", help=ARCH)] = None,
    settings: Settings = None,
    length: Length = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    given = [asked(source, changes(settings)) for source in arch or presets()]
    entries = _entries(given, length, prefix)
    if json:
        print_json([_described(entry) for entry in entries])
    else:
        _print(entries)


def _entries(given: Sequence[Asked], length: int | None, prefix: int | None) -> list[Entry]:
    return [Entry(one, priced(one.spec, length, prefix=prefix)) for one in given]


def _print(entries: Sequence[Entry]) -> None:
    page = console()
    if len(entries) == 1:
        card(entries[0].asked, entries[0].price, page)
        return
    table, left_out = overview(entries, page)
    page.print(table)
    page.print()
    page.print(NOTES, style="dim")
    if left_out:
        page.print(f"No room for: {', '.join(left_out)}; a wider terminal or --json shows the rest.", style="dim")


def _described(entry: Entry) -> dict[str, Any]:
    one = entry.asked
    return {
        "name": one.name,
        "about": one.about,
        "fingerprint": fingerprint(one.spec),
        "architecture": one.architecture.model_dump(mode="json"),
        "price": asdict(entry.price),
    }
