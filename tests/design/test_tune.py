"""Rates are found alike: one grid for all arms, extended twice at most, and an optimum outside
it is refused.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log2
from pathlib import Path

import pytest
from trained_study import make_small_plan

from paribus.analyse import Optimum
from paribus.design.cells import rate_grid
from paribus.design.tune import (
    ArmSweep,
    extended_grid,
    next_extra_rates,
    rate_optima,
    rates_record,
    require_fair_sweep,
    require_tunable,
    tuned_rates,
)
from paribus.errors import SpecError

GRID = (0.25, 0.5, 1.0, 2.0, 4.0)


def planted(best: float, rates: Sequence[float] = GRID) -> ArmSweep:
    """Two seeds on a parabola in octaves around `best`."""
    points = [
        (rate, (log2(rate) - log2(best)) ** 2 + 3 + seed) for seed in (0, 1) for rate in rates
    ]
    return ArmSweep(list[tuple[float, float | None]](points), n_steps=24)


def test_the_rate_of_an_arm_is_the_vertex_to_a_few_digits() -> None:
    swept = {"a": planted(0.777123), "b": planted(1.5)}
    found = rate_optima(swept, GRID)
    assert extended_grid(GRID, found, 0) == GRID
    more = next_extra_rates({}, found)
    assert more["a"] == pytest.approx((0.777123 * 2**-0.5, 0.777123 * 2**0.5), rel=1e-3)
    swept = {"a": planted(0.777123, (*GRID, *more["a"])), "b": planted(1.5, (*GRID, *more["b"]))}
    found = rate_optima(swept, GRID)
    assert next_extra_rates(more, found) == more
    assert tuned_rates(found) == {"a": 0.777, "b": 1.5}
    kept = rates_record(swept, GRID, found, tuned_rates(found))
    assert kept["a"]["rate"] == 0.777
    assert kept["a"]["grid"] == list(GRID)
    assert len(kept["b"]["points"]) == 14
    assert kept["a"]["optimum"]["inside"] is True
    assert kept["a"]["unigram"] is None


def test_the_grid_grows_for_all_arms_where_one_needs_it_and_is_refused_in_the_end() -> None:
    grid = GRID
    for extension in range(2):
        found = rate_optima({"a": planted(0.8, grid), "b": planted(1000, grid)}, grid)
        longer = extended_grid(grid, found, extension)
        assert longer[: len(grid)] == grid
        assert len(longer) == len(grid) + 2
        grid = longer
    with pytest.raises(
        SpecError,
        match=r"rates: after 2 extensions, to 0.25–64, the optimum of an arm is still at the "
        "highest rate that trains; begin again with a grid around",
    ):
        extended_grid(
            grid, rate_optima({"a": planted(0.8, grid), "b": planted(1000, grid)}, grid), 2
        )


def test_a_diverged_rate_is_left_out_for_all_seeds() -> None:
    points = [(rate, None if rate > 3 else score) for rate, score in planted(1.0).points]
    assert rate_optima({"a": ArmSweep(points)}, GRID)["a"].left_out == (4.0,)


def test_a_sweep_on_the_plateau_of_the_unigram_model_is_refused_with_its_length() -> None:
    swept = {"a": replace(planted(1.0), unigram_score=3.51), "b": planted(1.0)}
    with pytest.raises(
        SpecError,
        match="the sweep of a is too short to tune: after 24 steps its best run, at the rate",
    ):
        require_tunable(rate_optima(swept, GRID), swept)


def test_a_sweep_is_fine_enough_and_its_seeds_are_not_reported(study_cache: Path) -> None:
    plan = make_small_plan(study_cache, {"tune": True})
    require_fair_sweep(plan.design, rate_grid(plan.design, plan.arms))
    with pytest.raises(SpecError, match="rates: 2 given; use a grid of 5 or more"):
        require_fair_sweep(plan.design, (1.0, 2.0))
    require_fair_sweep(make_small_plan(study_cache).design, (1.0,))


def test_an_optimum_outside_has_no_rate() -> None:
    found: dict[str, Optimum] = rate_optima({"a": planted(1000)}, GRID)
    assert found["a"].rate is None
    assert found["a"].needs == (8.0, 16.0)
