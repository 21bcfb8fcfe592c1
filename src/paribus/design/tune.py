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
from paribus.analyse.floor_check import (
    AT_FLOOR_REMARK,
    best_point,
    is_above_floor,
    sweep_floor,
)
from paribus.analyse.run_scores import Answers
from paribus.analyse.sweep_losses import Point
from paribus.design.cell_run import (
    cell_held_out_loss,
    cell_reference_score,
    cell_score,
    find_answers,
)
from paribus.design.cells import Cell
from paribus.design.kept_rates import RATE_DIGITS
from paribus.design.seeds import possible_seeds
from paribus.errors import SpecError
from paribus.record import Study
from paribus.spec.design import SWEEP_SEED, Design
from paribus.spec.measure import LIKELIHOOD, Measure


@dataclass
class ArmSweep:
    """What one arm's sweep scored: rates and scores, None where a run failed, and the unigram
    model's score.
    """

    points: list[Point] = field(default_factory=list)
    unigram_score: float | None = None
    n_steps: int = 0
    measure: Measure = LIKELIHOOD
    is_own_loss: bool = False  # are scores the held-out loss of the stage's own objective?
    answers: dict[float, list[Answers]] = field(default_factory=dict)  # of a task, by rate

    @property
    def is_at_floor(self) -> bool:
        """Is no rate above the floor of a task? What has no floor is not at one."""
        return sweep_floor(self.answers) is not None and not is_above_floor(self.answers)


def sweep_scores(cells: Iterable[Cell], study: Study) -> dict[str, ArmSweep]:
    """What every arm's sweep scored."""
    sweeps: dict[str, ArmSweep] = {}
    for cell in cells:
        sweep = sweeps.setdefault(cell.arm, ArmSweep(n_steps=cell.n_steps))
        if not cell.measures:
            sweep.is_own_loss = True
            sweep.points.append((cell.rate, cell_held_out_loss(cell, study)))
            continue
        measure = cell.measures[0]
        sweep.measure = measure.scores
        sweep.points.append((cell.rate, cell_score(cell, study, measure)))
        if sweep.unigram_score is None:
            sweep.unigram_score = cell_reference_score(cell, study, measure)
        if not measure.scores.is_likelihood:
            answers = find_answers(cell, study, measure)
            own = sweep.answers.setdefault(cell.rate, [])
            if answers is not None:
                own.append(answers)
    return sweeps


def rate_optima(
    sweeps: Mapping[str, ArmSweep], grid: Sequence[float], written_rate: float | None = None
) -> dict[str, Optimum]:
    """Each arm's best rate, or what is to be tried next; of an arm at the floor of a task, whose
    sweep says nothing of a rate, the rate as written.
    """
    written_rate = written_rate or grid[len(grid) // 2]
    optima = {}
    for arm, own in sweeps.items():
        if own.is_at_floor:
            optima[arm] = Optimum(
                rate=written_rate,
                inside=True,
                coefficients=None,
                left_out=(),
                remark=AT_FLOOR_REMARK,
                best=written_rate,
            )
        else:
            optima[arm] = refine_vertex(
                own.points, grid, unigram=own.unigram_score, measure=own.measure
            )
    return optima


def require_above_floor(sweeps: Mapping[str, ArmSweep], baseline: str) -> None:
    """SpecError where the baseline is at the floor of the task at every rate: nothing could be
    told of the others.
    """
    own = sweeps[baseline]
    if not own.is_at_floor:
        return
    floor = sweep_floor(own.answers)
    best = best_point(own.points, own.measure.lower_is_better)
    assert floor is not None
    if best is None:
        found = "no run of its sweep trained"
    else:
        found = (
            f"the best rate of its sweep, {best[0]:g}, scores {best[1]:.4g} {own.measure.unit},"
            f" which its items cannot tell from the {floor.value:.4g} of {floor.description}"
        )
    raise SpecError(
        f"tune: {baseline} is at floor: {found}; the study stops here, for arms at the floor cannot"
        " be told apart: use a longer training, a larger model, an easier task or more items"
    )


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


def untuned_record(baseline: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of an arm that was not swept, and takes the rate of the baseline."""
    optimum = Optimum(
        rate=own["rate"],
        inside=True,
        coefficients=None,
        left_out=(),
        remark=f"taught wrongly on purpose, so at the rate of {baseline}",
    )
    return {**own, "grid": [], "points": [], "unigram": None, "optimum": asdict(optimum)}


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
            "own_loss": sweeps[arm].is_own_loss,
            "optimum": asdict(optimum),
        }
    return record
