"""What an anonymous report does not say: places, files, machine, people and dates; one function
for all formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import filterfalse
from typing import Any

from paribus.report.redactions import Redactions

MACHINE_KEYS = (  # of an environment: what tells of a place
    "processor",
    "machine",
    "system",
    "cpu_capability",
    "device",
    "n_threads",
    "omp_num_threads",
    "aten_cpu_capability",
)
MACHINE_LINES = ("threads", "device")  # of the control table
FREE_TEXT_KEYS = (
    "reason",
    "note",
    "allowed",
    "allow",
    "question",
    "reference",
    "remark",
    "refused",
    "prompts",
)  # texts of people
PATH_KEYS = ("path", "paths")  # where a spec names files
_ERROR = re.compile(r"\w+: ")


def redact_value(value: Any, redactions: Redactions, is_free: bool = False) -> Any:
    """A value with no path, file name, machine or person in any text of it."""
    if isinstance(value, str):
        return redactions.redact_text(value, is_free)
    if isinstance(value, Mapping) and _names_files(value):
        rest = dict(value)
        del rest["values"]
        return {
            **redact_value(rest, redactions, is_free),
            "values": _file_values(value, redactions),
        }
    if isinstance(value, Mapping):
        return _redact_mapping(value, redactions, is_free)
    if isinstance(value, list):
        lines = filterfalse(_is_machine_line, value)
        return [redact_value(inner, redactions, is_free) for inner in lines]
    if isinstance(value, tuple):
        items = [redact_value(inner, redactions, is_free) for inner in value]
        if type(value) is not tuple:
            return type(value)(*items)
        return tuple(items)
    if is_dataclass(value) and not isinstance(value, type):
        return _redact_dataclass(value, redactions)
    return value


def _redact_mapping(
    table: Mapping[Any, Any], redactions: Redactions, is_free: bool
) -> dict[Any, Any]:
    redacted = {}
    for key, inner in _without_machine(table).items():
        redacted[_redact_key(key, redactions)] = _redact_field(key, inner, redactions, is_free)
    return redacted


def _names_files(line: Mapping[str, Any]) -> bool:
    """Is it a line of the control table whose values are files?"""
    return (
        "mark" in line
        and str(line.get("path")).rpartition(".")[2] in PATH_KEYS
        and isinstance(line.get("values"), dict)
    )


def _file_values(line: Mapping[str, Any], redactions: Redactions) -> dict[str, Any]:
    labels = {}
    for arm, value in line["values"].items():
        labels[_redact_key(arm, redactions)] = redactions.redact_file(value)
    return labels


def _redact_dataclass(value: Any, redactions: Redactions) -> Any:
    redacted = {}
    for field in fields(value):
        if field.init:
            own = getattr(value, field.name)
            redacted[field.name] = _redact_field(field.name, own, redactions, False)
    return replace(value, **redacted)


def _redact_key(key: Any, redactions: Redactions) -> Any:
    if key in redactions.arms:
        return redactions.redact_text(key)
    return key


def _redact_field(key: Any, value: Any, redactions: Redactions, is_free: bool) -> Any:
    if key in PATH_KEYS and (isinstance(value, list | tuple) or value in redactions.files):
        return redactions.redact_file(value)
    return redact_value(value, redactions, is_free or key in FREE_TEXT_KEYS)


def redact_row(row: Mapping[str, Any], redactions: Redactions) -> dict[str, Any]:
    """A row of a run; of the place where its run lay nothing is left in its reason."""
    return redact_value({**row, "reason": _without_folder(row["reason"], row["run"])}, redactions)


def _without_folder(reason: str, run: str) -> str:
    before, name, after = reason.partition(run)
    if not name:
        return reason
    error = _ERROR.match(before)
    if error:
        return f"{error[0]}{run}{after}"
    return f"{run}{after}"


def _is_machine_line(value: Any) -> bool:
    """Is it a line of the control table that tells of the machine?"""
    return isinstance(value, Mapping) and "mark" in value and value.get("path") in MACHINE_LINES


def _without_machine(table: Mapping[str, Any]) -> dict[str, Any]:
    """An environment without what tells of a place; any other table as it is."""
    if "torch" not in table:
        return dict(table)
    rest = dict(table)
    for key in MACHINE_KEYS:
        rest.pop(key, None)
    return rest
