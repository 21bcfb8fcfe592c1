"""Seeds whose number is open are no part of the plan that is locked, and never meet those of a
sweep.
"""

from pathlib import Path
from typing import Any

import pytest
from trained_study import design_table

from paribus.design import Plan, described, estimate_cost, find_design, make_plan
from paribus.design.cells import rate_grid, reported_cells, sweep_cells
from paribus.design.seeds import n_begun_seeds, possible_seeds, reported_seeds
from paribus.design.study_cost import STUDY_SECONDS
from paribus.design.tune import require_fair_sweep
from paribus.errors import SpecError
from paribus.record import open_study
from paribus.spec.design import SWEEP_SEED
from paribus.spec.design_reading import load_design
from paribus.workspace import Execution, Workspace

OPEN = {"seeds": "open"}


def plan_of(cache: Path, changes: dict[str, Any], n_seeds: int | None = None) -> Plan:
    name, design = find_design(design_table(changes))
    return make_plan(
        design,
        name,
        None,
        Execution(Workspace(cache=cache, device="cpu")),
        show_progress=False,
        n_seeds=n_seeds,
    )


def test_an_open_design_has_as_many_seeds_as_are_asked_for_and_five_at_first() -> None:
    design = load_design(design_table(OPEN))
    assert reported_seeds(design) == (1, 2, 3, 4, 5)
    assert reported_seeds(design, 7) == (1, 2, 3, 4, 5, 6, 7)
    assert reported_seeds(load_design(design_table({"seeds": [2, 4, 9]}))) == (2, 4, 9)


def test_a_number_of_seeds_that_cannot_be_meant_is_refused() -> None:
    fixed = load_design(design_table())
    with pytest.raises(
        SpecError,
        match=r"--seeds is 8, but the design lists 3 seeds of its own; leave it out",
    ):
        reported_seeds(fixed, 8)
    for n in (2, SWEEP_SEED):
        with pytest.raises(
            SpecError, match=f"--seeds is {n}; use 3 to 1000, because sweeps use the seeds above"
        ):
            reported_seeds(load_design(design_table(OPEN)), n)


def test_however_many_there_are_none_is_a_sweeps(study_cache: Path) -> None:
    plan = plan_of(study_cache, OPEN | {"tune": {"n_seeds": 20}}, SWEEP_SEED - 1)
    grid = rate_grid(plan.design, plan.arms)
    require_fair_sweep(plan.design, grid)
    assert max(possible_seeds(plan.design)) == max(plan.seeds) == 1000
    assert not {cell.seed for cell in sweep_cells(plan, grid)} & set(possible_seeds(plan.design))


def test_more_seeds_are_the_same_plan_with_the_same_runs_and_more(
    study_cache: Path, tmp_path: Path
) -> None:
    few, more = (plan_of(study_cache, OPEN, n) for n in (None, 8))
    assert few.fingerprint == more.fingerprint
    assert described(few) == described(more)
    rates = {arm.name: 0.01 for arm in few.arms}
    first, all_of_them = (
        [cell.record for cell in reported_cells(plan, rates)] for plan in (few, more)
    )
    assert all_of_them[: len(first)] == first
    kept = open_study(tmp_path, "open")
    kept.add_cells(first)
    assert n_begun_seeds(kept, few.design_fingerprint) == 5
    assert n_begun_seeds(kept, "of another design") == 0
    assert (
        estimate_cost(few, Workspace(tmp_path, device="cpu")).n_runs,
        estimate_cost(more, Workspace(tmp_path, device="cpu")).n_runs,
    ) == (15, 24)
    cost = estimate_cost(few, Workspace(tmp_path, device="cpu"))
    assert cost.flops_per_seed == pytest.approx(cost.flops / 5)
    assert cost.seconds_per_seed == pytest.approx((cost.seconds - STUDY_SECONDS) / 5)


def test_the_rule_that_is_locked_says_how_the_verdict_is_read(study_cache: Path) -> None:
    rules = [plan_of(study_cache, changes).rule for changes in ({}, OPEN)]
    assert rules == [
        (
            "paired t, Bonferroni over one family a report, two one-sided tests for equivalence,"
            " last checkpoint"
        ),
        (
            "paired t past a bound for any number of seeds, Bonferroni over one family a report,"
            " the same interval for equivalence, last checkpoint"
        ),
    ]


def test_an_open_number_is_part_of_the_fingerprint(study_cache: Path) -> None:
    plans = [plan_of(study_cache, changes) for changes in ({}, {"seeds": 5}, OPEN)]
    assert len({plan.design_fingerprint for plan in plans}) == 3
