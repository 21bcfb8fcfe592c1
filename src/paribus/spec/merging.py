"""Merges tables of a spec: one over another, a value at a dotted path, a kind from the default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from pydantic import BaseModel

from paribus.errors import SpecError
from paribus.spec.tree import field_models, fields_of, kind_of

Table = dict[str, Any]

MAX_KEYS_SHOWN = 5  # keys of a table that a message names
MAX_PATH_CHARS_SHOWN = 64
MAX_DEPTH = 64  # nesting of tables and lists; real specs need less than a tenth


def in_setting_order(paths: Iterable[str]) -> list[str]:
    """Dotted paths in the order in which `set_at_path` obeys all of them.

    Outer tables come before inner fields and `kind` before its siblings, because setting them
    later would discard what was set inside.
    """
    return sorted(paths, key=_setting_rank)


def _setting_rank(path: str) -> tuple[int, bool]:
    names = path.split(".")
    return len(names), names[-1] != "kind"


def merge_tables(base: Table, override: Mapping[str, Any]) -> Table:
    """Recursively lays `override` over `base`.

    Tables of the same kind are merged; anything else is replaced. A string `"x"` counts as
    `{kind = "x"}`.
    """
    result = dict(base)
    for key, value in override.items():
        result[key] = _merge_value(result.get(key), value)
    return result


def _merge_value(old: Any, new: Any) -> Any:
    if isinstance(old, str) and isinstance(new, Mapping) and new.get("kind", old) == old:
        old = {"kind": old}
    if not isinstance(old, dict):
        return new
    if "kind" in old and old["kind"] == new:
        return old
    if not isinstance(new, Mapping):
        return new
    is_same_kind = new.get("kind", old.get("kind")) == old.get("kind")
    if is_same_kind:
        return merge_tables(old, new)
    return new


def fill_default_kinds(table: Table, model: type[BaseModel]) -> Table:
    """Gives each table without `kind` the kind of its field's default: `norm = { eps = 1e-6 }`
    is a layer norm.
    """
    result = dict(table)
    for name, field in fields_of(model).items():
        value = result.get(name)
        if not isinstance(value, Mapping):
            continue
        if isinstance(field.default, BaseModel):
            default = field.default
        else:
            default = None
        if default is not None and "kind" in type(default).model_fields:
            value = {"kind": kind_of(type(default)), **value}
        for inner in field_models(model)[name]:
            if kind_of(inner) in (None, value.get("kind")):
                value = fill_default_kinds(dict(value), inner)
        result[name] = value
    return result


def set_at_path(table: Table, path: str, value: Any) -> None:
    """Sets the value at a dotted path, in place; a table is merged with the one that is there."""
    names = path.split(".")
    outer = names[:-1]
    if len(names) > MAX_DEPTH:
        raise SpecError(
            f"{path[:MAX_PATH_CHARS_SHOWN]}… has {len(names):,} names in a row; no field lies"
            f" deeper than {MAX_DEPTH}"
        )
    require_plain_tables(value, path)
    change: Any = value
    for name in reversed(names):
        change = {name: change}
    node: Any = table
    for depth, name in enumerate(outer, 1):
        if isinstance(node, dict):
            node = node.get(name, {})
        if not isinstance(node, dict | str):
            raise SpecError(
                f"{'.'.join(outer[:depth])} is {node!r}, which has no fields to set as {path};"
                " set it as a whole"
            )
    result = merge_tables(table, change)
    refuse_empty_table(result, change)
    table.update(result)


def refuse_empty_table(
    result: Mapping[str, Any], change: Mapping[str, Any], prefix: str = ""
) -> None:
    """SpecError if the change sets a non-empty table to {}, which merging would ignore.

    `result` is what came out of laying `change` over a table.
    """
    for name, value in change.items():
        path = f"{prefix}{name}"
        node = result[name]
        if not isinstance(value, Mapping) or not isinstance(node, Mapping):
            continue
        if value:
            refuse_empty_table(node, value, f"{path}.")
        elif node:
            keys = ", ".join(map(str, list(node)[:MAX_KEYS_SHOWN]))
            raise SpecError(
                f"{path} is set to {{}}, an empty table, which changes nothing of what is there"
                f" ({keys}); set the keys inside, or change them in the file"
            )


def require_plain_tables(table: Any, where: str) -> None:
    """SpecError if a key is no text, or if tables and lists are nested deeper than MAX_DEPTH."""
    level = [table]
    for _ in range(MAX_DEPTH):
        for key in chain.from_iterable(one for one in level if isinstance(one, Mapping)):
            if not isinstance(key, str):
                raise SpecError(
                    f"{where} has the key {key!r} ({type(key).__name__}); write keys as text"
                )
        level = list(chain.from_iterable(map(_inner_values, level)))
        if not level:
            return
    raise SpecError(
        f"{where} nests tables or lists more than {MAX_DEPTH} deep; no field is that deep"
    )


def _inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    return ()
