"""The rate of every arm, found alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from paribus.analyse import Optimum, check_sweep, next_grid, vertex
from paribus.design.cells import Cell
from paribus.design.perform import score
from paribus.design.seeds import possible
from paribus.record import Study
from paribus.spec.design import SWEEP_SEED, Design

DIGITS = 3  # of a rate that a parabola names

Points = dict[str, list[tuple[float, float | None]]]  # arm → rate and score, None where it diverged


def points_of(cells: Iterable[Cell], study: Study) -> Points:
    """What every arm's sweep scored."""
    found: Points = {}
    for cell in cells:
        found.setdefault(cell.arm, []).append((cell.rate, score(cell, study, cell.measures[0])))
    return found


def optima(points: Points) -> dict[str, Optimum]:
    return {arm: vertex(own) for arm, own in points.items()}


def grown(grid: Sequence[float], found: Mapping[str, Optimum], n_extensions: int) -> tuple[float, ...]:
    """The grid with what any arm needs; the same where none does."""
    return next_grid(grid, found.values(), n_extensions)


def rates_of(found: Mapping[str, Optimum]) -> dict[str, float]:
    """The rate of each arm, to a few digits."""
    rates = {}
    for arm, optimum in found.items():
        assert optimum.rate is not None
        rates[arm] = float(f"{optimum.rate:.{DIGITS}g}")
    return rates


def require_fair(design: Design, grid: Sequence[float]) -> None:
    """SpecError where the sweep is too coarse or its seeds are, or could ever be, reported."""
    if design.tune is not None:
        check_sweep(grid, range(SWEEP_SEED, SWEEP_SEED + design.tune.n_seeds), possible(design))


def told(points: Points, found: Mapping[str, Optimum], rates: Mapping[str, float]) -> dict[str, Any]:
    """The sweep as it is kept."""
    return {
        arm: {"rate": rates[arm], "points": [list(point) for point in points[arm]], "optimum": asdict(found[arm])}
        for arm in found
    }
