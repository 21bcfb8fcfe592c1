"""Fields of a spec that were renamed, and tables of older formats under the present names.

What paribus wrote itself (`spec.json` of runs and checkpoints, plans) is converted where it is
read. A person's own file is not: it is refused, with the new name in the message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Table = dict[str, Any]

_ARCHITECTURE = {"start": "init"}
_TRAINING = {"n_parts": "n_micro_batches"}
_OBJECTIVE = {"parts": "components"}
_VARIANCE = {"starts": "inits"}
# Paths as a control table and a design name them.
_PATHS = {
    "architecture.start": "architecture.init",
    "training.n_parts": "training.n_micro_batches",
    "objective.parts": "objective.components",
}


def convert_architecture(table: Any) -> Any:
    """An architecture under the present names, of fields and of mask rules."""
    architecture = _with_present_keys(table, _ARCHITECTURE)
    if not isinstance(architecture, dict):
        return architecture
    if "mask" in architecture:
        architecture["mask"] = convert_mask(architecture["mask"])
    encoder = architecture.get("encoder")
    if isinstance(encoder, Mapping) and "mask" in encoder:
        architecture["encoder"] = {**encoder, "mask": convert_mask(encoder["mask"])}
    return architecture


def convert_mask(mask: Any) -> Any:
    """A mask's text under the present names of its rules."""
    if not isinstance(mask, str):
        return mask
    return re.sub(r"\bsame_part\b", "same_side", mask)


def convert_run_tables(table: Any) -> Any:
    """A table with `architecture`, `training` and `objective` in it, or `stages` of such tables.

    What is not of that shape stays as it is, for the reader to refuse it by name.
    """
    if not isinstance(table, Mapping):
        return table
    new_table = dict(table)
    if "architecture" in new_table:
        new_table["architecture"] = convert_architecture(new_table["architecture"])
    for name, names in (("training", _TRAINING), ("objective", _OBJECTIVE)):
        if name in new_table:
            new_table[name] = _with_present_keys(new_table[name], names)
    if isinstance(new_table.get("stages"), list):
        new_table["stages"] = list(map(convert_run_tables, new_table["stages"]))
    return _with_present_paths(new_table)


def convert_design_tables(design: Any) -> Any:
    """A design whose base, arms, levels and variance are under the present names."""
    if not isinstance(design, Mapping):
        return design
    new_design = dict(design)
    if "base" in new_design:
        new_design["base"] = convert_run_tables(new_design["base"])
    if isinstance(new_design.get("arms"), Mapping):
        new_design["arms"] = _each(new_design["arms"])
    if isinstance(new_design.get("factors"), Mapping):
        factors = new_design["factors"].items()
        new_design["factors"] = {name: _convert_factor(factor) for name, factor in factors}
    if "variance" in new_design:
        new_design["variance"] = _with_present_keys(new_design["variance"], _VARIANCE)
    if isinstance(new_design.get("factor"), str):
        new_design["factor"] = present_path(new_design["factor"])
    return new_design


def present_path(path: str) -> str:
    """The present name of a field by its dotted path, `architecture.start.std` for one."""
    for old, new in _PATHS.items():
        if path == old or path.startswith(f"{old}."):
            return new + path.removeprefix(old)
    return path


def _convert_factor(factor: Any) -> Any:
    if not isinstance(factor, Mapping):
        return factor
    new_factor = dict(factor)
    if isinstance(factor.get("path"), str):
        new_factor["path"] = present_path(factor["path"])
    if isinstance(factor.get("levels"), Mapping):
        new_factor["levels"] = _each(factor["levels"])
    elif isinstance(factor.get("levels"), list):
        new_factor["levels"] = list(map(convert_mask, factor["levels"]))
    return new_factor


def _each(tables: Mapping[str, Any]) -> Table:
    return {name: convert_run_tables(table) for name, table in tables.items()}


def _with_present_paths(table: Mapping[str, Any]) -> Table:
    """Keys that are dotted paths, under their present names."""
    return {present_path(key): value for key, value in table.items()}


def _with_present_keys(table: Any, names: Mapping[str, str]) -> Any:
    """A table whose keys have their present names, in the same order."""
    if not isinstance(table, Mapping):
        return table
    return {names.get(key, key): value for key, value in table.items()}
