"""From what a person wrote to a spec: TOML, JSON or a mapping, a preset beneath it, all faults
at once.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict, Unpack

from pydantic import BaseModel, ValidationError

from paribus.errors import SpecError
from paribus.files import MAX_SPEC_BYTES, looked_for, read_text
from paribus.spec.architecture import Architecture
from paribus.spec.fault_messages import UNKNOWN_KEY, written_path
from paribus.spec.fault_messages import describe_faults as describe_faults
from paribus.spec.resolved import resolve
from paribus.spec.spelling import word_advice
from paribus.spec.tree import kind_of, models_in

Table = dict[str, Any]

# The sizes people change most, by their own name wherever they live.
SHORT_NAMES = {
    "n_heads": "attention.n_heads",
    "n_kv_heads": "attention.n_kv_heads",
    "d_head": "attention.d_head",
    "d_ff": "feed_forward.d_ff",
}
SPEC_FILE = "spec.json"
MAX_KEYS_SHOWN = 5  # keys of a table that a message names
MAX_DEPTH = 64  # tables and lists in one another; no spec needs a tenth of it
INDEPENDENT_FIELDS = (
    "mask",
    "norm",
    "placement",
    "embedding",
    "head",
    "init",
    "dropout",
)  # no other field is judged by these


def presets() -> tuple[str, ...]:
    """The names of all presets."""
    folder = resources.files("paribus.spec") / "presets"
    names: list[str] = []
    for entry in folder.iterdir():
        if entry.name.endswith(".toml"):
            names.append(entry.name.removesuffix(".toml"))
    return tuple(sorted(names))


class Sizes(TypedDict, total=False):
    """What `load` takes by name; None leaves it as it is."""

    n_layers: int | None
    d_model: int | None
    n_heads: int | None
    n_kv_heads: int | None
    d_head: int | None
    d_ff: int | None
    n_vocab: int | None
    max_length: int | None
    mask: str | None


def load(
    source: str | Path | Mapping[str, Any],
    *,
    changes: Mapping[str, Any] | None = None,
    **sizes: Unpack[Sizes],
) -> Architecture:
    """An architecture from a preset's name, a TOML or JSON file, a checkpoint folder or a
    mapping.

    The named sizes change it, and so do `changes`, whose keys are paths: `{"feed_forward.gated":
    True}`.
    """
    changed = _changes_by_path(sizes, changes or {})
    if "preset" in changed:
        raise SpecError(
            f"preset is no field to change; load {changed['preset']!r} itself, or a table with"
            " preset = …"
        )
    table = merged_table(source)
    # Whole tables before their parts and a kind before its fields, or a later one would wipe out an
    # earlier.
    for path in sorted(changed, key=lambda path: (path.count("."), not path.endswith(".kind"))):
        assign(table, path, changed[path])
    return parse_architecture(table)


def _changes_by_path(sizes: Sizes, changes: Mapping[str, Any]) -> Table:
    """Sizes and changes, each by its path; sizes come first, in the order they are listed."""
    unknown = set(sizes) - set(Sizes.__annotations__)
    if unknown:
        raise SpecError(
            f"load has no argument {min(unknown)!r}; use {', '.join(Sizes.__annotations__)}, or"
            f" changes={{{min(unknown)!r}: …}}"
        )
    changed: Table = {}
    for name in Sizes.__annotations__:
        if sizes.get(name) is not None:
            changed[SHORT_NAMES.get(name, name)] = sizes[name]
    for name, value in changes.items():
        changed[SHORT_NAMES.get(name, name)] = value
    return changed


def parse_architecture(table: Mapping[str, Any]) -> Architecture:
    """The architecture a table describes, checked to resolve; SpecError lists every fault."""
    table = fill_kinds(_merge_preset(dict(table)), Architecture)
    try:
        spec = Architecture.model_validate(table)
    except ValidationError as fault:
        raise SpecError(
            [*describe_faults(fault, table, Architecture), *_further_faults(fault, table)]
        ) from None
    resolve(spec)
    return spec


def merged_table(source: str | Path | Mapping[str, Any]) -> Table:
    """What was written, merged over its preset, not yet checked."""
    if isinstance(source, Mapping):
        require_shallow(source, "the table")
        return _merge_preset(copy.deepcopy(dict(source)))
    path = Path(source)
    if str(source) in presets():
        return _preset_table(str(source))
    if _is_folder(path):
        path = path / SPEC_FILE
    if path.suffix not in (".toml", ".json"):
        advice = word_advice(str(source), presets())
        raise SpecError(
            f"{source} is no preset and no .toml or .json file; {advice}presets are"
            f" {', '.join(presets())}"
        )
    return _merge_preset(read_table(path))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # such as a name longer than any file's
        return False


def read_table(path: Path, remedy_text: str = "give a preset or a readable file") -> Table:
    """What a TOML or JSON file holds; `instead` says what would do where it cannot be read."""
    try:
        text = read_text(path, MAX_SPEC_BYTES)
        if path.suffix == ".toml":
            table = tomllib.loads(text)
        else:
            table = json.loads(text, object_pairs_hook=unique_keys)
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
    require_shallow(table, str(path))
    return table


def require_shallow(table: Any, where: str) -> None:
    """SpecError where tables and lists lie in one another deeper than any spec's."""
    level = [table]
    for _ in range(MAX_DEPTH):
        level = list(chain.from_iterable(map(_inner_values, level)))
        if not level:
            return
    raise SpecError(
        f"{where} holds tables or lists in one another more than {MAX_DEPTH} deep; no field is so"
        " deep"
    )


def _inner_values(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    return ()


def unique_keys(pairs: list[tuple[str, Any]]) -> Table:
    """A JSON object whose keys appear once, as TOML demands of itself."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError(f"key {_first_duplicate([name for name, _ in pairs])!r} appears twice")
    return table


def _first_duplicate(names: list[str]) -> str:
    """The first name that comes again; there is one."""
    counts = Counter(names)
    return next(name for name in names if counts[name] > 1)


def _preset_table(name: str) -> Table:
    text = (resources.files("paribus.spec") / "presets" / f"{name}.toml").read_text("utf-8")
    return _merge_preset(tomllib.loads(text))


def _merge_preset(table: Table) -> Table:
    """`preset = "gpt2"` in a table puts it over that preset."""
    if "preset" not in table:
        return table
    name = table.pop("preset")
    if name not in presets():
        advice = word_advice(str(name), presets())
        raise SpecError(
            f"preset is {name!r}, which does not exist; {advice}presets are {', '.join(presets())}"
        )
    return merge_tables(_preset_table(name), table)


def merge_tables(below: Table, above: Mapping[str, Any]) -> Table:
    """`above` over `below`; a table of another kind replaces, one of the same kind is filled in."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if isinstance(old, str) and isinstance(value, Mapping) and value.get("kind", old) == old:
            old = {"kind": old}
        if isinstance(old, dict) and "kind" in old and old["kind"] == value:
            continue
        alike = (
            isinstance(old, dict)
            and isinstance(value, Mapping)
            and value.get("kind", old.get("kind")) == old.get("kind")
        )
        if alike and isinstance(old, dict):
            result[key] = merge_tables(old, value)
        else:
            result[key] = value
    return result


def fill_kinds(table: Table, model: type[BaseModel]) -> Table:
    """A table that names no kind is of the kind its default has: `norm = { eps = 1e-6 }` is a
    layer norm.
    """
    result = dict(table)
    for name, field in model.model_fields.items():
        value = result.get(name)
        if not isinstance(value, Mapping):
            continue
        if isinstance(field.default, BaseModel):
            default = field.default
        else:
            default = None
        if default is not None and "kind" in type(default).model_fields:
            value = {"kind": kind_of(type(default)), **value}
        for inner in models_in(field.annotation):
            if kind_of(inner) in (None, value.get("kind")):
                value = fill_kinds(dict(value), inner)
        result[name] = value
    return result


def assign(table: Table, path: str, value: Any) -> None:
    """Put a value at a dotted path, over what the table says there."""
    *outer, _ = names = path.split(".")
    if len(names) > MAX_DEPTH:
        raise SpecError(
            f"{path[:MAX_DEPTH]}… has {len(names):,} names in a row; no field lies deeper than"
            f" {MAX_DEPTH}"
        )
    require_shallow(value, path)
    change: Any = value
    for name in reversed(names):
        change = {name: change}
    here: Any = table
    for depth, name in enumerate(outer, 1):
        here = here.get(name, {}) if isinstance(here, dict) else here
        if not isinstance(here, dict | str):
            raise SpecError(
                f"{'.'.join(outer[:depth])} is {here!r}, which has nothing inside to set as {path};"
                " set it itself"
            )
    changed = merge_tables(table, change)
    require_effect(changed, change)
    table.update(changed)


def require_effect(changed: Mapping[str, Any], change: Mapping[str, Any], prefix: str = "") -> None:
    """SpecError where an empty table was laid over one that has something in it, which stays as
    it was.
    """
    for name, value in change.items():
        path, here = f"{prefix}{name}", changed[name]
        if not isinstance(value, Mapping) or not isinstance(here, Mapping):
            continue
        if value:
            require_effect(here, value, f"{path}.")
        elif here:
            keys = ", ".join(map(str, list(here)[:MAX_KEYS_SHOWN]))
            raise SpecError(
                f"{path} is set to {{}}, an empty table, which changes nothing of what is there"
                f" ({keys}); set the keys inside, or change them in the file"
            )


def _further_faults(fault: ValidationError, table: Table) -> Iterator[str]:
    """What else is wrong once these faults are set aside, so that one reading shows all."""
    pruned = copy.deepcopy(table)
    for error in fault.errors():
        path = written_path(error["loc"], pruned)
        if (
            error["type"] != UNKNOWN_KEY
            and path[0] not in INDEPENDENT_FIELDS
            and path != ("encoder", "mask")
        ):
            return  # what it should have been may decide whether the rest fits
        _remove_path(pruned, path)
    try:
        resolve(Architecture.model_validate(pruned))
    except (SpecError, ValidationError) as further:
        yield from further.problems if isinstance(further, SpecError) else ()


def _remove_path(table: Table, path: tuple[str | int, ...]) -> None:
    here: Any = table
    for part in path[:-1]:
        here = here.get(part, {}) if isinstance(here, dict) else {}
    if isinstance(here, dict):
        here.pop(path[-1], None)
