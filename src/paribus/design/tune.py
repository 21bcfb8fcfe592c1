"""The rate of every arm, found alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from paribus.analyse import (
    Optimum,
    extend_grid,
    refine_vertex,
    require_off_plateau,
    require_valid_sweep,
)
from paribus.analyse.sweep_losses import Point
from paribus.design.cell_run import cell_held_out_loss, cell_reference_score, cell_score
from paribus.design.cells import Cell
from paribus.design.seeds import possible_seeds
from paribus.record import Study
from paribus.spec.design import SWEEP_SEED, Design
from paribus.spec.measure import LIKELIHOOD, Measure

RATE_DIGITS = 3  # of a rate that a parabola names


@dataclass
class ArmSweep:
    """What one arm's sweep scored: rates and scores, None where a run failed, and the unigram
    model's score.
    """

    points: list[Point] = field(default_factory=list)
    unigram_score: float | None = None
    n_steps: int = 0
    measure: Measure = LIKELIHOOD


def sweep_scores(cells: Iterable[Cell], study: Study) -> dict[str, ArmSweep]:
    """What every arm's sweep scored."""
    sweeps: dict[str, ArmSweep] = {}
    for cell in cells:
        sweep = sweeps.setdefault(cell.arm, ArmSweep(n_steps=cell.n_steps))
        if not cell.measures:
            sweep.points.append((cell.rate, cell_held_out_loss(cell, study)))
            continue
        measure = cell.measures[0]
        sweep.measure = measure.scores
        sweep.points.append((cell.rate, cell_score(cell, study, measure)))
        if sweep.unigram_score is None:
            sweep.unigram_score = cell_reference_score(cell, study, measure)
    return sweeps


def rate_optima(sweeps: Mapping[str, ArmSweep], grid: Sequence[float]) -> dict[str, Optimum]:
    """Each arm's best rate, or what is to be tried next."""
    optima = {}
    for arm, own in sweeps.items():
        optima[arm] = refine_vertex(
            own.points, grid, unigram=own.unigram_score, measure=own.measure
        )
    return optima


def extended_grid(
    grid: Sequence[float], optima_by_arm: Mapping[str, Optimum], n_extensions: int
) -> tuple[float, ...]:
    """The grid with what any arm needs; the same where none does."""
    return extend_grid(grid, optima_by_arm.values(), n_extensions)


def require_tunable(optima_by_arm: Mapping[str, Optimum], sweeps: Mapping[str, ArmSweep]) -> None:
    """SpecError where an arm's sweep was too short to tune."""
    require_off_plateau(optima_by_arm, {arm: own.n_steps for arm, own in sweeps.items()})


def next_extra_rates(
    extra_rates: Mapping[str, tuple[float, ...]], optima_by_arm: Mapping[str, Optimum]
) -> dict[str, tuple[float, ...]]:
    """The rates of each arm beside the grid, with those that it is to be tried at next."""
    rates = {}
    for arm, optimum in optima_by_arm.items():
        rates[arm] = (*extra_rates.get(arm, ()), *optimum.tries)
    return rates


def tuned_rates(optima_by_arm: Mapping[str, Optimum]) -> dict[str, float]:
    """The rate of each arm, to a few digits."""
    rates = {}
    for arm, optimum in optima_by_arm.items():
        assert optimum.rate is not None
        rates[arm] = float(f"{optimum.rate:.{RATE_DIGITS}g}")
    return rates


def require_fair_sweep(design: Design, grid: Sequence[float]) -> None:
    """SpecError where the sweep is too coarse or its seeds are, or could ever be, reported."""
    if design.tune is not None:
        require_valid_sweep(
            grid, range(SWEEP_SEED, SWEEP_SEED + design.tune.n_seeds), possible_seeds(design)
        )


def rates_record(
    sweeps: Mapping[str, ArmSweep],
    grid: Sequence[float],
    optima_by_arm: Mapping[str, Optimum],
    rates: Mapping[str, float],
) -> dict[str, Any]:
    """The sweep as it is kept."""
    record = {}
    for arm, optimum in optima_by_arm.items():
        record[arm] = {
            "rate": rates[arm],
            "grid": list(grid),
            "points": list(map(list, sweeps[arm].points)),
            "unigram": sweeps[arm].unigram_score,
            "optimum": asdict(optimum),
        }
    return record
