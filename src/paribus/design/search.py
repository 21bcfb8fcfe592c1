"""Settings of a dial around a target, found without trying them all: the larger the setting, the larger the size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import inf, isfinite

from paribus.design.dials import Dial, turned
from paribus.spec import Architecture

Weighed = tuple[float, Architecture]  # how far above the target, as a part of it
GRIDS = (64, 32, 16, 8, 4, 2, 1)  # multiples that kernels like, best first
NEIGHBOURS = 2  # legal settings looked at on each side of the target
PATIENCE = 64  # settings passed over in search of a legal one: masks by layer or by head want multiples


@dataclass(frozen=True)
class Settings:
    """The settings of one dial of an architecture, each weighed when first asked for."""

    architecture: Architecture
    dial: Dial
    weigh: Callable[[Architecture], float]
    known: dict[int, Weighed | None] = field(default_factory=dict)

    def at(self, setting: int) -> Weighed | None:
        """The architecture there and its error; None where there is no legal one."""
        if setting not in self.known:
            there = turned(self.architecture, self.dial.changes(setting))
            self.known[setting] = None if there is None else (self.weigh(there), there)
        return self.known[setting]

    def legal(self, settings: Iterable[int]) -> Iterator[Weighed]:
        inside = (self.at(setting) for setting in settings if 1 <= setting <= self.dial.most)
        return (weighed for weighed in inside if weighed is not None)

    def error_from(self, setting: int) -> float:
        """The error of the first legal setting from this one up; infinite where there is none near."""
        return next(self.legal(range(setting, setting + PATIENCE)), (inf,))[0]


def nearest(settings: Settings) -> list[Weighed]:
    """The legal settings next to the target on both sides, nearest first."""
    edge = _edge(settings)
    below = islice(settings.legal(range(edge - 1, edge - 1 - PATIENCE, -1)), NEIGHBOURS)
    above = islice(settings.legal(range(edge, edge + PATIENCE)), NEIGHBOURS)
    return sorted((*below, *above), key=_distance)


def roundest(settings: Settings, tolerance: float) -> Weighed | None:
    """The setting nearest to the target on the coarsest grid that meets it within the tolerance; None: none does."""
    edge = _edge(settings)
    for grid in GRIDS:
        beside = settings.legal((edge // grid * grid, edge // grid * grid + grid))
        best = min(beside, key=_distance, default=None)
        if best is not None and _distance(best) <= tolerance:
            return best
    return None


def _distance(weighed: Weighed) -> float:
    return abs(weighed[0])


def _edge(settings: Settings) -> int:
    """The least setting from which on everything is above the target; one past the last where nothing is."""
    below, above = _bracket(settings)
    halve = False
    while above - below > 1:
        middle = (below + above) // 2 if halve else _guess(settings, below, above)
        halve = not halve  # guesses find the edge of a straight line at once, halving that of any other
        if settings.error_from(middle) > 0:
            above = middle
        else:
            below = middle
    return above


def _bracket(settings: Settings) -> tuple[int, int]:
    """A setting not above the target (0: there is none) and one above it, by doubling from where the dial stands."""
    below, above, most = 0, settings.dial.at, settings.dial.most
    while settings.error_from(above) <= 0:
        if above == most:
            return most, most + 1
        below, above = above, min(2 * above, most)
    while below == 0 and above > 1:
        if settings.error_from(above // 2) > 0:
            above //= 2
        else:
            below = above // 2
    return below, above


def _guess(settings: Settings, below: int, above: int) -> int:
    """Where a straight line between two settings meets the target, strictly between them."""
    low, high = (settings.error_from(setting) if setting else -inf for setting in (below, above))
    share = low / (low - high) if isfinite(low) and isfinite(high) and low != high else 0.5
    return min(max(below + round(share * (above - below)), below + 1), above - 1)
