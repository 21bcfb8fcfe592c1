"""Cells: one run each, an arm under a seed at a rate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from paribus.analyse.bracket import SIDES, bracket_rate
from paribus.corpus import TokenisedCorpus
from paribus.design.ladder import rung_rate
from paribus.design.plan import Plan
from paribus.design.quantities import PlannedArm
from paribus.design.seeds import init_seed, order_seed
from paribus.design.wrong_targets import wrongly_taught_arms
from paribus.record import CellRecord
from paribus.record.study import Purpose
from paribus.spec import resolve
from paribus.spec.design import (
    SWEEP_SEED,
    Design,
    length_arms,
    sweep_yardstick,
)
from paribus.spec.ladder_faults import ladder_others
from paribus.spec.run import RunSpec, Stage
from paribus.spec.training import Training, scaled_training, steps_of_share
from paribus.spec.yardstick import OtherYardstick
from paribus.train.parent import Texts, name_of_run


@dataclass(frozen=True, eq=False)
class Cell:
    """A run to be made, and with what it is measured."""

    arm: str
    seed: int
    rate: float
    purpose: Purpose
    run: RunSpec
    texts: Texts  # one for each stage
    measures: tuple[OtherYardstick, ...]
    flops: float
    design_fingerprint: str  # the fingerprint of the design
    # of the tasks of the plan, by column: the fingerprint of the items that every arm is asked
    items: Mapping[str, str] = field(default_factory=dict)
    size: int | None = None  # d_model of the base, on a rung of a ladder

    @cached_property
    def name(self) -> str:
        """The name of the run's folder: two cells that need the same run share it."""
        return name_of_run(self.run, self.texts)

    @property
    def dataset(self) -> TokenisedCorpus:
        """The text of the last stage, which the run is measured on."""
        return self.texts[-1]

    @property
    def n_steps(self) -> int:
        """Steps of the last stage."""
        return self.run.last.training.n_steps

    @property
    def record(self) -> CellRecord:
        return CellRecord(
            arm=self.arm,
            seed=self.seed,
            rate=self.rate,
            purpose=self.purpose,
            run=self.name,
            n_steps=self.n_steps,
            plan=self.design_fingerprint,
            size=self.size,
        )

    def __str__(self) -> str:
        if self.purpose == "variance":
            order = self.run.last.training.data_seed
            again = f", made again {self.run.rerun}" if self.run.rerun else ""
            return f"{self.arm}, start {self.seed}, order {order}{again}"
        rate = f", rate {self.rate:g}"
        steps = f", {self.n_steps} steps"
        own = {"length": steps}
        own |= dict.fromkeys(("sweep", "stage_sweep", "ladder_sweep", "bracket"), rate)
        rung = "" if self.size is None else f", d_model {self.size}{steps}"
        return f"{self.arm}, seed {self.seed}{own.get(self.purpose, '')}{rung}"


def rate_grid(design: Design, arms: Sequence[PlannedArm]) -> tuple[float, ...]:
    """The first rates every arm is swept over: a factor 2 apart, around the baseline's as
    written.
    """
    assert design.tune is not None
    centre = arms[0].run.last.training.optimizer.rate
    n_below = design.tune.n_rates // 2
    return tuple(centre * 2.0 ** (place - n_below) for place in range(design.tune.n_rates))


def sweep_cells(
    plan: Plan,
    rates: Sequence[float],
    extra_rates: Mapping[str, Sequence[float]] | None = None,
    *,
    is_last: bool = True,
    size: int | None = None,
) -> tuple[Cell, ...]:
    """Every arm at every rate, and at more of its own, under seeds that are never reported; of a
    plan at some `size` of the ladder, if one is given.

    Runs that end with an earlier stage than the plan's last are not measured: what counts is the
    held-out loss of their own objective. So it is in the last stage if the task of the primary
    yardstick must be unseen. A control that is taught wrongly is not swept.
    """
    tune = plan.design.tune
    assert tune is not None
    kind = _cell_kind("stage_sweep", (), plan)
    if is_last:
        measure = sweep_yardstick(plan.design)
        purpose = "sweep" if size is None else "ladder_sweep"
        kind = _cell_kind(purpose, () if measure is None else (measure,), plan)
    cells: list[Cell] = []
    for number in range(tune.n_seeds):
        for rate, arm in _rates_by_arm(plan, rates, extra_rates or {}):
            n_steps = max(2, round(arm.n_steps * tune.share_of(is_last)))
            cell = _cell(kind, arm, SWEEP_SEED + number, rate, n_steps)
            cells.append(cell if size is None else replace(cell, size=size))
    return tuple(cells)


def _rates_by_arm(
    plan: Plan, rates: Sequence[float], extra_rates: Mapping[str, Sequence[float]]
) -> Iterator[tuple[float, PlannedArm]]:
    """Each rate of the grid with each arm, then each arm with the rates that it alone is tried
    at.
    """
    wrong = wrongly_taught_arms(plan.design, plan.arms)
    arms = [arm for arm in plan.arms if arm.name not in wrong]
    yield from itertools.product(rates, arms)
    for arm in arms:
        for rate in extra_rates.get(arm.name, ()):
            yield rate, arm


def reported_cells(plan: Plan, rates: Mapping[str, float]) -> tuple[Cell, ...]:
    """Every arm under every reported seed, seed by seed, so that what is there is paired."""
    measures = (plan.design.primary.measure, *plan.design.others)
    kind = _cell_kind("reported", measures, plan)
    return tuple(
        _cell(kind, arm, seed, rates[arm.name], arm.n_steps)
        for seed, arm in itertools.product(plan.seeds, plan.arms)
    )


def length_cells(plan: Plan, rates: Mapping[str, float]) -> tuple[Cell, ...]:
    """Arms that others are judged against at the design's other lengths, each at the rate tuned
    for its full length.

    The full length is the reported run itself.
    """
    names = length_arms(plan.design)
    arms = [arm for arm in plan.arms if arm.name in names]
    shares = [share for share in plan.design.lengths or () if share < 1]
    kind = _cell_kind("length", (plan.design.primary.measure,), plan)
    return tuple(
        _cell(kind, arm, seed, rates[arm.name], steps_of_share(arm.n_steps, share))
        for seed, arm, share in itertools.product(plan.seeds, arms, shares)
    )


def ladder_cells(
    plan: Plan,
    rates: Mapping[str, float],
    rung_rates: Mapping[int, Mapping[str, float]] | None = None,
    *,
    is_predicted: bool = False,
) -> tuple[Cell, ...]:
    """Every arm at every size and duration of the ladder under its seeds, small runs first; or of
    the run that is predicted. They are measured with the primary yardstick, and with others where
    the ladder says so.

    `rung_rates`, by size and arm, are what sweeps on the ladder have found. Without them,
    `rate_power` leads from the rates of the base to those of other sizes.
    """
    ladder = plan.design.ladder
    if ladder is None:
        return ()
    measures = (plan.design.primary.measure, *ladder_others(plan.design))
    kind = _cell_kind("predicted" if is_predicted else "ladder", measures, plan)
    base_size = resolve(plan.arms[0].run.last_architecture).d_model
    cells: list[Cell] = []
    for rung in plan.rungs:
        if rung.is_predicted != is_predicted:
            continue
        for n_tokens, seed, arm in itertools.product(
            rung.tokens, plan.seeds[: ladder.n_seeds], rung.arms
        ):
            if rung_rates is None:
                rate = rung_rate(ladder, rates[arm.name], rung.size, base_size)
            else:
                rate = rung_rates[rung.size][arm.name]
            cell = _cell(kind, arm, seed, rate, rung.n_steps(arm, n_tokens))
            cells.append(replace(cell, size=rung.size))
    return tuple(cells)


def bracket_cells(plan: Plan, rates: Mapping[str, float]) -> tuple[Cell, ...]:
    """Every arm under every reported seed at half an octave to either side of its rate; none
    unless they are asked for.

    They are measured with the primary yardstick alone.
    """
    if plan.design.tune is None or not plan.design.tune.bracket:
        return ()
    kind = _cell_kind("bracket", (plan.design.primary.measure,), plan)
    return tuple(
        _cell(kind, arm, seed, bracket_rate(rates[arm.name], side), arm.n_steps)
        for side, seed, arm in itertools.product(SIDES, plan.seeds, plan.arms)
    )


class _CellKind(NamedTuple):
    """What cells of one round share."""

    purpose: Purpose
    measures: tuple[OtherYardstick, ...]
    design_fingerprint: str
    items: Mapping[str, str]


def _cell_kind(purpose: Purpose, measures: tuple[OtherYardstick, ...], plan: Plan) -> _CellKind:
    return _CellKind(purpose, measures, plan.design_fingerprint, plan.items)


def _cell(kind: _CellKind, arm: PlannedArm, seed: int, rate: float, n_steps: int) -> Cell:
    """A run of the whole recipe, its last stage scaled to `n_steps`; start and data order have a
    seed each, which is that of every stage.
    """
    seeds = {"seed": init_seed(seed), "data_seed": order_seed(seed)}
    stages = [_with_training(stage, stage.training, seeds) for stage in arm.run.stages]
    training = scaled_training(stages[-1].training, n_steps)
    optimizer = training.optimizer.model_copy(update={"rate": rate})
    stages[-1] = _with_training(stages[-1], training, {"optimizer": optimizer})
    return Cell(
        arm=arm.name,
        seed=seed,
        rate=rate,
        purpose=kind.purpose,
        # under another seed, the stages of a run that this one begins from are other runs
        run=arm.run.model_copy(update={"stages": tuple(stages), "inherited_folders": ()}),
        texts=arm.texts,
        measures=kind.measures,
        flops=arm.earlier_flops + arm.step_cost.training_flops * n_steps,
        design_fingerprint=kind.design_fingerprint,
        items=kind.items,
    )


def _with_training(stage: Stage, training: Training, changes: Mapping[str, Any]) -> Stage:
    """A stage with another training, of which some fields change."""
    return stage.model_copy(update={"training": training.model_copy(update=dict(changes))})
