"""Widths that a preset writes as numbers, and that stay as they are when d_model is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paribus.spec.reading import SHORT, assign, file_table, presets, table_of

Table = Mapping[str, Any]
WIDTHS = {
    "attention": ("d_head", "d_latent", "d_query_latent", "d_content", "d_rotary", "d_value"),
    "feed_forward": ("d_ff", "d_expert"),
}


def width_note(written: Mapping[str, Any]) -> str | None:
    """Which widths of a preset do not follow the d_model that a table puts over it; None where all do."""
    name = written.get("preset")
    if name not in presets():
        return None
    below, above = table_of(str(name)), table_of(written)
    if above.get("d_model") == below.get("d_model"):
        return None
    kept = [f"{key} {value}" for key, value in _kept_widths(written, below, above)]
    if not kept:
        return None
    stay, them = ("stays", "it") if len(kept) == 1 else ("stay", "them")
    widths = f"{', '.join(kept[:-1])} and {kept[-1]}".removeprefix(" and ")
    return (
        f"d_model is {above.get('d_model')}, and {name} has {below.get('d_model')}; {widths} {stay} as {name} has "
        f"{them}; set {them} too for a model that is smaller or larger throughout"
    )


def _kept_widths(written: Table, below: Table, above: Table) -> list[tuple[str, int]]:
    """The widths that come from the preset and from nothing written over it."""
    found = []
    for part, keys in WIDTHS.items():
        own, old, new = (_table(table.get(part)) for table in (written, below, above))
        found += [(key, old[key]) for key in keys if key in old and key not in own and new.get(key) == old[key]]
    return found


def _table(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def written_table(source: str | Path | Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a person wrote of an architecture, with changes by path, and its preset by name."""
    if isinstance(source, Mapping):
        table = dict(source)
    elif str(source) in presets():
        table = {"preset": str(source)}
    elif Path(source).suffix in (".toml", ".json"):
        table = file_table(Path(source))
    else:
        table = {}  # a checkpoint, which stands on no preset
    given = {SHORT.get(path, path): value for path, value in (changes or {}).items()}
    for path in sorted(given, key=lambda path: path.count(".")):
        assign(table, path, given[path])
    return table
