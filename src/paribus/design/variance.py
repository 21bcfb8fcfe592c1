"""Runs that show where the noise comes from: starts and orders of the text crossed, and the
same run made again.

All are of the baseline at its rate. Start i and order j are those of the i-th and j-th reported
seed, so a run with i = j is the reported one and is not made twice. Where determinism was turned
off on CUDA, the first reported run of the baseline is made again whether or not the design asks:
what a seed does not fix there must be known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from paribus.design.cells import Cell, reported_cells
from paribus.design.plan import Plan
from paribus.design.seeds import order_seed, possible_seeds
from paribus.spec.run import RunSpec

MIN_RERUNS = 2  # where a seed does not fix a run


@dataclass(frozen=True)
class Crossing:
    """How many starts, orders and reruns there are; one start and one order are no crossing,
    only what is rerun.
    """

    n_inits: int
    n_orders: int
    n_reruns: int

    @property
    def n_new_runs(self) -> int:
        """Those that are not reported runs."""
        return self.n_inits * self.n_orders - min(self.n_inits, self.n_orders) + self.n_reruns


def noise_crossing(plan: Plan) -> Crossing | None:
    """What a plan measures of its noise; None where it measures nothing."""
    variance, least = plan.design.variance, 0 if _is_deterministic(plan) else MIN_RERUNS
    if variance is not None:
        return Crossing(variance.inits, variance.orders, max(variance.reruns, least))
    if least:
        return Crossing(1, 1, least)
    return None


def _is_deterministic(plan: Plan) -> bool:
    """Does a seed fix a run of the baseline?"""
    training = plan.arms[0].run.last.training
    return training.deterministic or "cuda" not in plan.environment["device"]


def variance_cells(plan: Plan, rates: Mapping[str, float]) -> tuple[Cell, ...]:
    """Every start under every order, then the first of them again and again; measured by the
    primary yardstick.
    """
    crossing = noise_crossing(plan)
    if crossing is None:
        return ()
    seeds = possible_seeds(plan.design)[: max(crossing.n_inits, crossing.n_orders)]
    starts = []
    for cell in reported_cells(replace(plan, seeds=seeds), rates):
        if cell.arm == plan.arms[0].name:
            starts.append(replace(cell, purpose="variance", measures=cell.measures[:1]))
    cells = []
    for start, seed in product(starts[: crossing.n_inits], seeds[: crossing.n_orders]):
        cells.append(_under_order(start, seed))
    for number in range(1, crossing.n_reruns + 1):
        cells.append(_under_order(starts[0], seeds[0], number))
    return tuple(cells)


def _under_order(cell: Cell, seed: int, rerun: int = 0) -> Cell:
    """The cell's start under the order of another seed, for the `rerun`-th time more."""
    return replace(cell, run=_run_under_order(cell.run, order_seed(seed), rerun))


def _run_under_order(run: RunSpec, data_seed: int, rerun: int) -> RunSpec:
    stages = []
    for stage in run.stages:
        training = stage.training.model_copy(update={"data_seed": data_seed})
        stages.append(stage.model_copy(update={"training": training}))
    return run.model_copy(update={"stages": tuple(stages), "rerun": rerun})
