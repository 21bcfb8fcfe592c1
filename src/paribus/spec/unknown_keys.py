"""Keys that a table may not have, with what was meant perhaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paribus.errors import MAX_VALUE_LETTERS, cut_middle, describe_first
from paribus.spec.spelling import key_advice


def unknown_keys(prefix: str, table: Mapping[str, Any], known_keys: Sequence[str]) -> Iterator[str]:
    key_names = ", ".join(known_keys)
    table_name, root = ("", "") if prefix else ("design", "design")

    def say(key: str) -> str:
        advice = key_advice(key, table_name, known_keys, root=root)
        shown = cut_middle(key, MAX_VALUE_LETTERS)
        return f"{prefix}{shown} is not a key here; {advice}keys are {key_names}"

    unknown: list[str] = []
    for key in table:
        if key not in known_keys:
            unknown.append(key)
    yield from describe_first(unknown, say, "keys that are not known")
