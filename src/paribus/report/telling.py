"""The items on which an arm gains and loses most, with their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paribus.analyse import Extreme, extremes
from paribus.report.material import Material
from paribus.report.numbers import plain, signed

N_SHOWN = 5
LEAST_LOSS, LEAST_GAIN = "where it loses least", "where it gains least"


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
    best_title: str
    worst_title: str


def telling(material: Material) -> list[Telling]:
    """Of every comparison; items whose text is not kept are shown by name."""
    answers = material.found.answers
    found = []
    for arm in material.found.arms:
        best, worst = extremes(answers[arm.against], answers[arm.name], N_SHOWN)
        if best:
            titles = _titles([one.gain for one in best], [one.gain for one in worst])
            found.append(Telling(arm.name, arm.against, _shown(best, material), _shown(worst, material), *titles))
    return found


def _titles(best: Sequence[float], worst: Sequence[float]) -> tuple[str, str]:
    """What the two ends are, of an arm that may gain nowhere or lose nowhere."""
    gains, loses = max(best) > 0, min(worst) < 0
    mixed = gains and min(best) < 0, loses and max(worst) > 0
    first = "where it gains most, or loses least" if mixed[0] else "where it gains most" if gains else LEAST_LOSS
    last = "where it loses most, or gains least" if mixed[1] else "where it loses most" if loses else LEAST_GAIN
    return first, last


def _shown(given: tuple[Extreme, ...], material: Material) -> tuple[Shown, ...]:
    return tuple(_one(one, material) for one in given)


def _one(extreme: Extreme, material: Material) -> Shown:
    text = material.items.get(extreme.item)
    return Shown(
        extreme.item, "" if text is None else text.context, "" if text is None else text.target,
        signed(extreme.gain, 3), f"{plain(extreme.baseline, 3)} → {plain(extreme.arm, 3)}",
    )  # fmt: skip
