"""Templates over the columns of a file: `{question}\\nAnswer:` with the values of a row put in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from string import Formatter
from typing import Annotated

from pydantic import AfterValidator

Values = Mapping[str, str | tuple[str, ...]]  # of a row, by column; a list where a cell holds one
Piece = tuple[str, str | None]  # text, and the column whose value follows it
_FORMATTER = Formatter()


@lru_cache(maxsize=256)
def _pieces(template: str) -> tuple[Piece, ...]:
    """A template in its pieces; ValueError where it is none."""
    pieces: list[Piece] = []
    for literal, name, form, conversion in _FORMATTER.parse(template):
        if name is not None and (not name.strip() or form or conversion):
            raise ValueError(
                f"{template!r} is no template: between braces stands the name of a column and"
                " nothing else; write {{ and }} for braces"
            )
        pieces.append((literal, name))
    return tuple(pieces)


@lru_cache(maxsize=256)
def template_columns(template: str) -> tuple[str, ...]:
    """The columns that a template names, in order; ValueError where it is none.

    `{{` and `}}` stand for braces. Formats and conversions are refused: a value is put in as it is.
    """
    return tuple(name for _, name in _pieces(template) if name is not None)


def _require_template(text: str) -> str:
    template_columns(text)
    return text


Template = Annotated[str, AfterValidator(_require_template)]


def render(template: str, values: Values) -> str:
    """A template with the values of a row; KeyError with the column that is not there, ValueError
    where a column holds a list.
    """
    texts: list[str] = []
    for literal, name in _pieces(template):
        texts.append(literal)
        if name is not None:
            value = values[name]
            if not isinstance(value, str):
                raise ValueError(f"the column {name!r} holds a list, and one text is needed")
            texts.append(value)
    return "".join(texts)


def render_each(template: str, values: Values) -> tuple[str, ...]:
    """A template rendered once for each value of the list that one of its columns holds.

    ValueError where none of its columns holds a list, or two do.
    """
    lists = [name for name in template_columns(template) if not isinstance(values[name], str)]
    if len(set(lists)) != 1:
        raise ValueError(
            f"{template!r} must name one column that holds a list, and names {len(set(lists))}"
        )
    results: list[str] = []
    for value in values[lists[0]]:
        results.append(render(template, {**values, lists[0]: value}))
    return tuple(results)
