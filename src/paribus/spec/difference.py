"""What differs between two specs, and a name for what does not."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from paribus.canonical import canonical_hash
from paribus.spec.resolved import ResolvedArchitecture

ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """One path at which two specs part; `absent` where one has nothing there."""

    path: str
    left: Any
    right: Any


def difference(left: ResolvedArchitecture, right: ResolvedArchitecture) -> tuple[Difference, ...]:
    """Every path at which two resolved specs differ; the same change in neighbouring layers is
    one entry.
    """
    return tuple(
        _fold_layers(
            list(_walk_tables((), left.model_dump(mode="json"), right.model_dump(mode="json")))
        )
    )


def architecture_fingerprint(spec: ResolvedArchitecture) -> str:
    """A hash that is equal for two specs if they resolve to the same model."""
    return canonical_hash(spec.model_dump(mode="json"))


KeyPath = tuple[str | int, ...]


def _walk_tables(path: KeyPath, left: Any, right: Any) -> Iterator[tuple[KeyPath, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        if left.get("kind") != right.get("kind"):
            yield path, left, right
            return
        for key in [*left, *(key for key in right if key not in left)]:
            yield from _walk_tables((*path, key), left.get(key, ABSENT), right.get(key, ABSENT))
    elif isinstance(left, list) and isinstance(right, list):
        for place in range(max(len(left), len(right))):
            pair = (side[place] if place < len(side) else ABSENT for side in (left, right))
            yield from _walk_tables((*path, place), *pair)
    elif left != right:
        yield path, left, right


def _fold_layers(differences: list[tuple[KeyPath, Any, Any]]) -> Iterator[Difference]:
    """`stack.layers.0.mask`, `stack.layers.1.mask`, … with equal values become
    `stack.layers.0-1.mask`.
    """

    def family(entry: tuple[KeyPath, Any, Any]) -> str:
        path, left, right = entry
        return json.dumps(
            [["*" if isinstance(part, int) else part for part in path], left, right], sort_keys=True
        )

    order = {family(entry): place for place, entry in reversed(list(enumerate(differences)))}
    for _, group in groupby(sorted(differences, key=lambda entry: order[family(entry)]), family):
        entries = list(group)
        path, left, right = entries[0]
        numbers = [part for entry in entries for part in entry[0] if isinstance(part, int)]
        name = ".".join(_ranges(numbers) if isinstance(part, int) else part for part in path)
        yield Difference(name, left, right)


def _ranges(numbers: list[int]) -> str:
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
