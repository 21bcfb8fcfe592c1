"""Fields of a spec in writing, as short as they stay exact."""

from itertools import groupby
from typing import Any


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
            return f"{value:.6g}"
        case _:
            return str(value)
