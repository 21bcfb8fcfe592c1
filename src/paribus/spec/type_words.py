"""The type of a field in plain words, and the values that it may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from paribus.masks import Rule
from paribus.masks.notation import NOTATION
from paribus.spec.tree import kind_of, models_in

PLAIN = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
    Any: "any value",
    dict: "table",
}
PAIR = "pair of arms"
PLURAL = {
    "whole number": "whole numbers",
    "number": "numbers",
    "text": "texts",
    "table": "tables",
    "kind": "kinds",
    PAIR: "pairs of arms",
}


class TypeWords(NamedTuple):
    """A type, and which values of it are allowed; `values` is empty where all are."""

    type: str
    values: str


def field_type(field: FieldInfo) -> TypeWords:
    """The type of a field in words; that it may be left out is not said here."""
    return _of_members(list(_members(field.annotation, tuple(field.metadata))))


def _of_members(members: Sequence[tuple[Any, tuple[Any, ...]]]) -> TypeWords:
    kinds = [kind for annotation, _ in members if (kind := _tag(annotation)) is not None]
    others = [
        _words(annotation, metadata) for annotation, metadata in members if _tag(annotation) is None
    ]
    if kinds:
        others.append(TypeWords("kind", _in_backticks(kinds)))
    types = dict.fromkeys(words.type for words in others)
    values = dict.fromkeys(words.values for words in others if words.values)
    return TypeWords(" or ".join(types), "; ".join(values))


def _members(annotation: Any, metadata: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Each alternative of a type with what limits it; None is no value that a file can hold."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from _members(inner, (*metadata, *more))
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from _members(part, metadata)
    elif annotation is not NoneType:
        yield annotation, metadata


def _tag(annotation: Any) -> str | None:
    """The kind that a model is chosen by; None of any other type."""
    models = models_in(annotation) if isinstance(annotation, type) else ()
    if models:
        return kind_of(models[0])
    return None


def _words(annotation: Any, metadata: tuple[Any, ...]) -> TypeWords:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return TypeWords("text", _in_backticks(inside))
    if origin is tuple:
        return _list_words(inside)
    if origin is dict:
        return _table_words(*inside)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return TypeWords("table", "")
    if isinstance(annotation, type) and issubclass(annotation, Rule):
        return TypeWords("mask rule, as text", f"{_in_backticks(NOTATION)}, joined by `&` and `|`")
    return TypeWords(PLAIN[annotation], _range(metadata))


def _list_words(inside: tuple[Any, ...]) -> TypeWords:
    if inside == (str, str):
        return TypeWords(PAIR, "")
    one = _of_members(list(_members(inside[0], ())))
    plurals = [PLURAL[name] for name in one.type.split(" or ")]
    return TypeWords(f"list of {' or '.join(plurals)}", one.values)


def _table_words(key: Any, value: Any) -> TypeWords:
    if value is Any:
        return TypeWords("table", "")
    one = _of_members(list(_members(value, ())))
    by = "by number of seeds" if key is int else "by name"
    if one.type.startswith("table"):
        return TypeWords(f"table of tables {by}", one.values)
    return TypeWords(f"table of {PLURAL[one.type]} {by}", one.values)


def _range(metadata: Sequence[Any]) -> str:
    """The numbers between the bounds, such as `1 to 4096` or `above 0, below 1`."""
    bounds, words = dict(_bounds(metadata)), []
    if Ge in bounds and Le in bounds:
        words.append(f"{bounds.pop(Ge)} to {bounds.pop(Le)}")
    phrases = {
        Ge: "{} or more",
        Gt: "above {}",
        Le: "at most {}",
        Lt: "below {}",
        MultipleOf: "a multiple of {}",
    }
    words += [text.format(bounds[kind]) for kind, text in phrases.items() if kind in bounds]
    return ", ".join(words)


def _bounds(metadata: Sequence[Any]) -> Iterator[tuple[type, str]]:
    for one in metadata:
        match one:
            case FieldInfo():
                yield from _bounds(one.metadata)
            case (
                Ge(ge=bound)
                | Gt(gt=bound)
                | Le(le=bound)
                | Lt(lt=bound)
                | MultipleOf(multiple_of=bound)
            ):
                yield type(one), f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def _in_backticks(names: Sequence[Any]) -> str:
    return ", ".join(f"`{name}`" for name in names)
