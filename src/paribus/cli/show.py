"""Architectures side by side, or one on a card with its masks drawn; or what an objective asks.

Without an architecture: all presets. An objective (causal, reverse, prefix, masked, last_token, spans, continuation,
seq2seq, ul2) is shown by an example, with the presets that may be trained with it; --set changes its fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.cli.terminal.arguments import (
    ARCH,
    Asked,
    Json,
    Settings,
    Source,
    TextLength,
    TextPrefix,
    asked,
    changes,
    notes_of,
)
from paribus.cli.terminal.card import card
from paribus.cli.terminal.console import console, print_json
from paribus.cli.terminal.overview import NOTES, Entry, overview
from paribus.cli.terminal.text_price import longest_text, text_price
from paribus.errors import SpecError
from paribus.spec import fingerprint, presets
from paribus.spec.objectives import NAMED, Objective
from paribus.spec.run import load_objective
from paribus.spec.spelling import word_advice


def show(*sources: Source, length: int | None = None, prefix: int | None = None) -> None:
    """Print one architecture's card, several side by side, or without any all presets; or what an objective asks."""
    objective = _objective(sources, {}, length, prefix)
    if objective is not None:
        _print_objective(objective)
    else:
        _print(_entries([asked(source) for source in sources or presets()], length, prefix))


def command(
    arch: Annotated[list[str] | None, typer.Argument(metavar="ARCH|OBJECTIVE", help=f"{ARCH} Or an objective.")] = None,
    settings: Settings = None,
    length: TextLength = None,
    prefix: TextPrefix = None,
    json: Json = False,
) -> None:
    objective = _objective(arch or (), changes(settings), length, prefix)
    if objective is not None:
        _print_objective(objective, json)
        return
    given = [asked(source, changes(settings)) for source in arch or presets()]
    entries = _entries(given, length, prefix)
    if json:
        print_json([_described(entry) for entry in entries])
    else:
        _print(entries)


def _objective(
    given: Sequence[Source], settings: Mapping[str, Any], length: int | None, prefix: int | None
) -> Objective | None:
    """The objective that was asked for alone; None where architectures were."""
    names = [name for name in given if isinstance(name, str)]
    found = [name for name in names if name in NAMED]
    if not found:
        for name in names:
            _check_spelling(name)
        return None
    if len(given) > 1:
        raise SpecError(f"{found[0]!r} is an objective, which is shown alone; leave the rest out")
    for option, value in {"--length": length, "--prefix": prefix}.items():
        if value is not None:
            raise SpecError(f"{option} is {value} for the objective {found[0]!r}, which has none; leave it out")
    return load_objective(found[0], settings)


def _check_spelling(name: str) -> None:
    """Tell of objectives where one was probably meant; what else is wrong with a name is told by its reading."""
    if name == "mixture":
        raise SpecError(f"'mixture' is an objective made of parts that a run gives; show one of {', '.join(NAMED)}")
    advice = word_advice(name, (*presets(), *NAMED))
    meant = any(repr(kind) in advice for kind in NAMED)
    if meant and name not in presets() and not Path(name).suffix and not Path(name).is_dir():
        said = f"{advice}objectives are {', '.join(NAMED)}"
        raise SpecError(f"{name} is no preset, no objective and no .toml or .json file; {said}")


def _print_objective(objective: Objective, json: bool = False) -> None:
    # Posing needs torch, which a card of an architecture does without.
    from paribus.cli.terminal.objective import objective_card, objective_described

    if json:
        print_json(objective_described(objective))
    else:
        objective_card(objective, console())


def _entries(given: Sequence[Asked], length: int | None, prefix: int | None) -> list[Entry]:
    """Each at the same text, or at the longest that it reads itself."""
    lengths = [longest_text([one.spec], prefix) if length is None else length for one in given]
    return [Entry(one, text_price(one.spec, n, prefix)) for one, n in zip(given, lengths, strict=True)]


def _print(entries: Sequence[Entry]) -> None:
    page = console()
    if len(entries) == 1:
        card(entries[0].asked, entries[0].price, page)
        return
    table, left_out = overview(entries, page)
    page.print(table)
    page.print()
    page.print(NOTES, style="dim")
    for note in notes_of([entry.asked for entry in entries]):
        page.print(note, style="yellow")
    if left_out:
        page.print(f"No room for: {', '.join(left_out)}; a wider terminal or --json shows the rest.", style="dim")


def _described(entry: Entry) -> dict[str, Any]:
    one = entry.asked
    return {
        "name": one.name,
        "about": one.about,
        "note": one.note,
        "fingerprint": fingerprint(one.spec),
        "architecture": one.architecture.model_dump(mode="json"),
        "price": asdict(entry.price),
    }
