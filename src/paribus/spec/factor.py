"""A factor of a design: its levels, what each is called, and which paths they write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from paribus.spec.base import Spec

Table = dict[str, Any]
LEVEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}", re.ASCII)  # an arm's joins them by '+'


def _require_level_tables(levels: Mapping[str, Any], path: str | None) -> None:
    """ValueError unless levels by name are tables of a run, and no path says otherwise."""
    if path is not None:
        raise ValueError(
            f"is a table of levels beside the path {path!r}; leave the path out, or list the values"
            " at it"
        )
    for name, table in levels.items():
        if not LEVEL_NAME.fullmatch(str(name)):
            raise ValueError(
                f"has a level {name!r}; use up to 40 letters, digits, spaces, '.', '_' or '-'"
            )
        if not isinstance(table, Mapping):
            raise ValueError(
                f"has {name} = {table!r}; write a table, as {{ architecture = {{ mask = 'causal'"
                " } }"
            )


def level_name(value: Any) -> str:
    """What a level is called that is a value: its kind or its text, in letters that an arm's
    name may have.
    """
    if isinstance(value, Mapping):
        name = value.get("kind", str(value))
    else:
        name = str(value)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", str(name)).strip("-._") or "level"


class Factor(Spec):
    """One factor of a factorial: levels by name, each a table laid over the base, or the values
    of one path.
    """

    path: str | None = None
    """The path whose values `levels` lists. Leave it out where levels are tables by name."""
    levels: Annotated[Any, Field()]
    """At least two levels: a list of values at `path`, or tables by name, each laid over the
    base.
    """

    @field_validator("levels")
    @classmethod
    def _require_levels(cls, levels: Any, info: ValidationInfo) -> Any:
        path = info.data.get("path")
        if not isinstance(levels, list | tuple | Mapping) or len(levels) < 2:
            raise ValueError(
                f"is {levels!r}; give at least two levels: a list beside a path, or a table of"
                " tables"
            )
        if isinstance(levels, Mapping):
            _require_level_tables(levels, path)
            return levels
        if path is None:
            raise ValueError(
                "is a list without a path; say at which path these are the values, or name each a"
                " table"
            )
        names = list(map(level_name, levels))
        if len(set(names)) < len(names):
            raise ValueError(
                f"has values that would get the same name: {', '.join(names)}; name each in a table"
            )
        return levels


def level_paths(factor: Factor) -> list[str]:
    """The paths that a factor's levels write."""
    if factor.path is not None:
        return [factor.path]
    paths: dict[str, None] = {}
    for table in level_tables(factor).values():
        paths |= dict.fromkeys(leaves_of(table))
    return list(paths)


def level_tables(factor: Factor) -> dict[str, Table]:
    if isinstance(factor.levels, Mapping):
        return {name: dict(table) for name, table in factor.levels.items()}
    assert factor.path is not None
    levels: dict[str, Table] = {}
    for value in factor.levels:
        table: Any = value
        for part in reversed(factor.path.split(".")):
            table = {part: table}
        levels[level_name(value)] = table
    return levels


def leaves_of(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every leaf of a nested table by its dotted path; lists and empty tables are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in table.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping) and value:
            leaves |= leaves_of(value, path)
        else:
            leaves[path] = value
    return leaves
