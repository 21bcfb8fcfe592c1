"""What an architecture costs, before it is built: parameters, cache and FLOPs.

FLOPs are counted two ways. Dense: every query meets every key. Visible: only the pairs the mask lets through.
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
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.prices import MEANING, fitted, terms
from paribus.spec import Price, fingerprint
from paribus.spec import price as priced


def price(
    source: Source,
    length: int | None = None,
    source_length: int | None = None,
    prefix: int | None = None,
    bytes_per_value: int = 2,
) -> Price:
    """The price at these lengths; by default max_length of each, half of it a prefix, two bytes a cached value."""
    return priced(asked(source).spec, length, source_length, prefix, bytes_per_value)


def command(
    arch: Annotated[list[str], typer.Argument(metavar="ARCH", help=ARCH)],
    settings: Settings = None,
    length: Length = None,
    source_length: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Positions of the source, with an encoder.")
    ] = None,
    prefix: Prefix = None,
    bytes_per_value: Annotated[int, typer.Option("--bytes", min=1, metavar="N", help="Bytes of one cached value.")] = 2,
    json: Json = False,
) -> None:
    given = [asked(source, changes(settings)) for source in arch]
    with_source = any(one.spec.encoder for one in given)

    def of(one: Asked) -> Price:
        # Beside an encoder-decoder, --source-length is not meant for those that read no source.
        sourced = source_length if one.spec.encoder or not with_source else None
        return price(one.architecture, length, sourced, prefix, bytes_per_value)

    prices = [of(one) for one in given]
    if json:
        print_json([_described(one, cost) for one, cost in zip(given, prices, strict=True)])
    else:
        _print(given, prices)


def _described(one: Asked, cost: Price) -> dict[str, Any]:
    return {"name": one.name, "fingerprint": fingerprint(one.spec), **asdict(cost)}


def _print(given: Sequence[Asked], prices: Sequence[Price]) -> None:
    page = console()
    page.print(*fitted([one.name for one in given], prices, page), sep="\n")
    page.print()
    held: dict[str, list[str]] = {}
    for one, cost in zip(given, prices, strict=True):
        held.setdefault(terms(cost, one.spec.stack.masks), []).append(one.name)
    for text, names in held.items():
        page.print(f"At {text}." if len(held) == 1 else f"{', '.join(names)}: at {text}.", style="dim")
    page.print(MEANING, style="dim")
