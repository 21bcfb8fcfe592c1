"""A table as TOML, to be read and to be run again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
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
    table = {name: value for name, value in design.items() if value not in ([], {})}
    if design["tune"] is None:
        table["tune"] = False
    return to_toml(table)


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(_fields_without_none(value))
    if isinstance(value, list | tuple):
        return list(map(_without_none, value))
    return value


def _fields_without_none(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if value is not None:
            yield name, _without_none(value)
        elif name in OFF_WHEN_NONE:
            yield name, False


def _table_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    sections = _section_names(table)
    for name, value in table.items():
        if name not in sections:
            lines.append(_field_line(name, value))
    for name in sections:
        inner = (*path, _format_key(name))
        lines += ["", f"[{'.'.join(inner)}]", *_table_lines(table[name], inner)]
    return lines


def _section_names(table: Mapping[str, Any]) -> list[str]:
    """The inner tables that get lines of their own: all from the first long one on, for a line
    after a section would belong to it.
    """
    sections: list[str] = []
    for name, value in table.items():
        is_long = len(_field_line(name, value)) > WIDTH
        if isinstance(value, Mapping) and (sections or is_long):
            sections.append(name)
    return sections


def _field_line(name: str, value: Any) -> str:
    return f"{_format_key(name)} = {inline_toml(value)}"


def _format_key(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    return _quote_text(name)


def inline_toml(value: Any) -> str:
    """A value as it stands in one line, after a key."""
    match value:
        case str():
            return _quote_text(value)
        case Mapping():
            inner = ", ".join(_field_line(name, one) for name, one in value.items())
            if inner:
                return f"{{ {inner} }}"
            return "{}"
        case Sequence():
            return f"[{', '.join(map(inline_toml, value))}]"
        case _:
            return json.dumps(value)


def _quote_text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
