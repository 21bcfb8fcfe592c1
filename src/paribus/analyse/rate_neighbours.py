"""The best rate of a sweep and its neighbours, or the rates to be tried before it has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

from paribus.analyse.sweep_losses import SweepLosses

# octaves from the best rate, tried in turn where the neighbour is of no use
NEIGHBOUR_OCTAVES = (0.5, 0.25)
_DIGITS = 4  # of a rate that is tried beside the grid
ROUNDING_OCTAVES = 0.01  # slack where distances between rates are compared


@dataclass(frozen=True)
class Neighbourhood:
    """The best of some rates with a neighbour on each side, or what must be tried before it has
    them.
    """

    best: float | None
    neighbours: tuple[float, ...] = ()  # the neighbours there are
    tries: tuple[float, ...] = ()
    needs: tuple[float, ...] = ()


def locate_best(sweep: SweepLosses, known_rates: Sequence[float]) -> Neighbourhood:
    """The best of the known rates, and what is beside it."""
    usable = sweep.usable_losses(known_rates)
    if not usable:
        return Neighbourhood(
            None,
            needs=(
                *_rates_past_edge(min(known_rates), 0.5),
                *_rates_past_edge(max(known_rates), 2.0),
            ),
        )
    lowest = min(usable.values())
    # scores in steps may be equal: the middle of the best ones
    equals = sorted(rate for rate, loss in usable.items() if loss == lowest)
    best = equals[len(equals) // 2]
    below = _find_neighbour(best, known_rates, usable, -1)
    above = _find_neighbour(best, known_rates, usable, 1)
    return Neighbourhood(
        best,
        below.neighbours + above.neighbours,
        below.tries + above.tries,
        below.needs + above.needs,
    )


def _find_neighbour(
    best: float, known_rates: Sequence[float], usable: Mapping[float, float], direction: int
) -> Neighbourhood:
    """The neighbour on one side of the best rate, or what is to be tried there; nothing at a
    cliff.
    """
    beyond = [rate for rate in known_rates if (rate > best) == (direction > 0) and rate != best]
    if not beyond:
        return Neighbourhood(best, needs=_rates_past_edge(best, 2.0**direction))
    near = min(beyond, key=lambda rate: abs(log2(rate / best)))
    if near in usable:
        return Neighbourhood(best, neighbours=(near,))
    gap = abs(log2(near / best))
    for step in NEIGHBOUR_OCTAVES:
        if step < gap - ROUNDING_OCTAVES:
            return Neighbourhood(best, tries=(round_rate(best * 2 ** (direction * step)),))
    return Neighbourhood(best)


def _rates_past_edge(edge: float, factor: float) -> tuple[float, ...]:
    """Two rates past the edge of the grid."""
    return tuple(sorted((edge * factor, edge * factor**2)))


def round_rate(rate: float) -> float:
    return float(f"{rate:.{_DIGITS}g}")
