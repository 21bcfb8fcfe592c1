"""The formats of plan.json, and how an older one becomes the present one.

1  no number. The files of the study are not listed with their sha256.
2  the files are listed. The edition of the verdict, and fields of a design that came later, may
   be missing.
3  every field that is read is there, but for `contrasts` and `lengths` of a design that does not
   use them, and `series` of a study that stands alone.
4  fields of specs have their present names (`spec_formats`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.record.spec_formats import (
    convert_design_tables,
    convert_mask,
    convert_run_tables,
    present_path,
)

PLAN_FORMAT = 4
LISTED_FORMAT = 2  # from here on the files of a study are listed with their sha256
REPAIR = "`paribus run DESIGN`, the command the study was run by, writes it again"
_FIRST = 1  # the format of a plan without a number
# Fields that older plans lack, with what they meant before they could be declared.
_LATER_FIELDS: Mapping[str, Any] = {"edition": 1, "scale": None, "reference": None}
_LATER_DESIGN: Mapping[str, Any] = {"comparisons": None, "equal_noise": False, "budget": None}
_LATER_PRIMARY: Mapping[str, Any] = {"test": "two-sided"}
_LATER_TUNE: Mapping[str, Any] = {"bracket": False}

Table = dict[str, Any]


def plan_format(table: Mapping[str, Any], path: Path) -> int:
    """The number of the format a plan was written in; RecordError where this version cannot
    read it.
    """
    number = table.get("format", _FIRST)
    if isinstance(number, bool) or not isinstance(number, int) or number < _FIRST:
        raise RecordError(
            f"{path} has the format {number!r}, and formats are {_FIRST} to {PLAN_FORMAT}; {REPAIR}"
        )
    require_no_newer_format(number, path)
    return number


def require_no_newer_format(number: Any, path: Path) -> None:
    """RecordError where a plan was written by a newer version of paribus."""
    if isinstance(number, int) and number > PLAN_FORMAT:
        raise RecordError(
            f"{path} is of format {number}, and this version of paribus reads {_FIRST} to"
            f" {PLAN_FORMAT}; use the version that wrote it, or a newer one"
        )


def convert_plan(table: Mapping[str, Any], number: int) -> Table:
    """A plan of an older format as one of the present format; of the present format, as it is.

    What is not of its shape stays as it is, for the reader to refuse it by name.
    """
    plan = dict(table)
    for before in range(number, PLAN_FORMAT):
        plan = {**_STEPS[before](plan), "format": before + 1}
    return plan


def convert_design(design: Any) -> Any:
    """A design of format 1 or 2 as one of format 3."""
    if not isinstance(design, Mapping):
        return design
    new_design = _with_missing_fields(design, _LATER_DESIGN)
    for name, later in (("primary", _LATER_PRIMARY), ("tune", _LATER_TUNE)):
        if isinstance(design.get(name), Mapping):
            new_design[name] = _with_missing_fields(design[name], later)
    return new_design


def _with_missing_fields(table: Mapping[str, Any], later: Mapping[str, Any]) -> Table:
    """A table, and after its own fields those of `later` that it lacks."""
    return {**table, **{name: value for name, value in later.items() if name not in table}}


def _from_first(table: Table) -> Table:
    """Format 2 lists the files beside the plan; the plan itself is the same."""
    return table


def _from_second(table: Table) -> Table:
    new_table = _with_missing_fields(table, _LATER_FIELDS)
    if "design" in table:
        new_table["design"] = convert_design(table["design"])
    return new_table


def _from_third(table: Table) -> Table:
    new_table = dict(table)
    if "design" in table:
        new_table["design"] = convert_design_tables(table["design"])
    if isinstance(table.get("arms"), Mapping):
        new_table["arms"] = {name: _convert_arm(arm) for name, arm in table["arms"].items()}
    if isinstance(table.get("control"), list):
        new_table["control"] = list(map(_convert_line, table["control"]))
    if isinstance(table.get("declared"), list):
        new_table["declared"] = list(map(_convert_path, table["declared"]))
    return new_table


def _convert_arm(arm: Any) -> Any:
    if not isinstance(arm, Mapping) or "run" not in arm:
        return arm
    return {**arm, "run": convert_run_tables(arm["run"])}


def _convert_line(line: Any) -> Any:
    """A line of the control table, whose field and mask rules have their present names."""
    if not isinstance(line, Mapping) or "path" not in line:
        return line
    new_line = {**line, "path": _convert_path(line["path"])}
    if isinstance(line.get("values"), Mapping):
        new_line["values"] = {arm: convert_mask(value) for arm, value in line["values"].items()}
    return new_line


def _convert_path(path: Any) -> Any:
    if isinstance(path, str):
        return present_path(path)
    return path


_STEPS: Mapping[int, Callable[[Table], Table]] = {
    1: _from_first,
    2: _from_second,
    3: _from_third,
}
