"""Where the files lie that a run file or a design names: each path is relative to the file that
it stands in.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paribus.spec.design import level_name
from paribus.spec.task_readers import READERS

Table = dict[str, Any]
Keys = tuple[str, ...]
# of a run
FILES: tuple[Keys, ...] = (
    ("corpus", "sources", "paths"),
    ("corpus", "tokenizer", "path"),
    ("begin",),
    ("begin", "name"),
)
TASK_FILES = ("paths", "train", "valid")  # of a task


def place_run(table: Mapping[str, Any], folder: Path) -> Table:
    """A run's table from a file in `folder`, with paths that lead to the same files from the
    working directory.
    """
    return {key: _place_value(value, folder, (key,)) for key, value in table.items()}


def place_task(table: Mapping[str, Any], folder: Path) -> Table:
    """A task's table from a file in `folder`, with paths that lead to the same files from the
    working directory.
    """
    result = dict(table)
    for key in TASK_FILES:
        if key in result:
            result[key] = _place_paths(result[key], folder)
    return result


def _place_paths(value: Any, folder: Path) -> Any:
    if isinstance(value, list | tuple):
        return [_place_paths(inner, folder) for inner in value]
    if isinstance(value, str):
        return _join_folder(value, folder)
    return value


def place_design(table: Mapping[str, Any], folder: Path) -> Table:
    """A design's table from a file in `folder`; a base that is named is looked for there by
    whoever opens it.
    """
    result = dict(table)
    if isinstance(result.get("base"), Mapping):
        result["base"] = place_run(result["base"], folder)
    for key, place in (("arms", place_run), ("factors", _place_factor), ("scales", place_design)):
        if isinstance(result.get(key), Mapping):
            result[key] = _place_each(result[key], place, folder)
    if isinstance(result.get("tune"), Mapping) and "rates" in result["tune"]:
        result["tune"] = {**result["tune"], "rates": _place_paths(result["tune"]["rates"], folder)}
    if isinstance(result.get("primary"), Mapping):
        result["primary"] = dict(result["primary"])
        if "measure" in result["primary"]:
            result["primary"]["measure"] = _place_yardstick(result["primary"]["measure"], folder)
    if isinstance(result.get("others"), list):
        result["others"] = [_place_yardstick(one, folder) for one in result["others"]]
    return result


def _place_yardstick(yardstick: Any, folder: Path) -> Any:
    """A yardstick whose task, if it is one, lies where the design does."""
    if not isinstance(yardstick, Mapping) or "task" not in yardstick:
        return yardstick
    return {**yardstick, "task": place_task_source(yardstick["task"], folder)}


def place_task_source(source: Any, folder: Path) -> Any:
    """A task as a design names it, with paths that lead to the same files from the working
    directory: a table, a file, or `READER:PATH`. The name of a built-in task is left as it is.
    """
    if isinstance(source, Mapping):
        return place_task(source, folder)
    if not isinstance(source, str):
        return source
    reader, colon, path = source.partition(":")
    if colon and reader in READERS:
        return f"{reader}:{_join_folder(path, folder)}"
    if Path(source).suffix in (".toml", ".json"):
        return _join_folder(source, folder)
    return source


def _place_each(
    tables: Mapping[str, Any], place: Callable[[Mapping[str, Any], Path], Table], folder: Path
) -> Table:
    """Tables by name, each with its files placed; what is no table is left as it is."""
    result: Table = dict(tables)
    for name, own in tables.items():
        if isinstance(own, Mapping):
            result[name] = place(own, folder)
    return result


def _place_factor(factor: Mapping[str, Any], folder: Path) -> Table:
    levels, path = factor.get("levels"), factor.get("path")
    if isinstance(levels, Mapping):
        return {**factor, "levels": _place_each(levels, place_run, folder)}
    if (
        isinstance(levels, list)
        and isinstance(path, str)
        and _names_files(levels, tuple(path.split(".")))
    ):
        return _place_values(levels, path, folder) or dict(factor)
    return dict(factor)


def _place_values(values: list[Any], path: str, folder: Path) -> Table | None:
    """The values of a path as levels by name, so that arms are called by what was written,
    wherever it lies.

    None where two would be called alike, which is refused when the design is read.
    """
    levels: Table = {}
    for value in values:
        table: Any = value
        for key in reversed(path.split(".")):
            table = {key: table}
        levels[level_name(value)] = place_run(table, folder)
    if len(levels) == len(values):
        return {"levels": levels}
    return None


def _names_files(value: Any, at: Keys) -> bool:
    """Whether a value at a path of a run has the path of a file in it."""
    if _in_run(at) in FILES:
        return True
    if isinstance(value, Mapping):
        return any(_names_files(inner, (*at, key)) for key, inner in value.items())
    return isinstance(value, list) and any(_names_files(inner, at) for inner in value)


def _place_value(value: Any, folder: Path, at: Keys) -> Any:
    if isinstance(value, Mapping):
        return {key: _place_value(inner, folder, (*at, key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_place_value(inner, folder, at) for inner in value]
    if _in_run(at) in FILES and isinstance(value, str):
        if at[-1] in ("begin", "name") and "/" not in value:
            return value  # the name of a run
        return _join_folder(value, folder)
    return value


def _in_run(at: Keys) -> Keys:
    """A path as it is in a run of one stage: without the stage that it lies in."""
    if at[:1] != ("stages",):
        return at
    inner = at[1:]
    if inner and inner[0].isdigit():
        return inner[1:]
    return inner


def _join_folder(path: str, folder: Path) -> str:
    if not path or path.startswith("~") or Path(path).is_absolute() or folder == Path():
        return path
    # What looks like a pattern in the name of the folder is none.
    before = glob.escape(str(folder)) if glob.has_magic(path) else str(folder)
    return str(Path(before) / path)
