"""A table as TOML, to be read and to be run again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 110  # of a line; a longer table gets lines of its own
OFF_WHEN_NONE = {"clip"}  # what None switches off: left out, it would be on


def to_toml(table: Mapping[str, Any]) -> str:
    """Plain values first, then tables in their order, the long ones as sections; what is None
    is left out.
    """
    return "\n".join(_table_lines(_without_none(table), ())).strip() + "\n"


def design_toml(design: Mapping[str, Any]) -> str:
    """A design as it was read, which read again is the same."""
    said = {name: value for name, value in design.items() if value not in ([], {})}
    return to_toml({**said, "tune": design["tune"] if design["tune"] is not None else False})


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        told = {
            name: False if inner is None and name in OFF_WHEN_NONE else inner
            for name, inner in value.items()
        }
        return {name: _without_none(inner) for name, inner in told.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_without_none(inner) for inner in value]
    return value


def _table_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    told = {name: f"{_format_key(name)} = {_format_value(value)}" for name, value in table.items()}
    inner_tables = [name for name, value in table.items() if isinstance(value, Mapping)]
    long = next(
        (place for place, name in enumerate(inner_tables) if len(told[name]) > WIDTH),
        len(inner_tables),
    )
    # all from the first long one on: a line after a section would belong to it
    sections = set(inner_tables[long:])
    lines = [line for name, line in told.items() if name not in sections]
    for name, value in table.items():
        if name in sections:
            inner = (*path, _format_key(name))
            lines += ["", f"[{'.'.join(inner)}]", *_table_lines(value, inner)]
    return lines


def _format_key(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    return _quote_text(name)


def _format_value(value: Any) -> str:
    match value:
        case str():
            return _quote_text(value)
        case Mapping():
            inner = ", ".join(
                f"{_format_key(name)} = {_format_value(one)}" for name, one in value.items()
            )
            if inner:
                return f"{{ {inner} }}"
            return "{}"
        case Sequence():
            return f"[{', '.join(map(_format_value, value))}]"
        case _:
            return json.dumps(value)


def _quote_text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
