"""Where the scores of a task end: at the floor, which needs no model, and at the ceiling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from paribus.record.task_answers import PARENT
from paribus.spec.measure import Measure

FLOOR_NAMES = {
    "uniform": "a uniform guess",
    "majority": "the majority label",
    "length": "length alone",
    PARENT: "the parent itself",
}


class Floor(NamedTuple):
    """The score that needs no model: of a guess, of the majority label, of length alone."""

    name: str
    value: float

    @property
    def description(self) -> str:
        return FLOOR_NAMES.get(self.name, self.name)


@dataclass(frozen=True)
class ScoreBounds:
    """The highest floor of a task, the best score there can be, and what one item is worth, all in
    the unit of the measure.
    """

    floor: Floor | None = None
    ceiling: float | None = None
    resolution: float = 0.0


def row_bounds(rows: Iterable[Mapping[str, Any]], measure: Measure) -> ScoreBounds | None:
    """The bounds by the rows of some runs: the highest floor of all arms, for a floor by length
    depends on the tokenizer. None of a measure without bounds.
    """
    highest: Floor | None = None
    resolution = 0.0
    for row in rows:
        resolution = max(resolution, row.get("item_worth") or 0.0)
        if row.get("floor") is None:
            continue
        floor = Floor(row["floor_name"], row["floor"])
        if highest is None or measure.gain(highest.value, floor.value) > 0:
            highest = floor
    if highest is None and measure.ceiling is None:
        return None
    return ScoreBounds(highest, measure.ceiling, resolution)
