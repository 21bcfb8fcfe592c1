"""What verbs take: architectures by name or file, and the fields that are set in them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.errors import SpecError
from paribus.files import MAX_SPEC_BYTES, read_text
from paribus.spec import (
    Architecture,
    ResolvedArchitecture,
    architecture_fingerprint,
    load,
    presets,
    resolve,
)
from paribus.spec.parameters import position_note
from paribus.spec.widths import width_note, written_table

ArchitectureSource = str | Path | Mapping[str, Any] | Architecture


def _settings_option(example: str) -> Any:
    return typer.Option(
        "--set", metavar="PATH=VALUE", help=f"Set a field, such as {example}. May be repeated."
    )


SettingsOption = Annotated[
    list[str] | None, _settings_option("n_layers=4 or mask='causal & window(8)'")
]
RunSettingsOption = Annotated[
    list[str] | None, _settings_option("training.n_steps=400 or architecture.n_layers=4")
]
DesignSettingsOption = Annotated[
    list[str] | None, _settings_option("base.training.n_steps=400 or seeds=[0,1,2,3]")
]
TextLengthOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Tokens of the text, input and target; by default the longest that all can read.",
    ),
]
TextPrefixOption = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="Number of these tokens that are input; by default half."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON with exact numbers, for another program.")
]
STUDY_HELP = "The name of a study."
OPEN_HELP = "Open the page in a browser."
ARCH_HELP = "A preset, a .toml or .json file, or a checkpoint folder."


@dataclass(frozen=True)
class NamedArchitecture:
    """An architecture under the name that was typed."""

    name: str
    about: str  # the first comment of its file
    architecture: Architecture
    spec: ResolvedArchitecture
    note: str | None = None  # of widths that its preset keeps


def load_architecture(
    source: ArchitectureSource, changes: Mapping[str, Any] | None = None
) -> NamedArchitecture:
    """The architecture a source names, with changes; an architecture is called by its
    fingerprint.
    """
    if isinstance(source, Architecture):
        assert not changes
        spec = resolve(source)
        return NamedArchitecture(
            name=architecture_fingerprint(spec)[:12], about="", architecture=source, spec=spec
        )
    architecture = load(source, changes=changes)
    name = str(source)
    if isinstance(source, Mapping):
        name = "mapping"
    name += "".join(f", {path} = {value}" for path, value in (changes or {}).items())
    note = width_note(written_table(source, changes))
    return NamedArchitecture(
        name=name,
        about=_first_comment(source),
        architecture=architecture,
        spec=resolve(architecture),
        note=note,
    )


def architecture_notes(architectures: Sequence[NamedArchitecture]) -> list[str]:
    """What a person should know of architectures beside their numbers, each with its name."""
    notes: list[str] = []
    for one in architectures:
        if one.note is not None:
            notes.append(f"note: {one.name}: {one.note}")
        note = position_note(one.architecture)
        if note is not None:
            notes.append(f"note: {one.name}: {note}")
    return notes


def parse_settings(settings: Sequence[str] | None, option: str = "--set") -> dict[str, Any]:
    """`path=value` texts as a table; a value is TOML, or else a plain string."""
    problems, table = [], {}
    for setting in settings or ():
        path, equals, text = setting.partition("=")
        if not path.strip() or not equals:
            problems.append(f"{option} is {setting!r}; write path=value")
        elif path.strip() in table:
            problems.append(f"{option} gives {path.strip()} twice; give it once")
        table[path.strip()] = _parse_value(text.strip())
    if problems:
        raise SpecError(problems)
    return table


def _parse_value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except RecursionError:
        raise SpecError(
            f"--set has a value of {len(text):,} letters whose lists are nested too deep; use fewer"
            " levels"
        ) from None
    if len(table) == 1:
        return table["value"]
    return text


def _first_comment(source: str | Path | Mapping[str, Any]) -> str:
    if str(source) in presets():
        text = (resources.files("paribus.spec") / "presets" / f"{source}.toml").read_text("utf-8")
    elif isinstance(source, str | Path) and Path(source).suffix == ".toml":
        text = read_text(source, MAX_SPEC_BYTES)
    else:
        return ""
    first = text.partition("\n")[0]
    if first.startswith("#"):
        return first.removeprefix("#").strip()
    return ""
