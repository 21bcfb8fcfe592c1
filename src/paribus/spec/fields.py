"""Every field that a run file or a design may have: its type, its default and what it does,
read off the specs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from paribus.errors import SpecError
from paribus.masks import Rule
from paribus.spec.architecture import Architecture
from paribus.spec.base import Spec
from paribus.spec.begin import BeginFrom
from paribus.spec.corpus import Corpus
from paribus.spec.design import SCALES, Design
from paribus.spec.objectives import ObjectiveKind
from paribus.spec.reading import presets
from paribus.spec.spelling import path_advice
from paribus.spec.stages import Stage
from paribus.spec.tasks import ProtocolKind, TaskKind
from paribus.spec.training import Training
from paribus.spec.tree import descriptions_of, fields_of, kind_of, models_in, own_docstring
from paribus.spec.turn_design import TurnDesign
from paribus.spec.type_words import field_type

REQUIRED = "required"
RUN_TABLES: dict[str, Any] = {
    "architecture": Architecture,
    "corpus": Corpus,
    "objective": ObjectiveKind,
    "training": Training,
    "stages": Stage,
    "begin": BeginFrom,
}
ROOTS: dict[str, Any] = {
    **RUN_TABLES,
    "task": TaskKind,
    "protocol": ProtocolKind,
    "design": Design,
    "turns": TurnDesign,
}


@dataclass(frozen=True)
class FieldEntry:
    """One field, in words."""

    key: str
    type: str
    values: str  # which are allowed; empty where all of the type are
    default: str
    about: str


@dataclass(frozen=True)
class TableEntry:
    """One table and its fields; `kind` is the word that chooses it among its alternatives, if
    it has any.
    """

    path: str
    kind: str | None
    about: str
    fields: tuple[FieldEntry, ...]


@dataclass(frozen=True)
class FieldMatch:
    """What lies at a path: the field itself, of each kind that has it, and the tables that it
    may hold.
    """

    path: str
    fields: tuple[FieldEntry, ...]
    tables: tuple[TableEntry, ...]


# Keys that are read before a spec is made, so that no spec has them.
_PRESET = FieldEntry(
    key="preset",
    type="text",
    values=", ".join(f"`{name}`" for name in presets()),
    default="none",
    about="The architecture that this table is laid over.",
)
_SCALES = FieldEntry(
    key="scales",
    type="table of tables by name",
    values=", ".join(f"`{name}`" for name in SCALES),
    default="{}",
    about="Tables with keys of a design. `--scale NAME` lays one of them over the rest.",
)
_READ_FIRST: dict[type[BaseModel], FieldEntry] = {
    Architecture: _PRESET,
    Design: _SCALES,
    TurnDesign: _SCALES,
}


def all_tables() -> list[TableEntry]:
    """Every table of a run file and of a design, each once, at the first path that has it."""
    tables: list[TableEntry] = []
    models: set[type[BaseModel]] = set()
    for path, annotation in ROOTS.items():
        tables += _tables_below(path, annotation, models)
    return tables


def all_paths() -> dict[str, None]:
    """The path of every field and table, in order."""
    paths: dict[str, None] = {}
    for table in all_tables():
        paths[table.path] = None
        paths |= {f"{table.path}.{field.key}": None for field in table.fields}
    return paths


def find_fields(path: str) -> FieldMatch:
    """The field and the tables at a dotted path; SpecError says which path was probably meant.

    A path may name a kind (`training.schedule.cosine`). A design's keys may stand alone
    (`primary.margin`).
    """
    names = [name for name in path.split(".") if not name.isdigit()]
    if names[0] not in ROOTS and names[0] in (*Design.model_fields, _SCALES.key):
        names = ["design", *names]
    places = [_Place(ROOTS[names[0]])] if names[0] in ROOTS else []
    for name in names[1:]:
        places = list(chain.from_iterable(_inside(place, name) for place in places))
    if not places:
        raise SpecError(_unknown_path(path))
    whole = ".".join(names)
    fields: dict[FieldEntry, None] = {}
    models: dict[type[BaseModel], None] = {}
    for place in places:
        if place.field is not None:
            fields[place.field] = None
        models |= dict.fromkeys(models_in(place.annotation))
    return FieldMatch(whole, tuple(fields), tuple(_table_entry(whole, model) for model in models))


@cache
def choices_at(path: str) -> tuple[Any, ...]:
    """What a field may be that has a closed set of values: kinds, words, true and false; nothing of
    any other field. A path of a run may name stages and entries of lists by number.
    """
    owner, _, key = path.rpartition(".")
    names = [name for name in owner.split(".") if not name.isdigit()]
    places = [_Place(RUN_TABLES[names[0]])] if names[0] in RUN_TABLES else []
    for name in names[1:]:
        places = list(chain.from_iterable(_inside(place, name) for place in places))
    values: dict[Any, None] = {}
    for place in places:
        for model in models_in(place.annotation):
            if key in fields_of(model):
                values |= dict.fromkeys(_words_of(fields_of(model)[key].annotation))
    return tuple(values)


def _words_of(annotation: Any) -> Iterator[Any]:
    """The words that a type lists, and true and false."""
    if annotation is bool:
        yield from (False, True)
    elif get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from _words_of(part)


@dataclass(frozen=True)
class _Place:
    """What a path has led to so far."""

    annotation: Any
    field: FieldEntry | None = None


def _inside(place: _Place, name: str) -> Iterator[_Place]:
    """What one more name leads to: a kind, a field of any kind, or an entry of a table by name."""
    models = models_in(place.annotation)
    of_kind = [model for model in models if kind_of(model) == name]
    if of_kind and len(models) > 1:
        yield _Place(of_kind[0])
        if name not in fields_of(of_kind[0]):
            return  # a task is a kind of yardstick, and has a field of that name
    for model in models:
        for field in _fields(model):
            if field.key == name:
                yield _Place(_annotation(model, name), field)
    for inside in _by_name(place.annotation):
        yield from _run_table(name) if inside is Any else [_Place(inside)]


def _annotation(model: type[BaseModel], key: str) -> Any:
    if key in fields_of(model):
        return fields_of(model)[key].annotation
    return None


def _run_table(name: str) -> list[_Place]:
    if name in RUN_TABLES:
        return [_Place(RUN_TABLES[name])]
    return []


def _by_name(annotation: Any) -> list[Any]:
    """What the tables by name hold that a type allows; Any of a table of a run."""
    if get_origin(annotation) is dict:
        return [get_args(annotation)[1]]
    return [inside for part in get_args(annotation) for inside in _by_name(part)]


def _unknown_path(path: str) -> str:
    paths = all_paths()
    outer = path.rpartition(".")[0]
    keys = [one.rpartition(".")[2] for one in paths if one.rpartition(".")[0] == outer]
    if outer and keys:
        choices = f"keys of {outer} are {', '.join(keys)}"
    else:
        choices = f"tables are {', '.join(ROOTS)}"
    name = path if path.strip(".") else repr(path)
    return f"{name} is not a field; {path_advice(path, paths)}{choices}"


def _tables_below(
    path: str, annotation: Any, listed_models: set[type[BaseModel]]
) -> Iterator[TableEntry]:
    """The tables that a type allows, and those inside them; none that is in `listed_models`,
    which grows.
    """
    for model in models_in(annotation):
        if model in listed_models:
            continue
        listed_models.add(model)
        yield _table_entry(path, model)
        for key, field in fields_of(model).items():
            yield from _tables_below(f"{path}.{key}", field.annotation, listed_models)


def _table_entry(path: str, model: type[BaseModel]) -> TableEntry:
    return TableEntry(path, kind_of(model), own_docstring(model) or "", tuple(_fields(model)))


def _fields(model: type[BaseModel]) -> list[FieldEntry]:
    """The fields of a model but the word that chooses it among its alternatives."""
    about = descriptions_of(model)
    own: list[FieldEntry] = []
    for key, field in fields_of(model).items():
        if key != "kind" or kind_of(model) is None:
            own.append(_field_entry(key, field, about))
    first = _READ_FIRST.get(model)
    if first is None:
        return own
    return [first, *own]


def _field_entry(key: str, field: FieldInfo, about: Mapping[str, str]) -> FieldEntry:
    words = field_type(field)
    return FieldEntry(
        key=key,
        type=words.type,
        values=words.values,
        default=_default_words(field),
        about=about.get(key, ""),
    )


def _default_words(field: FieldInfo) -> str:
    if field.is_required():
        return REQUIRED
    return _value_words(field.get_default(call_default_factory=True))


def _value_words(value: Any) -> str:
    """A default as a file would write it."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Rule():
            return f'"{value}"'
        case float():
            return f"{value:g}"
        case Spec():
            return _spec_words(value)
        case tuple() | list():
            return f"[{', '.join(map(_value_words, value))}]"
    return str(to_jsonable_python(value))


def _spec_words(value: Spec) -> str:
    kind = kind_of(type(value))
    if kind is None:
        return "a table of defaults"
    return f'"{kind}"'
