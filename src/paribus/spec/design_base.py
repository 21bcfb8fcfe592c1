"""A base by its name: a preset, or a file that describes a run, laid open where it is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paribus.errors import SpecError
from paribus.files import expand_home
from paribus.spec.places import place_run
from paribus.spec.reading import presets, read_table
from paribus.spec.spelling import word_advice

Table = dict[str, Any]


def with_base(table: Table, folder: Path) -> Table:
    """A design's table with a named `base` filled in; a file is looked for beside the design,
    in `folder`.

    What a file holds is what is kept and hashed, so that moving it changes nothing.
    """
    name = table.get("base")
    if isinstance(name, str):
        return {**table, "base": _read_base(name, folder)}
    return table


def _file_named(folder: Path, name: str) -> Path:
    """The file that a design in `folder` names."""
    return folder / expand_home("base", name)


def _read_base(name: str, folder: Path) -> Table:
    if name in presets():
        return {"architecture": {"preset": name}}
    if Path(name).suffix in (".toml", ".json"):
        path = _file_named(folder, name)
        return place_run(
            read_table(path, "give base a preset, a table, or a file that describes a run"),
            path.parent,
        )
    advice = word_advice(name, presets())
    raise SpecError(
        f"base is {name!r}, which is neither a preset nor a .toml or .json file; {advice}presets"
        " are"
        f" {', '.join(presets())}"
    )
