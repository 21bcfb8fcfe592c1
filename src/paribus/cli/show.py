"""List architectures side by side, draw one with its masks, or show an objective by example.

Without arguments, all presets are listed. An objective (causal, reverse, prefix, masked,
last_token, spans, continuation, seq2seq, ul2) is shown by an example, with the presets that can be
trained with it; --set changes its fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.cli.terminal.architecture_card import print_architecture_card
from paribus.cli.terminal.architecture_table import NOTES, PricedArchitecture, architecture_table
from paribus.cli.terminal.arguments import (
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
from paribus.cli.terminal.text_price import longest_text, text_price
from paribus.errors import SpecError
from paribus.spec import architecture_fingerprint, presets
from paribus.spec.objectives import OBJECTIVES_BY_KIND, Objective
from paribus.spec.run import load_objective
from paribus.spec.spelling import word_advice

ARCH_OR_OBJECTIVE_HELP = (
    "A preset, a .toml or .json file, a checkpoint folder, or the name of an objective."
)


def show(
    *sources: ArchitectureSource, length: int | None = None, prefix: int | None = None
) -> None:
    """Print one architecture's card, several side by side, or without any all presets; or what
    an objective asks.
    """
    objective = _requested_objective(sources, {}, length, prefix)
    if objective is not None:
        _print_objective(objective)
    else:
        _print_architectures(
            _priced_architectures(
                [load_architecture(source) for source in sources or presets()], length, prefix
            )
        )


def command(
    arch: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARCH|OBJECTIVE", help=ARCH_OR_OBJECTIVE_HELP),
    ] = None,
    settings: SettingsOption = None,
    length: TextLengthOption = None,
    prefix: TextPrefixOption = None,
    json: JsonOption = False,
) -> None:
    objective = _requested_objective(arch or (), parse_settings(settings), length, prefix)
    if objective is not None:
        _print_objective(objective, json)
        return
    changes = parse_settings(settings)
    architectures = [load_architecture(source, changes) for source in arch or presets()]
    entries = _priced_architectures(architectures, length, prefix)
    if json:
        print_json([_entry_json(entry) for entry in entries])
    else:
        _print_architectures(entries)


def _requested_objective(
    sources: Sequence[ArchitectureSource],
    settings: Mapping[str, Any],
    length: int | None,
    prefix: int | None,
) -> Objective | None:
    """The objective that is named, which must be alone; None if architectures are named."""
    names = [name for name in sources if isinstance(name, str)]
    kinds = [name for name in names if name in OBJECTIVES_BY_KIND]
    if not kinds:
        for name in names:
            _require_spelling(name)
        return None
    if len(sources) > 1:
        raise SpecError(f"{kinds[0]!r} is an objective, which is shown alone; leave the rest out")
    for option, value in {"--length": length, "--prefix": prefix}.items():
        if value is not None:
            raise SpecError(
                f"{option} is {value} for the objective {kinds[0]!r}, which has none; leave it out"
            )
    return load_objective(kinds[0], settings)


def _require_spelling(name: str) -> None:
    """SpecError if a name is probably a misspelt objective; other names are checked when they
    are loaded.
    """
    if name == "mixture":
        raise SpecError(
            "'mixture' is an objective whose components a run lists; show one of"
            f" {', '.join(OBJECTIVES_BY_KIND)}"
        )
    advice = word_advice(name, (*presets(), *OBJECTIVES_BY_KIND))
    is_near_objective = any(repr(kind) in advice for kind in OBJECTIVES_BY_KIND)
    if (
        is_near_objective
        and name not in presets()
        and not Path(name).suffix
        and not Path(name).is_dir()
    ):
        advice += f"objectives are {', '.join(OBJECTIVES_BY_KIND)}"
        raise SpecError(f"{name} is not a preset, an objective, or a .toml or .json file; {advice}")


def _print_objective(objective: Objective, json: bool = False) -> None:
    # Posing needs torch, which a card of an architecture does without.
    from paribus.cli.terminal.objective_card import objective_json, print_objective_card

    if json:
        print_json(objective_json(objective))
    else:
        print_objective_card(objective, console())


def _priced_architectures(
    architectures: Sequence[NamedArchitecture], length: int | None, prefix: int | None
) -> list[PricedArchitecture]:
    """Each at the same text, or at the longest that it reads itself."""
    entries: list[PricedArchitecture] = []
    for one in architectures:
        n_tokens = length
        if n_tokens is None:
            n_tokens = longest_text([one.spec], prefix)
        entries.append(PricedArchitecture(one, text_price(one.spec, n_tokens, prefix)))
    return entries


def _print_architectures(entries: Sequence[PricedArchitecture]) -> None:
    page = console()
    if len(entries) == 1:
        print_architecture_card(entries[0].arch, entries[0].price, page)
        return
    table, left_out = architecture_table(entries, page)
    page.print(table)
    page.print()
    page.print(NOTES, style="dim")
    for note in architecture_notes([entry.arch for entry in entries]):
        page.print(note, style="yellow")
    if left_out:
        page.print(
            f"No room for: {', '.join(left_out)}; a wider terminal or --json shows the rest.",
            style="dim",
        )


def _entry_json(entry: PricedArchitecture) -> dict[str, Any]:
    one = entry.arch
    return {
        "name": one.name,
        "about": one.about,
        "note": one.note,
        "fingerprint": architecture_fingerprint(one.spec),
        "architecture": one.architecture.model_dump(mode="json"),
        "price": asdict(entry.price),
    }
