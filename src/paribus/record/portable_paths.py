"""Records without the places where their files lie: an absolute path becomes its last part.

A plan, a run and an answer to a task name the files of their text. The address of a run and the
fingerprint of a design leave such places out, so that they may change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from paribus.canonical import canonical_json
from paribus.errors import RecordError
from paribus.record.address import BEGIN, BEGIN_PLACES, PLACES, without_places

PlaceNames = Mapping[str, str]  # absolute path → what stands for it
# A path from the root, or from a home folder, in the middle of a text: `/home/me/runs/a` …
_PATH_IN_TEXT = re.compile(r"(?<![\w.~/-])~?/(?:[^\s/:;,'\"()]+/)+")


def place_names(tables: Iterable[Any]) -> dict[str, str]:
    """A name for each absolute path that these tables have in the place of a file: as many of its
    last parts as tell them apart.
    """
    paths = sorted({path for table in tables for path in _places(table) if is_absolute(path)})
    n_parts = 1
    while len({_last_parts(path, n_parts) for path in paths}) < len({*map(PurePosixPath, paths)}):
        n_parts += 1
    return {path: _last_parts(path, n_parts) for path in paths}


def is_absolute(path: str) -> bool:
    """Does a path begin at the root of a machine, or in somebody's home?"""
    return path.startswith(("/", "~"))


def portable_value(value: Any, names: PlaceNames) -> Any:
    """A value with names in the place of paths."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, Mapping):
        return {key: portable_value(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [portable_value(inner, names) for inner in value]
    return value


def portable_head(content: bytes, names: PlaceNames) -> bytes:
    """Answers below a head, a JSON object per line, with names in the place of paths in the
    head.
    """
    first, newline, rest = content.partition(b"\n")
    head = parse_line(first)
    portable = portable_value(head, names)
    if portable == head:
        return content
    return canonical_json(portable).encode() + newline + rest


def parse_line(line: bytes) -> Any:
    """A line of JSON; RecordError where it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise RecordError(f"a line is not JSON: {fault}; restore its file") from fault


def is_same_answer_file(one: bytes, other: bytes) -> bool:
    """Do two files of answers differ in nothing but where files lie?"""
    (first, _, rest), (other_first, _, other_rest) = one.partition(b"\n"), other.partition(b"\n")
    heads = [without_places(parse_line(line)) for line in (first, other_first)]
    return heads[0] == heads[1] and rest == other_rest


def portable_text(text: str) -> str:
    """A message without the folders of this machine: of a path the last part is left."""
    return _PATH_IN_TEXT.sub("", text)


def without_absolute_paths(value: Any) -> Any:
    """A table of other programs, such as a tokenizer's, with the last part of every absolute
    path.
    """
    if isinstance(value, str) and value.startswith("/") and len(value.split()) == 1:
        return _last_parts(value, 1)
    if isinstance(value, Mapping):
        return {key: without_absolute_paths(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_absolute_paths(inner) for inner in value]
    return value


def _places(value: Any, places: Collection[str] = ()) -> Iterator[str]:
    """Every text that stands in the place of a file."""
    if isinstance(value, list):
        for inner in value:
            yield from _places(inner, places)
    if not isinstance(value, Mapping):
        return
    for key, inner in value.items():
        if key == BEGIN:
            yield from _texts(inner if isinstance(inner, str) else _begin_values(inner))
        elif key in places:
            yield from _texts(inner)
        else:
            yield from _places(inner, PLACES.get(key, places))


def _begin_values(begin: Any) -> list[Any]:
    if isinstance(begin, Mapping):
        return [begin.get(name) for name in BEGIN_PLACES]
    return []


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _last_parts(path: str, n_parts: int) -> str:
    parts = [part for part in PurePosixPath(path).parts if part not in ("/", "~")]
    return "/".join(parts[-n_parts:]) or "files"
