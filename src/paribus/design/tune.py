"""The rate of every arm, found alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from paribus.analyse import Optimum, check_sweep, next_grid, refined_vertex, require_off_plateau
from paribus.analyse.rate_search import Point
from paribus.design.cells import Cell
from paribus.design.perform import score, unigram_score
from paribus.design.seeds import possible
from paribus.record import Study
from paribus.spec.design import SWEEP_SEED, Design

DIGITS = 3  # of a rate that a parabola names


@dataclass
class Swept:
    """What one arm's sweep scored: rates and scores, None where a run failed, and the unigram model's score."""

    points: list[Point] = field(default_factory=list)
    unigram: float | None = None
    n_steps: int = 0


def sweep_scores(cells: Iterable[Cell], study: Study) -> dict[str, Swept]:
    """What every arm's sweep scored."""
    found: dict[str, Swept] = {}
    for cell in cells:
        own = found.setdefault(cell.arm, Swept(n_steps=cell.n_steps))
        own.points.append((cell.rate, score(cell, study, cell.measures[0])))
        if own.unigram is None:
            own.unigram = unigram_score(cell, study, cell.measures[0])
    return found


def optima(swept: Mapping[str, Swept], grid: Sequence[float]) -> dict[str, Optimum]:
    """Each arm's best rate, or what is to be tried next."""
    return {arm: refined_vertex(own.points, grid, unigram=own.unigram) for arm, own in swept.items()}


def grown(grid: Sequence[float], found: Mapping[str, Optimum], n_extensions: int) -> tuple[float, ...]:
    """The grid with what any arm needs; the same where none does."""
    return next_grid(grid, found.values(), n_extensions)


def require_tunable(found: Mapping[str, Optimum], swept: Mapping[str, Swept]) -> None:
    """SpecError where an arm's sweep was too short to tune."""
    require_off_plateau(found, {arm: own.n_steps for arm, own in swept.items()})


def more_rates(before: Mapping[str, tuple[float, ...]], found: Mapping[str, Optimum]) -> dict[str, tuple[float, ...]]:
    """The rates of each arm beside the grid, with those that it is to be tried at next."""
    return {arm: (*before.get(arm, ()), *optimum.tries) for arm, optimum in found.items()}


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


def rates_record(
    swept: Mapping[str, Swept], grid: Sequence[float], found: Mapping[str, Optimum], rates: Mapping[str, float]
) -> dict[str, Any]:
    """The sweep as it is kept."""
    return {
        arm: {
            "rate": rates[arm], "grid": list(grid), "points": [list(point) for point in swept[arm].points],
            "unigram": swept[arm].unigram, "optimum": asdict(found[arm]),
        }
        for arm in found
    }  # fmt: skip
