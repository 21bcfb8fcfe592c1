"""What was asked for: architectures by name or file, and the changes made to them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from paribus.errors import SpecError
from paribus.files import MAX_SPEC, read_text
from paribus.spec import Architecture, Resolved, fingerprint, load, presets, resolve
from paribus.spec.widths import width_note, written_table

Source = str | Path | Mapping[str, Any] | Architecture


def _setting(such_as: str) -> Any:
    return typer.Option("--set", metavar="PATH=VALUE", help=f"Change a field: {such_as}. Repeats.")


Settings = Annotated[list[str] | None, _setting("n_layers=4, mask='causal & window(8)'")]
RunSettings = Annotated[list[str] | None, _setting("training.n_steps=400, architecture.n_layers=4")]
DesignSettings = Annotated[list[str] | None, _setting("base.training.n_steps=400, seeds=[0,1,2,3]")]
TextLength = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Tokens of the text, input and target; by default the longest all can read."),
]
TextPrefix = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Tokens of it that are input; by default half.")
]
Json = Annotated[bool, typer.Option("--json", help="Exact numbers, for another program.")]
ARCH = "A preset, a .toml or .json file, or a checkpoint folder."


@dataclass(frozen=True)
class Asked:
    """An architecture under the name it was asked for."""

    name: str
    about: str  # the first comment of its file
    architecture: Architecture
    spec: Resolved
    note: str | None = None  # of widths that its preset keeps


def asked(source: Source, changes: Mapping[str, Any] | None = None) -> Asked:
    """The architecture a source names, with changes; an architecture is called by its fingerprint."""
    if isinstance(source, Architecture):
        assert not changes
        spec = resolve(source)
        return Asked(fingerprint(spec)[:12], "", source, spec)
    architecture = load(source, changes=changes)
    name = "mapping" if isinstance(source, Mapping) else str(source)
    changed = "".join(f", {path} = {value}" for path, value in (changes or {}).items())
    note = width_note(written_table(source, changes))
    return Asked(name + changed, _about(source), architecture, resolve(architecture), note)


def notes_of(given: Sequence[Asked]) -> list[str]:
    """What should be known of architectures beside their numbers, each with the name it was asked by."""
    return [f"note: {one.name}: {one.note}" for one in given if one.note is not None]


def changes(settings: Sequence[str] | None, option: str = "--set") -> dict[str, Any]:
    """`path=value` texts as a table; a value is TOML, or else a plain string."""
    problems, table = [], {}
    for setting in settings or ():
        path, equals, text = setting.partition("=")
        if not path.strip() or not equals:
            problems.append(f"{option} is {setting!r}; write path=value")
        elif path.strip() in table:
            problems.append(f"{option} gives {path.strip()} twice; give it once")
        table[path.strip()] = _value(text.strip())
    if problems:
        raise SpecError(problems)
    return table


def _value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except RecursionError:
        raise SpecError(
            f"--set has a value of {len(text):,} letters whose lists lie too deep; write it flatter"
        ) from None
    return table["value"] if len(table) == 1 else text


def _about(source: str | Path | Mapping[str, Any]) -> str:
    if str(source) in presets():
        text = (resources.files("paribus.spec") / "presets" / f"{source}.toml").read_text("utf-8")
    elif isinstance(source, str | Path) and Path(source).suffix == ".toml":
        text = read_text(source, MAX_SPEC)
    else:
        return ""
    first = text.partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""
