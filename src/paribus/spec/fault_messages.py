"""What pydantic finds wrong, in our words: where, what was given, what would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from paribus.errors import MAX_VALUE_LETTERS, cut_middle, describe_first, quote
from paribus.spec.remedies import remedy
from paribus.spec.spelling import key_advice, word_advice
from paribus.spec.tree import field_models, field_paths, fields_of, kind_of, nested_models

Table = dict[str, Any]
UNKNOWN_KEY = "extra_forbidden"  # what pydantic calls a key that no field has
# what pydantic calls a table where a list, or an entry of one, belongs
LIST_FAULTS = ("list_type", "tuple_type", "union_tag_not_found")
ALONE = ("Architecture", "Design")  # specs whose fields a file has at its top


def describe_faults(fault: ValidationError, table: Table, root: type[BaseModel]) -> Iterator[str]:
    """Every fault of a table that was to be a `root`, in our words."""
    unknown: list[ErrorDetails] = []
    others: list[ErrorDetails] = []
    for error in fault.errors(include_url=False):
        if error["type"] == UNKNOWN_KEY:
            unknown.append(error)
        else:
            others.append(error)

    def say(error: ErrorDetails) -> str:
        where = written_path(error["loc"], table, root)
        path = ".".join(cut_middle(str(name), MAX_VALUE_LETTERS) for name in where)
        return _describe_fault(error, path, where, root)

    yield from describe_first(others, say, "faults")
    yield from describe_first(unknown, say, "keys that are not known")


def _describe_fault(
    error: ErrorDetails, path: str, where: tuple[str | int, ...], root: type[BaseModel]
) -> str:
    """One fault in three beats: where, what was given, what would do."""
    value, context = error["input"], error.get("ctx", {})
    if error["type"] in LIST_FAULTS and _is_by_place(value):
        return (
            f"{path} has {', '.join(map(str, value))} as a key, but entries of a list are not"
            " written by their place; write the whole list"
        )
    match error["type"]:
        case "extra_forbidden":
            known_keys = _known_keys(error["loc"], root)
            advice = _key_advice(where, value, known_keys, root)
            return f"{path} is not a key here; {advice}keys are {', '.join(known_keys)}"
        case "missing":
            return f"{path} is missing; give it a value"
        case "union_tag_invalid":
            tags = [tag.strip().strip("'") for tag in context["expected_tags"].split(",")]
            advice = word_advice(str(context["tag"]), tags, _last_name(where))
            return f"{path}.kind is {quote(context['tag'])}; {advice}use one of {', '.join(tags)}"
        case "union_tag_not_found":
            return f"{path}.kind is missing; say which kind it is"
        case "literal_error":
            advice = word_advice(str(value), _quoted_values(context["expected"]), _last_name(where))
            return f"{path} is {quote(value)}; {advice}use {context['expected']}"
        case "is_instance_of":
            return (
                f"{path} is {quote(value)} ({type(value).__name__}); write a rule as text, such as"
                " 'causal & window(8)'"
            )
        case "value_error":
            words = str(context["error"]).removeprefix("mask ")
            return f"{path} {words.replace(repr(value), quote(value))}"
        case "model_type":
            keys = _describe_keys(context["class_name"], value, root)
            if isinstance(value, str):
                advice = word_advice(value, (), _last_name(where))
            else:
                advice = ""
            return (
                f"{path} is {quote(value)} ({type(value).__name__}); {advice}write a table with"
                f" {keys}"
            )
        case _:
            return f"{path} is {quote(value)} ({type(value).__name__}); use {remedy(error)}"


def _is_by_place(value: Any) -> bool:
    """Is a value a table whose keys are places in a list?"""
    return isinstance(value, Mapping) and bool(value) and all(map(str.isdecimal, map(str, value)))


def _key_advice(
    where: tuple[str | int, ...], value: Any, keys: list[str], root: type[BaseModel]
) -> str:
    """What to say of a key that is not known: where its like stands, or what its value is
    called here.
    """
    own = root.__name__.lower() if root.__name__ in ALONE else ""
    names = [own, *(name for name in where[:-1] if isinstance(name, str))]
    if isinstance(value, str):
        advice = word_advice(value, (), _last_name(where[:-1]))
    else:
        advice = ""
    table = ".".join(filter(None, names))
    return advice or key_advice(str(where[-1]), table, keys, field_paths(root, own), own)


def _last_name(where: tuple[str | int, ...]) -> str:
    """The key that a value stands at, also where it is one of a list."""
    for name in reversed(where):
        if isinstance(name, str):
            return name
    return ""


def _describe_keys(name: str, value: Any, root: type[BaseModel]) -> str:
    """The keys of a table by the name of its model, and the one that takes what was given, if
    that is a kind.
    """
    model = _model_of_name(name, root)
    keys = ", ".join(fields_of(model))
    for key, models in field_models(model).items():
        if isinstance(value, str) and value in map(kind_of, models):
            return f"keys {keys}, such as {{ {key} = {value!r} }}"
    return f"keys {keys}"


def _model_of_name(name: str, root: type[BaseModel]) -> type[BaseModel]:
    for model in nested_models(root):
        if model.__name__ == name:
            return model
    return root


def _quoted_values(expected: str) -> list[str]:
    return expected.split("'")[1::2]


def written_path(
    loc: tuple[str | int, ...], table: Table, root: type[BaseModel]
) -> tuple[str | int, ...]:
    """pydantic's location in a table that was to be a `root`, without the union tags and types it
    inserts: the path as the person wrote it.
    """
    result: list[str | int] = []
    here: Any = table
    models: tuple[type[BaseModel], ...] = (root,)  # that may be here
    # whether the kind of what is here was passed: MaskedLM has a field of the same name as its kind
    kind_is_passed = False
    for place, part in enumerate(loc):
        last = place == len(loc) - 1
        has_kind = part in [kind_of(model) for model in models] and not kind_is_passed
        if here == part or (isinstance(here, Mapping) and here.get("kind") == part and has_kind):
            # a kind in short is the table of that kind
            here, kind_is_passed = (
                {"kind": part} if here == part else here,
                True,
            )
            continue
        if _has_entry(here, part):
            here, kind_is_passed = here[part], False
            inner = [field_models(model).get(str(part), ()) for model in models]
            models = tuple(chain.from_iterable(inner)) or models  # of a list, or of a name
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
            field_models(model)[part]
            if part in fields_of(model)
            else _union_members(model, part, root)
        ):
            model = candidate
            break
    return list(fields_of(model))


@cache
def _union_members(
    model: type[BaseModel], tag: str | int, root: type[BaseModel]
) -> tuple[type[BaseModel], ...]:
    """The union members a tag names; `model` is the union's first member."""
    members: list[type[BaseModel]] = []
    for owner in nested_models(root):
        for union in field_models(owner).values():
            if model in union:
                members += [member for member in union if kind_of(member) == tag]
    return tuple(members)
