"""Times, rates and dates, all in one block: nothing else of a page depends on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paribus.analyse.spent import run_times
from paribus.report.alike import by_seconds
from paribus.report.material import Material
from paribus.report.numbers import count, duration

CLOCK = ("seconds",)  # columns of the rows that the clock decides


@dataclass(frozen=True)
class Times:
    """What the clock said; dates are left out of an anonymous page."""

    heading: tuple[str, ...]
    lines: list[tuple[str, ...]]
    alike: list[tuple[str, str]]  # an arm, and its gain had every run taken as long
    dates: list[tuple[str, str]]


def times(material: Material) -> Times:
    """Of every arm: the time of a run and of a step, tokens a second."""
    return Times(
        ("arm", "time a run", "time a step", "tokens a second"),
        [_line(arm, material) for arm in material.order],
        [(one.arm or "all", one.text) for one in by_seconds(material)],
        [] if material.anonymous else _dates(material),
    )


def _line(arm: str, material: Material) -> tuple[str, ...]:
    own = run_times(material.found.reported, arm)
    if own is None:
        return arm, "–", "–", "–"
    return arm, duration(own.seconds_per_run), duration(own.seconds_per_step), count(own.tokens_per_second)


def _dates(material: Material) -> list[tuple[str, str]]:
    lock = material.found.lock
    if lock is None:
        return []
    return [("plan locked", lock.made), *((f"changed: {one['what']}", one["when"]) for one in lock.changes)]


def clockless(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what the clock decides."""
    return {name: value for name, value in row.items() if name not in CLOCK}
