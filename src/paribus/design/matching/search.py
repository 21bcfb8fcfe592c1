"""Settings of a dial around a target, found without trying them all: the larger the setting,
the larger the size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import inf, isfinite

from paribus.design.matching.dials import Dial, try_changes
from paribus.spec import Architecture

Candidate = tuple[float, Architecture]  # how far above the target, as a part of it
PREFERRED_MULTIPLES = (64, 32, 16, 8, 4, 2, 1)  # multiples that kernels like, best first
N_NEIGHBOURS = 2  # legal settings looked at on each side of the target
MAX_ILLEGAL = (
    64  # settings passed over in search of a legal one: masks by layer or by head want multiples
)


@dataclass(frozen=True)
class DialSettings:
    """The settings of one dial of an architecture, each weighed when first asked for."""

    architecture: Architecture
    dial: Dial
    size_error: Callable[[Architecture], float]
    candidates: dict[int, Candidate | None] = field(default_factory=dict)

    def candidate_at(self, setting: int) -> Candidate | None:
        """The architecture there and its error; None where there is no legal one."""
        if setting not in self.candidates:
            there = try_changes(self.architecture, self.dial.changes_for(setting))
            if there is None:
                self.candidates[setting] = None
            else:
                self.candidates[setting] = (self.size_error(there), there)
        return self.candidates[setting]

    def legal_candidates(self, settings: Iterable[int]) -> Iterator[Candidate]:
        for setting in settings:
            if 1 <= setting <= self.dial.maximum:
                candidate = self.candidate_at(setting)
                if candidate is not None:
                    yield candidate

    def error_from(self, setting: int) -> float:
        """The error of the first legal setting from this one up; infinite where there is none
        near.
        """
        return next(self.legal_candidates(range(setting, setting + MAX_ILLEGAL)), (inf,))[0]


def nearest_candidates(settings: DialSettings) -> list[Candidate]:
    """The legal settings next to the target on both sides, nearest first."""
    edge = _edge(settings)
    below = islice(
        settings.legal_candidates(range(edge - 1, edge - 1 - MAX_ILLEGAL, -1)), N_NEIGHBOURS
    )
    above = islice(settings.legal_candidates(range(edge, edge + MAX_ILLEGAL)), N_NEIGHBOURS)
    return sorted((*below, *above), key=_distance)


def roundest_candidate(settings: DialSettings, tolerance: float) -> Candidate | None:
    """The setting nearest to the target on the coarsest grid that meets it within the
    tolerance; None: none does.
    """
    edge = _edge(settings)
    for grid in PREFERRED_MULTIPLES:
        beside = settings.legal_candidates((edge // grid * grid, edge // grid * grid + grid))
        best = min(beside, key=_distance, default=None)
        if best is not None and _distance(best) <= tolerance:
            return best
    return None


def _distance(candidate: Candidate) -> float:
    return abs(candidate[0])


def _edge(settings: DialSettings) -> int:
    """The least setting from which on everything is above the target; one past the last where
    nothing is.
    """
    below, above = _bracket(settings)
    halve = False
    while above - below > 1:
        if halve:
            middle = (below + above) // 2
        else:
            middle = _guess(settings, below, above)
        # guesses find the edge of a straight line at once, halving that of any other
        halve = not halve
        if settings.error_from(middle) > 0:
            above = middle
        else:
            below = middle
    return above


def _bracket(settings: DialSettings) -> tuple[int, int]:
    """A setting not above the target (0: there is none) and one above it, by doubling from
    where the dial stands.
    """
    below, above, most = 0, settings.dial.current, settings.dial.maximum
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


def _guess(settings: DialSettings, below: int, above: int) -> int:
    """Where a straight line between two settings meets the target, strictly between them."""
    low = settings.error_from(below) if below else -inf
    high = settings.error_from(above)
    if isfinite(low) and isfinite(high) and low != high:
        share = low / (low - high)
    else:
        share = 0.5
    return min(max(below + round(share * (above - below)), below + 1), above - 1)
