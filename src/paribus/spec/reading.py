"""Reads a spec from TOML, JSON or a mapping, fills it from a preset, and reports all errors at
once.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paribus.errors import SpecError
from paribus.files import MAX_SPEC_BYTES, looked_for, read_text
from paribus.spec.architecture import Architecture
from paribus.spec.fault_messages import UNKNOWN_KEY, written_path
from paribus.spec.fault_messages import describe_faults as describe_faults
from paribus.spec.merging import (
    Table,
    fill_default_kinds,
    in_setting_order,
    merge_tables,
    require_plain_tables,
    set_at_path,
)
from paribus.spec.resolved import resolve
from paribus.spec.spelling import word_advice

# Fields that can be given without the table they are in.
SHORT_NAMES = {
    "n_heads": "attention.n_heads",
    "n_kv_heads": "attention.n_kv_heads",
    "d_head": "attention.d_head",
    "d_ff": "feed_forward.d_ff",
}
SPEC_FILE = "spec.json"
# No other field's validity depends on these.
INDEPENDENT_FIELDS = (
    "mask",
    "norm",
    "placement",
    "embedding",
    "head",
    "init",
    "dropout",
)


@cache
def presets() -> tuple[str, ...]:
    """The names of all presets."""
    folder = resources.files("paribus.spec") / "presets"
    names: list[str] = []
    for entry in folder.iterdir():
        if entry.name.endswith(".toml"):
            names.append(entry.name.removesuffix(".toml"))
    return tuple(sorted(names))


def load(
    source: str | Path | Mapping[str, Any],
    *,
    n_layers: int | None = None,
    d_model: int | None = None,
    n_heads: int | None = None,
    n_kv_heads: int | None = None,
    d_head: int | None = None,
    d_ff: int | None = None,
    n_vocab: int | None = None,
    max_length: int | None = None,
    mask: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Architecture:
    """An architecture from a preset's name, a TOML or JSON file, a checkpoint folder or a
    mapping.

    The keyword arguments change it; None keeps the value. So do `changes`, whose keys are dotted
    paths: `{"feed_forward.gated": True}`. They win over the other arguments.
    """
    sizes = {
        "n_layers": n_layers,
        "d_model": d_model,
        "n_heads": n_heads,
        "n_kv_heads": n_kv_heads,
        "d_head": d_head,
        "d_ff": d_ff,
        "n_vocab": n_vocab,
        "max_length": max_length,
        "mask": mask,
    }
    values_by_path = _values_by_path(sizes, changes or {})
    if "preset" in values_by_path:
        raise SpecError(
            f"preset cannot be changed here; load {values_by_path['preset']!r} itself, or a table"
            " with preset = …"
        )
    table = merged_table(source)
    for path in in_setting_order(values_by_path):
        set_at_path(table, path, values_by_path[path])
    return parse_architecture(table)


def _values_by_path(sizes: Mapping[str, int | str | None], changes: Mapping[str, Any]) -> Table:
    """Sizes that are not None and changes, both by dotted path; changes win."""
    values_by_path: Table = {}
    for name, value in sizes.items():
        if value is not None:
            values_by_path[SHORT_NAMES.get(name, name)] = value
    for name, value in changes.items():
        values_by_path[SHORT_NAMES.get(name, name)] = value
    return values_by_path


def parse_architecture(table: Mapping[str, Any]) -> Architecture:
    """Validates a table and checks that it resolves; SpecError lists every error."""
    full_table = _with_equal_encoder(_merge_preset(dict(table)))
    full_table = fill_default_kinds(full_table, Architecture)
    try:
        spec = Architecture.model_validate(full_table)
    except ValidationError as fault:
        problems = list(describe_faults(fault, full_table, Architecture))
        problems.extend(_further_faults(fault, full_table))
        raise SpecError(problems) from None
    resolve(spec)
    return spec


def _with_equal_encoder(table: Table) -> Table:
    """An encoder has as many layers as the main stack, unless somebody wrote how many."""
    encoder, n_layers = table.get("encoder"), table.get("n_layers")
    if isinstance(encoder, Mapping) and "n_layers" not in encoder and isinstance(n_layers, int):
        return {**table, "encoder": {"n_layers": n_layers, **encoder}}
    return table


def merged_table(source: str | Path | Mapping[str, Any]) -> Table:
    """The source merged over its preset, not validated."""
    if isinstance(source, Mapping):
        require_plain_tables(source, "the table")
        return _merge_preset(copy.deepcopy(dict(source)))
    path = Path(source)
    if str(source) in presets():
        return _preset_table(str(source))
    if _is_folder(path):
        path = path / SPEC_FILE
    if path.suffix not in (".toml", ".json"):
        advice = word_advice(str(source), presets())
        raise SpecError(
            f"{source} is neither a preset nor a .toml or .json file; {advice}presets are"
            f" {', '.join(presets())}"
        )
    return _merge_preset(read_table(path))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # such as a name longer than any file's
        return False


def read_table(path: Path, remedy_text: str = "give a preset or a readable file") -> Table:
    """The content of a TOML or JSON file; `remedy_text` ends the error message if it cannot be
    read.
    """
    try:
        text = read_text(path, MAX_SPEC_BYTES)
        if path.suffix == ".toml":
            table = tomllib.loads(text)
        else:
            table = json.loads(text, object_pairs_hook=dict_of_unique_keys)
    except OSError as fault:
        raise SpecError(
            f"{path} cannot be read: {fault.strerror}; {remedy_text}{looked_for(path)}"
        ) from fault
    except UnicodeDecodeError as fault:
        raise SpecError(
            f"{path} is not UTF-8 at byte {fault.start}; save it as UTF-8 text"
        ) from fault
    except (ValueError, RecursionError) as fault:
        raise SpecError(
            f"{path} cannot be parsed: {fault}; correct the {path.suffix[1:].upper()} there"
        ) from fault
    if not isinstance(table, dict):
        raise SpecError(
            f"{path} holds a {type(table).__name__}, not a table; write key = value pairs"
        )
    require_plain_tables(table, str(path))
    return table


def dict_of_unique_keys(pairs: list[tuple[str, Any]]) -> Table:
    """An `object_pairs_hook` for `json.loads` that raises ValueError if a key appears twice.

    TOML refuses this by itself.
    """
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {_first_duplicate(names)!r} appears twice")
    return table


def _first_duplicate(names: list[str]) -> str:
    """The first name that occurs more than once; there must be one."""
    counts = Counter(names)
    return next(name for name in names if counts[name] > 1)


def _preset_table(name: str) -> Table:
    return copy.deepcopy(_read_preset(name))


@cache
def _read_preset(name: str) -> Table:
    text = (resources.files("paribus.spec") / "presets" / f"{name}.toml").read_text("utf-8")
    return _merge_preset(tomllib.loads(text))


def _merge_preset(table: Table) -> Table:
    """The table merged over the preset that it names as `preset`, if it names one."""
    if "preset" not in table:
        return table
    name = table.pop("preset")
    if name not in presets():
        advice = word_advice(str(name), presets())
        raise SpecError(
            f"preset is {name!r}, which does not exist; {advice}presets are {', '.join(presets())}"
        )
    return merge_tables(_preset_table(name), table)


def _further_faults(fault: ValidationError, table: Table) -> Iterator[str]:
    """Errors that appear only once these are removed, so that the user sees all at once."""
    rest = copy.deepcopy(table)
    for error in fault.errors():
        path = written_path(error["loc"], rest, Architecture)
        if (
            error["type"] != UNKNOWN_KEY
            and path[0] not in INDEPENDENT_FIELDS
            and path != ("encoder", "mask")
        ):
            return  # the correct value could change which other fields are valid
        _remove_path(rest, path)
    try:
        resolve(Architecture.model_validate(rest))
    except SpecError as further:
        yield from further.problems
    except ValidationError:
        pass  # already reported


def _remove_path(table: Table, path: tuple[str | int, ...]) -> None:
    """Removes the value at a path, in place; a path that does not exist is left alone."""
    node: Any = table
    for part in path[:-1]:
        if not isinstance(node, dict):
            return
        node = node.get(part, {})
    if isinstance(node, dict):
        node.pop(path[-1], None)
