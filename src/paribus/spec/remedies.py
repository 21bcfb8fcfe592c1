"""What would do where a value has the wrong type or size: the third beat of a complaint."""

from __future__ import annotations

from typing import Any

from pydantic_core import ErrorDetails

from paribus.spec.begin import SHA256_PATTERN

TYPE_REMEDIES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table",
}
PATTERN_REMEDIES = {SHA256_PATTERN: "its sha256: 64 digits and letters from a to f"}
LIMIT_REMEDIES = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "a finite number",
    "too_short": "{min_length} or more",
    "too_long": "{max_length} or fewer",
    "string_too_short": "text of {min_length} or more letters",
    "string_too_long": "text of {max_length} letters or fewer",
    "model_attributes_type": "the name of a kind, or a table with a kind",
}


def remedy(error: ErrorDetails) -> str:
    """What would do, in our words and not in those of the library that found the fault."""
    kind = error["type"]
    if kind == "string_pattern_mismatch":
        return PATTERN_REMEDIES[error.get("ctx", {})["pattern"]]
    if kind in LIMIT_REMEDIES:
        return LIMIT_REMEDIES[kind].format(
            **{name: _as_integer(value) for name, value in error.get("ctx", {}).items()}
        )
    return TYPE_REMEDIES.get(kind.split("_")[0], "a value of another kind")


def _as_integer(value: Any) -> Any:
    """1.0 → 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
