"""Widths that a preset writes as numbers, and that stay as they are when d_model is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paribus.spec.merging import in_setting_order, set_at_path
from paribus.spec.reading import SHORT_NAMES, merged_table, presets, read_table

Table = Mapping[str, Any]
WIDTHS = {
    "attention": ("d_head", "d_latent", "d_query_latent", "d_content", "d_rotary", "d_value"),
    "feed_forward": ("d_ff", "d_expert"),
}


def width_note(user_table: Mapping[str, Any]) -> str | None:
    """Which widths of a preset do not follow the d_model that a table puts over it; None where
    all do.
    """
    name = user_table.get("preset")
    if name not in presets():
        return None
    below, above = merged_table(str(name)), merged_table(user_table)
    if above.get("d_model") == below.get("d_model"):
        return None
    preset_widths = [f"{key} {value}" for key, value in _preset_widths(user_table, below, above)]
    if not preset_widths:
        return None
    stay, them = ("stays", "it") if len(preset_widths) == 1 else ("stay", "them")
    widths = f"{', '.join(preset_widths[:-1])} and {preset_widths[-1]}".removeprefix(" and ")
    return (
        f"d_model is {above.get('d_model')}, and {name} has {below.get('d_model')}; {widths} {stay}"
        f" as {name} has {them}; set {them} too for a model that is smaller or larger throughout"
    )


def _preset_widths(user_table: Table, below: Table, above: Table) -> list[tuple[str, int]]:
    """The widths that come from the preset and from nothing written over it."""
    widths: list[tuple[str, int]] = []
    for part, keys in WIDTHS.items():
        own, old, new = (_table_or_empty(table.get(part)) for table in (user_table, below, above))
        for key in keys:
            if key in old and key not in own and new.get(key) == old[key]:
                widths.append((key, old[key]))
    return widths


def _table_or_empty(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return {}


def written_table(
    source: str | Path | Mapping[str, Any], changes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What a person wrote of an architecture, with changes by path, and its preset by name."""
    if isinstance(source, Mapping):
        table = dict(source)
    elif str(source) in presets():
        table = {"preset": str(source)}
    elif Path(source).suffix in (".toml", ".json"):
        table = read_table(Path(source))
    else:
        table = {}  # a checkpoint, which stands on no preset
    values_by_path = {SHORT_NAMES.get(path, path): value for path, value in (changes or {}).items()}
    for path in in_setting_order(values_by_path):
        set_at_path(table, path, values_by_path[path])
    return table
