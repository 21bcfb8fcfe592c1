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
from pathlib import Path
from typing import Any, TypedDict, Unpack

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from paribus.errors import SpecError, describe_first
from paribus.files import MAX_SPEC_BYTES, looked_for, read_text
from paribus.spec.architecture import Architecture
from paribus.spec.remedies import remedy
from paribus.spec.resolved import resolve
from paribus.spec.spelling import key_advice, word_advice
from paribus.spec.tree import field_paths, kind_of, models_in

Table = dict[str, Any]

# The sizes people change most, by their own name wherever they live.
SHORT_NAMES = {
    "n_heads": "attention.n_heads",
    "n_kv_heads": "attention.n_kv_heads",
    "d_head": "attention.d_head",
    "d_ff": "feed_forward.d_ff",
}
SPEC_FILE = "spec.json"
ALONE = ("Architecture", "Design")  # specs whose fields a file has at its top
MAX_KEYS_SHOWN = 5  # keys of a table that a message names
UNKNOWN_KEY = "extra_forbidden"  # what pydantic calls a key that no field has
MAX_DEPTH = 64  # tables and lists in one another; no spec needs a tenth of it
INDEPENDENT_FIELDS = (
    "mask",
    "norm",
    "placement",
    "embedding",
    "head",
    "start",
    "dropout",
)  # no other field is judged by these


def presets() -> tuple[str, ...]:
    """The names of all presets."""
    folder = resources.files("paribus.spec") / "presets"
    return tuple(
        sorted(
            entry.name.removesuffix(".toml")
            for entry in folder.iterdir()
            if entry.name.endswith(".toml")
        )
    )


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
        level = [inner for value in level for inner in _inner_values(value)]
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
            held = ", ".join(str(key) for key in list(here)[:MAX_KEYS_SHOWN])
            raise SpecError(
                f"{path} is set to {{}}, an empty table, which changes nothing of what is there"
                f" ({held}); set the keys inside, or change them in the file"
            )


def _further_faults(fault: ValidationError, table: Table) -> Iterator[str]:
    """What else is wrong once these faults are set aside, so that one reading shows all."""
    pruned = copy.deepcopy(table)
    for error in fault.errors():
        path = _written_path(error["loc"], pruned)
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


def describe_faults(fault: ValidationError, table: Table, root: type[BaseModel]) -> Iterator[str]:
    """Every fault of a table that was to be a `root`, in our words."""
    errors = fault.errors(include_url=False)
    unknown = [error for error in errors if error["type"] == UNKNOWN_KEY]
    others = [error for error in errors if error["type"] != UNKNOWN_KEY]

    def say(error: ErrorDetails) -> str:
        where = _written_path(error["loc"], table)
        return _describe_fault(error, ".".join(map(str, where)), where, root)

    yield from describe_first(others, say, "faults")
    yield from describe_first(unknown, say, "keys that are not known")


def _describe_fault(
    error: ErrorDetails, path: str, where: tuple[str | int, ...], root: type[BaseModel]
) -> str:
    """One fault in three beats: where, what was given, what would do."""
    given, context = error["input"], error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            known = _known_keys(error["loc"], root)
            return (
                f"{path} is not a key here; {_key_advice(where, given, known, root)}keys are"
                f" {', '.join(known)}"
            )
        case "missing":
            return f"{path} is missing; give it a value"
        case "union_tag_invalid":
            tags = [tag.strip().strip("'") for tag in context["expected_tags"].split(",")]
            advice = word_advice(str(context["tag"]), tags, _last_name(where))
            return f"{path}.kind is {context['tag']!r}; {advice}use one of {', '.join(tags)}"
        case "union_tag_not_found":
            return f"{path}.kind is missing; say which kind it is"
        case "literal_error":
            advice = word_advice(str(given), _quoted_values(context["expected"]), _last_name(where))
            return f"{path} is {given!r}; {advice}use {context['expected']}"
        case "is_instance_of":
            return (
                f"{path} is {given!r} ({type(given).__name__}); write a rule as text, such as"
                " 'causal & window(8)'"
            )
        case "value_error":
            return f"{path} {str(context['error']).removeprefix('mask ')}"
        case "model_type":
            keys = _describe_keys(context["class_name"], given, root)
            if isinstance(given, str):
                advice = word_advice(given, (), _last_name(where))
            else:
                advice = ""
            return (
                f"{path} is {given!r} ({type(given).__name__}); {advice}write a table with {keys}"
            )
        case _:
            return f"{path} is {given!r} ({type(given).__name__}); use {remedy(error)}"


def _key_advice(
    where: tuple[str | int, ...], given: Any, known: list[str], root: type[BaseModel]
) -> str:
    """What to say of a key that is not known: where its like stands, or what its value is
    called here.
    """
    own = root.__name__.lower() if root.__name__ in ALONE else ""
    names = [own, *(name for name in where[:-1] if isinstance(name, str))]
    if isinstance(given, str):
        meant = word_advice(given, (), _last_name(where[:-1]))
    else:
        meant = ""
    table = ".".join(filter(None, names))
    return meant or key_advice(str(where[-1]), table, known, field_paths(root, own), own)


def _last_name(where: tuple[str | int, ...]) -> str:
    """The key that a value stands at, also where it is one of a list."""
    return next((name for name in reversed(where) if isinstance(name, str)), "")


def _describe_keys(name: str, value: Any, root: type[BaseModel]) -> str:
    """The keys of a table by the name of its model, and the one that takes what was given, if
    that is a kind.
    """
    model = next((owner for owner in _nested_models(root) if owner.__name__ == name), root)
    own = {
        key: [kind_of(inner) for inner in models_in(field.annotation)]
        for key, field in model.model_fields.items()
    }
    meant = [key for key, kinds in own.items() if isinstance(value, str) and value in kinds]
    example = f", such as {{ {meant[0]} = {value!r} }}" if meant else ""
    return f"keys {', '.join(own)}{example}"


def _quoted_values(expected: str) -> list[str]:
    return [part for place, part in enumerate(expected.split("'")) if place % 2]


def _written_path(loc: tuple[str | int, ...], table: Table) -> tuple[str | int, ...]:
    """pydantic's location without the union tags and types it inserts: the path as the person
    wrote it.
    """
    result: list[str | int] = []
    here: Any = table
    # whether the kind of what is here was passed: MaskedLM has a field of the same name as its kind
    tagged = False
    for place, part in enumerate(loc):
        last = place == len(loc) - 1
        if here == part or (isinstance(here, Mapping) and here.get("kind") == part and not tagged):
            # a kind in short is the table of that kind
            here, tagged = (
                {"kind": part} if here == part else here,
                True,
            )
            continue
        if _has_entry(here, part):
            here, tagged = here[part], False
        elif isinstance(part, int) or not (last and isinstance(here, Mapping)):
            continue  # a type, or the number of one alone that is short for a list of it
        result.append(part)
    return tuple(result)


def _has_entry(here: Any, key: str | int) -> bool:
    if isinstance(here, list | tuple):
        return isinstance(key, int) and key < len(here)
    return isinstance(here, Mapping) and key in here


def _known_keys(loc: tuple[str | int, ...], root: type[BaseModel]) -> list[str]:
    """The keys that may stand where an unknown one was found."""
    model = root
    for part in loc[:-1]:
        for candidate in (
            models_in(model.model_fields[part].annotation)
            if part in model.model_fields
            else _union_members(model, part, root)
        ):
            model = candidate
            break
    return list(model.model_fields)


def _union_members(
    model: type[BaseModel], tag: str | int, root: type[BaseModel]
) -> list[type[BaseModel]]:
    """The union member a tag names; `model` is the union's first member."""
    unions = (
        models_in(field.annotation)
        for owner in _nested_models(root)
        for field in owner.model_fields.values()
    )
    return [m for union in unions if model in union for m in union if kind_of(m) == tag]


def _nested_models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for inner in models_in(field.annotation):
            yield from _nested_models(inner)
