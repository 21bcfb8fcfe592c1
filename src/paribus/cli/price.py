"""Count the parameters, the KV cache and the FLOPs of an architecture before it is built.

Several architectures are priced for the same text, with the same numbers of input and target
tokens. FLOPs are counted in two ways: dense counts every query-key pair, visible only the pairs
that the mask lets through.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from paribus.cli.terminal.arguments import (
    ARCH_HELP,
    ArchitectureSource,
    JsonOption,
    NamedArchitecture,
    SettingsOption,
    TextLengthOption,
    TextPrefixOption,
    architecture_notes,
    load_architecture,
    parse_settings,
)
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.price_table import LEGEND, describe_lengths, fit_price_tables
from paribus.cli.terminal.text_price import (
    describe_priced_text,
    input_tokens,
    longest_text,
    text_price,
)
from paribus.errors import SpecError
from paribus.spec import Price, architecture_fingerprint


def price(
    source: ArchitectureSource,
    length: int | None = None,
    source_length: int | None = None,
    prefix: int | None = None,
    bytes_per_value: int = 2,
) -> Price:
    """The price of a text of so many tokens; by default the longest it reads, two bytes a
    cached value.

    Half of the text is input, or as much as `prefix` says, or `source_length` for an encoder; the
    rest is target.
    """
    return _prices([load_architecture(source)], length, source_length, prefix, bytes_per_value)[0]


def command(
    arch: Annotated[list[str], typer.Argument(metavar="ARCH", help=ARCH_HELP)],
    settings: SettingsOption = None,
    length: TextLengthOption = None,
    source_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of input tokens, which an encoder reads; the same as --prefix.",
        ),
    ] = None,
    prefix: TextPrefixOption = None,
    source: Annotated[
        int | None,
        typer.Option(
            "--source", min=1, metavar="N", help="Number of input tokens, however they are read."
        ),
    ] = None,
    target: Annotated[
        int | None,
        typer.Option(
            "--target", min=1, metavar="N", help="Number of target tokens, after --source of input."
        ),
    ] = None,
    bytes_per_value: Annotated[
        int, typer.Option("--bytes", min=1, metavar="N", help="Bytes per cached value.")
    ] = 2,
    json: JsonOption = False,
) -> None:
    architectures = [load_architecture(one, parse_settings(settings)) for one in arch]
    if source is not None or target is not None:
        _require_one_way(length, source_length, prefix)
        length, prefix = _whole_text(source, target)
    prices = _prices(architectures, length, source_length, prefix, bytes_per_value)
    if json:
        pairs = zip(architectures, prices, strict=True)
        print_json([_price_json(one, cost) for one, cost in pairs])
    else:
        _print_prices(architectures, prices)


def _require_one_way(length: int | None, source_length: int | None, prefix: int | None) -> None:
    """SpecError where the lengths of a text are given in two ways."""
    others = {"--length": length, "--source-length": source_length, "--prefix": prefix}
    for option, value in others.items():
        if value is not None:
            raise SpecError(
                f"{option} is {value} beside --source and --target, which say how long the text"
                " is; leave it out"
            )


def _whole_text(source: int | None, target: int | None) -> tuple[int, int]:
    """The length of a text, and how much of it is input."""
    if source is None or target is None:
        lack = "--source" if source is None else "--target"
        raise SpecError(f"{lack} is missing; give both --source and --target")
    return source + target, source


def _prices(
    architectures: Sequence[NamedArchitecture],
    length: int | None,
    source_length: int | None,
    prefix: int | None,
    bytes_per_value: int,
) -> list[Price]:
    """The price of one text in each architecture."""
    specs = [one.spec for one in architectures]
    if source_length is not None and all(spec.encoder is None for spec in specs):
        raise SpecError(
            f"source_length is {source_length}, but there is no encoder to read a source; leave"
            " it out"
        )
    n_input = input_tokens(source_length, prefix)
    if length is None:
        length = longest_text(specs, n_input)
    return [text_price(spec, length, n_input, bytes_per_value) for spec in specs]


def _price_json(arch: NamedArchitecture, cost: Price) -> dict[str, Any]:
    return {
        "name": arch.name,
        "note": arch.note,
        "fingerprint": architecture_fingerprint(arch.spec),
        **asdict(cost),
    }


def _print_prices(architectures: Sequence[NamedArchitecture], prices: Sequence[Price]) -> None:
    page = console()
    page.print(describe_priced_text(architectures, prices))
    page.print()
    page.print(*fit_price_tables([one.name for one in architectures], prices, page), sep="\n")
    page.print()
    names_by_lengths: dict[str, list[str]] = {}
    for one, cost in zip(architectures, prices, strict=True):
        lengths = describe_lengths(cost, one.spec.stack.masks)
        names_by_lengths.setdefault(lengths, []).append(one.name)
    for lengths, names in names_by_lengths.items():
        if len(names_by_lengths) == 1:
            page.print(f"At {lengths}.", style="dim")
        else:
            page.print(f"{', '.join(names)}: at {lengths}.", style="dim")
    page.print(LEGEND, style="dim")
    for note in architecture_notes(architectures):
        page.print(note, style="yellow")
