"""A design as it is read, from a file or a mapping at one of its scales, and whether it can be
meant as written.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paribus.errors import SpecError
from paribus.spec.arm_faults import ARM_NAME as ARM_NAME
from paribus.spec.design import MIN_SEEDS as MIN_SEEDS
from paribus.spec.design import Design, Table
from paribus.spec.design_base import with_base
from paribus.spec.design_faults import design_faults
from paribus.spec.merging import (
    fill_default_kinds,
    in_setting_order,
    merge_tables,
    refuse_empty_table,
    require_plain_tables,
    set_at_path,
)
from paribus.spec.places import place_design
from paribus.spec.reading import describe_faults, read_table
from paribus.spec.scales import take_scales
from paribus.spec.stages import indexed_stages
from paribus.spec.task_loading import make_room_for_task, open_tasks
from paribus.spec.unknown_keys import unknown_keys

DESIGN_KEYS = (*Design.model_fields, "scales")


def load_design(
    source: str | Path | Mapping[str, Any],
    scale: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Design:
    """A design from a TOML or JSON file or a mapping, at one of the scales it has, with changes
    by path.
    """
    if isinstance(source, Mapping):
        require_plain_tables(source, "the table")
    if isinstance(source, Mapping):
        table = copy.deepcopy(dict(source))
    else:
        table = _read_design_file(Path(source))
    folder = Path() if isinstance(source, Mapping) else Path(source).parent
    problems = list(_unknown_key_faults(table))
    for key in set(table) - set(DESIGN_KEYS):
        del table[key]
    table = open_tasks(_index_stages(with_base(table, folder)))
    table = open_tasks(_apply_scale(table, scale, folder))
    for path in in_setting_order(changes or {}):
        make_room_for_task(table, path, (changes or {})[path])
        set_at_path(table, path, (changes or {})[path])
        table = open_tasks(_index_stages(with_base(table, Path())))
    try:
        design = Design.model_validate(fill_default_kinds(table, Design))
    except ValidationError as fault:
        raise SpecError([*problems, *describe_faults(fault, table, Design)]) from None
    problems.extend(design_faults(design))
    if problems:
        raise SpecError(problems)
    return design


def require_valid_design(design: Design) -> None:
    """SpecError lists what is wrong with a design, however it was made."""
    problems = list(design_faults(design))
    if problems:
        raise SpecError(problems)


def _read_design_file(path: Path) -> Table:
    if path.suffix not in (".toml", ".json"):
        raise SpecError(f"{path} is no .toml or .json file; give one that describes a design")
    return place_design(read_table(path, "give a file that describes a design"), path.parent)


def _unknown_key_faults(table: Table) -> Iterator[str]:
    yield from unknown_keys("", table, DESIGN_KEYS)


def _index_stages(table: Table) -> Table:
    """A design's table in which the stages of its runs lie by their number."""
    result = dict(table)
    if isinstance(result.get("base"), Mapping):
        result["base"] = indexed_stages(result["base"])
    if isinstance(result.get("arms"), Mapping):
        result["arms"] = _each_indexed(result["arms"])
    factors = result.get("factors")
    if isinstance(factors, Mapping):
        result["factors"] = {name: _index_levels(factor) for name, factor in factors.items()}
    return result


def _index_levels(factor: Any) -> Any:
    if isinstance(factor, Mapping) and isinstance(factor.get("levels"), Mapping):
        return {**factor, "levels": _each_indexed(factor["levels"])}
    return factor


def _each_indexed(tables: Mapping[str, Any]) -> Table:
    """Tables of runs by name; what is no table is left as it is."""
    result: Table = {}
    for name, own in tables.items():
        result[name] = indexed_stages(own) if isinstance(own, Mapping) else own
    return result


def _apply_scale(table: Table, scale: str | None, folder: Path) -> Table:
    """The scale's own table laid over the rest."""
    scales = take_scales(table)
    if scale is None:
        return table
    if scale not in scales:
        if scales:
            there = f"this design has {', '.join(scales)}"
        else:
            there = "this design has none: leave it out"
        raise SpecError(f"scale is {scale!r}; {there}")
    problems = [f"scales.{scale}.{problem}" for problem in _unknown_key_faults(dict(scales[scale]))]
    if problems:
        raise SpecError(problems)
    own = _index_stages(dict(scales[scale]))
    if isinstance(own.get("base"), str):  # one that is named stands in the other's place
        table.pop("base", None)
    own = with_base(own, folder)
    result = merge_tables(table, own)
    refuse_empty_table(result, own, f"scales.{scale}.")
    return result
