"""Fields of a spec in writing, as short as they stay exact."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

from paribus.report.numbers import significant


def whether(answer: float, digits: int = 0) -> str:
    """True → yes; no number, so no digits."""
    return "yes" if answer else "no"


def spans(numbers: Sequence[int]) -> str:
    """0, 1, 2, 3 → 0–3; 1, 3, 5 → 1, 3 … 5; otherwise each in turn."""
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1:
        first, second, last = numbers[0], numbers[1], numbers[-1]
        return f"{first}–{last}" if steps == {1} else f"{first}, {second} … {last}"
    return ", ".join(map(str, numbers))


def spelled(value: Any, key: str = "") -> str:
    """A JSON value in the notation of masks: `rotary(theta=10000)`, `tied=true, bias=false`, 12 × (…)."""
    match value:
        case {"kind": str(kind), **fields}:
            return f"{kind}({spelled(fields)})" if fields else kind
        case dict():
            inside = ", ".join(f"{name}={spelled(inner, name)}" for name, inner in value.items())
            return f"({inside})" if key else inside
        case list():
            runs = ((len(list(run)), text) for text, run in groupby(spelled(inner, "item") for inner in value))
            return ", ".join(f"{n} × {text}" if n > 1 else text for n, text in runs)
        case bool() | None:
            return {True: "true", False: "false", None: "none"}[value]
        case float():
            return significant(value, 6)
        case _:
            return str(value)
