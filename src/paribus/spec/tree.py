"""The tables of specs as a tree: which models a field may hold, and what the author wrote below
each field.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Descriptions = dict[str, str]  # by field


def models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    """Every model that a type names, in its order."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    models: list[type[BaseModel]] = []
    for part in get_args(annotation):
        models += models_in(part)
    return tuple(models)


@cache
def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model by the keys that a file has for them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


@cache
def field_models(model: type[BaseModel]) -> dict[str, tuple[type[BaseModel], ...]]:
    """The models that each field of a model may hold, by the name of the field."""
    return {key: models_in(field.annotation) for key, field in fields_of(model).items()}


@cache
def kind_of(model: type[BaseModel]) -> str | None:
    """The word by which a model is chosen among its alternatives; None where there are none."""
    field = model.model_fields.get("kind")
    if field is None or len(get_args(field.annotation)) != 1:  # one of several words is a value
        return None
    return field.default


@cache
def field_paths(model: type[BaseModel], under: str = "") -> tuple[str, ...]:
    """The dotted path of every field of a model and of the models inside it."""
    paths: list[str] = []
    for key, models in field_models(model).items():
        path = f"{under}.{key}" if under else key
        paths.append(path)
        for inner in models:
            paths += field_paths(inner, path)
    return tuple(paths)


@cache
def nested_models(model: type[BaseModel]) -> tuple[type[BaseModel], ...]:
    """A model and those inside it, each as often as it may stand somewhere."""
    models = [model]
    for members in field_models(model).values():
        for inner in members:
            models += nested_models(inner)
    return tuple(models)


def descriptions_of(model: type[BaseModel]) -> Descriptions:
    """What each field of a model does, by its key: the text below it in the source, or below the
    one it overrides.

    pydantic can read these texts itself (`use_attribute_docstrings`), but does so at every import.
    """
    descriptions: Descriptions = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel):
            descriptions |= _module_descriptions(owner.__module__).get(owner.__name__, {})
    for name, field in model.model_fields.items():
        if field.alias is not None and name in descriptions:
            descriptions[field.alias] = descriptions.pop(name)
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
