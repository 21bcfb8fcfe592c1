"""The tables of specs as a tree: which models a field may hold, and what the author wrote below
each field.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

Descriptions = dict[str, str]  # by field


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Every model that a type names, in its order."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def kind_of(model: type[BaseModel]) -> str | None:
    """The word by which a model is chosen among its alternatives; None where there are none."""
    field = model.model_fields.get("kind")
    if field is None or len(get_args(field.annotation)) != 1:  # one of several words is a value
        return None
    return field.default


def field_paths(model: type[BaseModel], under: str = "") -> Iterator[str]:
    """The dotted path of every field of a model and of the models inside it."""
    for key, field in model.model_fields.items():
        path = f"{under}.{key}" if under else key
        yield path
        for inner in models_in(field.annotation):
            yield from field_paths(inner, path)


def descriptions_of(model: type[BaseModel]) -> Descriptions:
    """What each field of a model does: the text below it in the source, or below the one it
    overrides.

    pydantic can read these texts itself (`use_attribute_docstrings`), but does so at every import.
    """
    descriptions: Descriptions = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel):
            descriptions |= _module_descriptions(owner.__module__).get(owner.__name__, {})
    return descriptions


def own_docstring(model: type[BaseModel]) -> str | None:
    """What a model says of itself, in one line; None where it says nothing."""
    text = vars(model).get("__doc__")
    if text is None:
        return None
    return " ".join(text.split("\n\n")[0].split())


@cache
def _module_descriptions(module: str) -> dict[str, Descriptions]:
    """The descriptions of every class of a module."""
    source = inspect.getsource(sys.modules[module])
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return {node.name: _texts_below_fields(node) for node in classes}


def _texts_below_fields(node: ast.ClassDef) -> Descriptions:
    descriptions: Descriptions = {}
    for statement, after in itertools.pairwise(node.body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if (
            isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            descriptions[statement.target.id] = " ".join(after.value.value.split())
    return descriptions
