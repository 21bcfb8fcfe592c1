"""The first fit: a parabola through the best rate and its neighbours; grids grow at their
edges, then are refused.
"""

from collections.abc import Callable

import numpy as np
import pytest
from measures import HIGHER, LOWER

from paribus.analyse import (
    extend_grid,
    fit_vertex,
    gains_by_rate,
    require_off_plateau,
    require_valid_sweep,
    short_sweep_remark,
)
from paribus.analyse.sweep_losses import Point
from paribus.errors import SpecError

GRID = tuple(2.0**k for k in range(-12, -7))
Loss = Callable[[float], float]


def _bowl(best: float, curvature: float = 1.0) -> Loss:
    return lambda rate: 3 + curvature * (np.log2(rate) - best) ** 2


def _sweep(
    loss: Loss, rates: tuple[float, ...] = GRID, diverges_from: float = np.inf
) -> list[Point]:
    return [
        (rate, None if rate >= diverges_from else loss(rate) + seed)
        for seed in (0, 1)
        for rate in rates
    ]


def test_the_vertex_of_a_bowl_is_found_between_the_rates() -> None:
    found = fit_vertex(_sweep(_bowl(-10.3)))
    assert found.inside
    assert found.rate == pytest.approx(2**-10.3)
    assert found.coefficients == pytest.approx((1, 20.6, 3.5 + 10.3**2))
    assert (found.left_out, found.needs, found.tries) == ((), (), ())
    assert found.fitted == GRID[1:4]


def test_higher_scores_are_better_where_they_are() -> None:
    turned = [(rate, -score) for rate, score in _sweep(_bowl(-9.7)) if score is not None]
    found = fit_vertex(turned, measure=HIGHER)
    assert found.rate == pytest.approx(2**-9.7)
    assert found.coefficients == pytest.approx((-1, -19.4, -3.5 - 9.7**2))
    assert not fit_vertex(turned, measure=LOWER).inside


MEASURED = [(0.0005, 1.9718), (0.001, 1.7970), (0.002, 1.7245), (0.004, 1.7320)] * 2


@pytest.mark.parametrize("unigram", [None, 2.54])
def test_a_highest_rate_that_is_finite_and_bad_moves_the_vertex_no_more_than_one_that_diverged(
    unigram,
) -> None:
    diverged = fit_vertex([*MEASURED, *[(0.008, None)] * 2], unigram=unigram)
    bad = fit_vertex([*MEASURED, *[(0.008, 2.2272)] * 2], unigram=unigram)
    assert bad.rate == diverged.rate == pytest.approx(0.00265, rel=0.001)


def test_rates_where_a_seed_diverged_are_left_out_for_all_seeds() -> None:
    points = _sweep(_bowl(-10.3))
    points[4] = (GRID[4], None)  # of the first seed alone; the second seed is worse everywhere
    found = fit_vertex(points)
    assert found.left_out == (GRID[4],)
    assert found.rate == pytest.approx(2**-10.3)


@pytest.mark.parametrize(
    ("best", "needs"), [(-7, (GRID[-1] * 2, GRID[-1] * 4)), (-14, (GRID[0] / 4, GRID[0] / 2))]
)
def test_an_optimum_outside_the_grid_asks_for_two_more_rates_at_that_edge(
    best: float, needs
) -> None:
    found = fit_vertex(_sweep(_bowl(best)))
    assert (found.rate, found.inside) == (None, False)
    assert found.needs == pytest.approx(needs)


@pytest.mark.parametrize(("slope", "edge"), [(-1, max), (1, min)])
def test_a_curve_that_bends_the_wrong_way_asks_for_more_at_its_better_end(
    slope: float, edge
) -> None:
    found = fit_vertex(
        _sweep(lambda rate: slope * np.log2(rate) - 0.01 * np.log2(rate / GRID[2]) ** 2)
    )
    assert not found.inside
    assert edge(found.needs) == pytest.approx(edge(GRID) * 4.0 ** (1 if edge is max else -1))


def test_beside_a_rate_that_diverged_half_an_octave_is_tried_and_then_a_quarter() -> None:
    first = fit_vertex(_sweep(_bowl(-8.5), diverges_from=GRID[4]))
    assert (first.left_out, first.needs) == ((GRID[4],), ())
    assert first.tries == pytest.approx([GRID[3] * 2**0.5], rel=1e-3)
    rates = (*GRID[:4], *first.tries, GRID[4])
    second = fit_vertex(_sweep(_bowl(-9.1), rates, diverges_from=first.tries[0]))
    assert second.tries == pytest.approx([GRID[3] * 2**0.25], rel=1e-3)
    third = fit_vertex(
        _sweep(_bowl(-9.1), (*GRID[:4], *second.tries, *rates[4:]), diverges_from=first.tries[0])
    )
    assert third.rate == pytest.approx(2**-9.1)
    assert third.fitted == (GRID[2], GRID[3], *second.tries)


def test_a_rate_that_lost_a_tenth_of_what_the_best_gained_is_no_neighbour() -> None:
    points = [
        (rate, 2 + lost)
        for rate, lost in zip(GRID, (0.3, 0.05, 0.0, 0.101, 0.9), strict=True)
        for _ in (0, 1)
    ]
    found = fit_vertex(points, unigram=3.0)
    assert found.tries == pytest.approx([GRID[2] * 2**0.5], rel=1e-3)
    assert found.left_out == (GRID[0], *GRID[3:])
    assert fit_vertex(points, unigram=3.02).fitted == GRID[1:4]


def test_a_cliff_within_a_quarter_of_an_octave_takes_the_best_rate_tried_with_a_remark() -> None:
    rates = (*GRID[:4], GRID[3] * 2**0.25, GRID[3] * 2**0.5, GRID[4])
    found = fit_vertex(_sweep(_bowl(-8), rates, diverges_from=rates[4]))
    assert (found.rate, found.coefficients, found.excess, found.interval) == (
        GRID[3],
        None,
        None,
        None,
    )
    assert (
        found.remark
        == "a quarter of an octave beside the best rate tried no run is of use: it was taken"
        " without a fit"
    )


def test_where_no_rate_trains_both_sides_are_tried_and_then_it_is_refused() -> None:
    grid = GRID
    for n_extensions in range(2):
        grid = extend_grid(
            grid, [fit_vertex(_sweep(_bowl(-10), grid, diverges_from=0))], n_extensions
        )
    assert grid == tuple(2.0**k for k in range(-16, -3))
    with pytest.raises(
        SpecError,
        match=r"rates: after 2 extensions, to 1.52588e-05–0.0625, no run of an arm leaves "
        "the plateau of the unigram model: too short to tune; raise tune.share or "
        "training.n_steps, or begin with other rates",
    ):
        extend_grid(grid, [fit_vertex(_sweep(_bowl(-10), grid, diverges_from=0))], 2)


def test_one_grid_serves_all_arms() -> None:
    inside, above = fit_vertex(_sweep(_bowl(-10))), fit_vertex(_sweep(_bowl(-7)))
    assert extend_grid(GRID, [inside, inside], 0) == GRID
    assert extend_grid(GRID, [inside, above], 0) == (*GRID, GRID[-1] * 2, GRID[-1] * 4)


def test_an_optimum_near_the_grid_is_found_after_an_extension() -> None:
    grid = extend_grid(GRID, [fit_vertex(_sweep(_bowl(-7)))], 0)
    assert fit_vertex(_sweep(_bowl(-7), grid)).rate == pytest.approx(2**-7)


@pytest.mark.parametrize(("best", "edge"), [(4, "highest"), (-24, "lowest")])
def test_an_optimum_far_outside_is_refused_after_two_extensions(best: float, edge: str) -> None:
    grid = GRID
    for n_extensions in range(2):
        grid = extend_grid(grid, [fit_vertex(_sweep(_bowl(best), grid))], n_extensions)
    assert len(grid) == 9
    found = fit_vertex(_sweep(_bowl(best), grid))
    with pytest.raises(
        SpecError, match=f"after 2 extensions, to .*, the optimum of an arm is still at the {edge}"
    ):
        extend_grid(grid, [found], 2)


def test_a_sweep_that_has_not_left_the_plateau_is_too_short_to_tune() -> None:
    found = {
        "plain": fit_vertex(_sweep(_bowl(-10, 0.1)), unigram=9.0),
        "slow": fit_vertex(_sweep(_bowl(-10)), unigram=3.53),
    }
    assert found["slow"].gained == pytest.approx(0.03 / 3.53)
    with pytest.raises(
        SpecError,
        match=r"tune: the sweep of slow is too short to tune: after 240 steps its best run, "
        r"at the rate 0.000976562, gained 0.85% over the unigram model, and 1% is "
        r"needed; raise tune.share or training.n_steps",
    ) as refusal:
        require_off_plateau(found, {"plain": 240, "slow": 240})
    assert len(refusal.value.problems) == 1
    near = fit_vertex(_sweep(_bowl(-10, 0.005)), unigram=3.6)
    require_off_plateau({"slow": near}, {"slow": 240})
    assert (
        near.remark
        == "its best run gained only 2.8% over the unigram model: the sweep may be too short"
    )
    edge = fit_vertex(_sweep(_bowl(-14)), unigram=7.52)
    require_off_plateau({"slow": edge}, {"slow": 240})  # rates beyond the grid are tried first
    with pytest.raises(SpecError, match=r"after 2 extensions, .*: too short to tune"):
        extend_grid(GRID, [edge], 2)


def test_the_difference_is_shown_at_every_common_rate() -> None:
    baseline, arm = (
        _sweep(_bowl(-10)),
        _sweep(_bowl(-10.5), (*GRID[1:], GRID[-1] * 2), diverges_from=GRID[4]),
    )
    found = gains_by_rate(baseline, arm)
    assert list(found) == list(GRID[1:])
    assert found[GRID[2]] == pytest.approx(-0.25)
    assert found[GRID[4]] is None
    assert list(gains_by_rate(baseline, arm, grid=GRID[:3])) == list(GRID[1:3])


def test_a_shorter_sweep_says_so() -> None:
    assert short_sweep_remark(1000, 1000) is None
    assert short_sweep_remark(300, 1200) == "rates tuned at 25 %"


def test_a_sweep_has_a_grid_and_seeds_of_its_own() -> None:
    require_valid_sweep(GRID, [100, 101], range(5))
    require_valid_sweep((1.5e-4, 3e-4, 6e-4, 1.2e-3, 2.4e-3), [100, 101], range(5))
    with pytest.raises(SpecError) as refusal:
        require_valid_sweep((1e-4, 3e-4), [4], range(5))
    assert refusal.value.problems == (
        "rates: 2 given; use a grid of 5 or more, each twice the one before",
        "sweep seeds: 1 given; use 2 or more",
        "sweep seeds: 4 are reported too; use seeds that no verdict sees",
    )
    with pytest.raises(
        SpecError, match=r"rates: 0\.0001, .*; use a grid in which each doubles the last"
    ):
        require_valid_sweep((1e-4, 2e-4, 5e-4, 1e-3, 2e-3), [100, 101], range(5))


def test_every_rate_has_as_many_scores() -> None:
    with pytest.raises(
        SpecError, match=r"rates: scores at each rate are 0\.1: 2, 0\.2: 1; give as many at each"
    ):
        fit_vertex([(0.1, 1.0), (0.2, 1.0), (0.1, 2.0)])
    with pytest.raises(SpecError, match="rates: scores at each rate are none"):
        fit_vertex([])
