"""Fields of a spec in writing, as short as they stay exact."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

from paribus.report.numbers import significant


def format_bool(answer: float, digits: int = 0) -> str:
    """True → yes; no number, so no digits."""
    if answer:
        return "yes"
    return "no"


def format_ranges(numbers: Sequence[int]) -> str:
    """0, 1, 2, 3 → 0–3; 1, 3, 5 → 1, 3 … 5; otherwise each in turn."""
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1:
        first, second, last = numbers[0], numbers[1], numbers[-1]
        if steps == {1}:
            return f"{first}–{last}"
        return f"{first}, {second} … {last}"
    return ", ".join(map(str, numbers))


def format_field(value: Any, key: str = "") -> str:
    """A JSON value in the notation of masks: `rotary(theta=10000)`, `tied=true, bias=false`, 12
    × (…).
    """
    match value:
        case {"kind": str(kind), **fields}:
            if fields:
                return f"{kind}({format_field(fields)})"
            return kind
        case dict():
            inside = ", ".join(
                f"{name}={format_field(inner, name)}" for name, inner in value.items()
            )
            if key:
                return f"({inside})"
            return inside
        case list():
            return ", ".join(_count_repeats(format_field(inner, "item") for inner in value))
        case bool() | None:
            return {True: "true", False: "false", None: "none"}[value]
        case float():
            return significant(value, 6)
        case _:
            return str(value)


def _count_repeats(texts: Iterable[str]) -> Iterator[str]:
    """Each text once, with how often it stands in a row."""
    for text, repeats in groupby(texts):
        n = len(list(repeats))
        if n > 1:
            yield f"{n} × {text}"
        else:
            yield text
