"""The items on which an arm gains and loses most, with their texts."""

from __future__ import annotations

from dataclasses import dataclass

from paribus.analyse import Extreme, extremes
from paribus.report.material import Material
from paribus.report.numbers import plain, signed

N_SHOWN = 5


@dataclass(frozen=True)
class Shown:
    """One item as a reader sees it."""

    item: str
    context: str
    target: str
    gain: str
    scores: str


@dataclass(frozen=True)
class Telling:
    """An arm's best and worst items."""

    arm: str
    against: str
    best: tuple[Shown, ...]
    worst: tuple[Shown, ...]


def telling(material: Material) -> list[Telling]:
    """Of every comparison; items whose text is not kept are shown by name."""
    answers = material.found.answers
    found = []
    for arm in material.found.arms:
        best, worst = extremes(answers[arm.against], answers[arm.name], N_SHOWN)
        if best:
            found.append(Telling(arm.name, arm.against, _shown(best, material), _shown(worst, material)))
    return found


def _shown(given: tuple[Extreme, ...], material: Material) -> tuple[Shown, ...]:
    return tuple(_one(one, material) for one in given)


def _one(extreme: Extreme, material: Material) -> Shown:
    text = material.items.get(extreme.item)
    return Shown(
        extreme.item, "" if text is None else text.context, "" if text is None else text.target,
        signed(extreme.gain, 3), f"{plain(extreme.baseline, 3)} → {plain(extreme.arm, 3)}",
    )  # fmt: skip
