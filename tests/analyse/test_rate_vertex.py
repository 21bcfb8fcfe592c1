"""T15: rates are the vertices of parabolas, grids grow at their edges, and then they are refused."""

from collections.abc import Callable

import numpy as np
import pytest
from draws import N_DRAWS

from paribus.analyse import check_sweep, compare, gains_by_rate, next_grid, tuned_at, vertex
from paribus.analyse.rates import Point
from paribus.errors import SpecError

GRID = tuple(2.0**k for k in range(-12, -7))
Loss = Callable[[float], float]


def _bowl(best: float, curvature: float = 1.0) -> Loss:
    return lambda rate: 3 + curvature * (np.log2(rate) - best) ** 2


def _sweep(loss: Loss, rates: tuple[float, ...] = GRID, diverges_from: float = np.inf) -> list[Point]:
    return [(rate, None if rate >= diverges_from else loss(rate) + seed) for seed in (0, 1) for rate in rates]


def test_the_vertex_of_a_bowl_is_found_between_the_rates() -> None:
    found = vertex(_sweep(_bowl(-10.3)))
    assert found.inside
    assert found.rate == pytest.approx(2**-10.3)
    assert found.coefficients == pytest.approx((1, 20.6, 3.5 + 10.3**2))
    assert (found.left_out, found.needs) == ((), ())


def test_higher_scores_are_better_where_they_are() -> None:
    turned = [(rate, -score) for rate, score in _sweep(_bowl(-9.7)) if score is not None]
    assert vertex(turned, lower_is_better=False).rate == pytest.approx(2**-9.7)
    assert not vertex(turned, lower_is_better=True).inside


def test_rates_where_a_seed_diverged_are_left_out_for_all_seeds() -> None:
    points = _sweep(_bowl(-10.3))
    points[4] = (GRID[4], None)  # of the first seed alone; the second seed is worse everywhere
    found = vertex(points)
    assert found.left_out == (GRID[4],)
    assert found.rate == pytest.approx(2**-10.3)


@pytest.mark.parametrize(("best", "needs"), [(-7, (GRID[-1] * 2, GRID[-1] * 4)), (-14, (GRID[0] / 4, GRID[0] / 2))])
def test_an_optimum_outside_the_grid_asks_for_two_more_rates_at_that_edge(best: float, needs) -> None:
    found = vertex(_sweep(_bowl(best)))
    assert (found.rate, found.inside) == (None, False)
    assert found.needs == pytest.approx(needs)


@pytest.mark.parametrize(("slope", "edge"), [(-1, max), (1, min)])
def test_a_parabola_that_opens_the_wrong_way_asks_for_more_at_its_better_end(slope: float, edge) -> None:
    found = vertex(_sweep(lambda rate: slope * np.log2(rate) - 0.01 * np.log2(rate / GRID[2]) ** 2))
    assert not found.inside
    assert edge(found.needs) == pytest.approx(edge(GRID) * 4.0 ** (1 if edge is max else -1))


def test_rates_below_one_that_diverged_are_tried_in_between() -> None:
    found = vertex(_sweep(_bowl(-8.5), diverges_from=GRID[4]))
    assert found.left_out == (GRID[4],)
    assert found.needs == pytest.approx((GRID[3] * 2 ** (1 / 3), GRID[3] * 2 ** (2 / 3)))


def test_where_most_rates_diverge_lower_ones_are_tried() -> None:
    found = vertex(_sweep(_bowl(-10), diverges_from=GRID[2]))
    assert (found.coefficients, found.needs) == (None, (GRID[0] / 4, GRID[0] / 2))
    assert found.left_out == GRID[2:]


def test_where_only_high_rates_learn_enough_higher_ones_are_tried() -> None:
    found = vertex([(rate, None if rate < GRID[3] else score) for rate, score in _sweep(_bowl(-8))])
    assert (found.coefficients, found.needs) == (None, (GRID[4] * 2, GRID[4] * 4))
    assert found.left_out == GRID[:3]


def test_where_only_rates_in_the_middle_train_those_beside_them_are_tried() -> None:
    found = vertex([(rate, score if rate == GRID[2] else None) for rate, score in _sweep(_bowl(-10))])
    assert found.needs == pytest.approx([GRID[2] * 2 ** (thirds / 3) for thirds in (-2, -1, 1, 2)])


def test_where_no_rate_trains_both_sides_are_tried_and_then_it_is_refused() -> None:
    grid = GRID
    for n_extensions in range(2):
        grid = next_grid(grid, [vertex(_sweep(_bowl(-10), grid, diverges_from=0))], n_extensions)
    assert grid == tuple(2.0**k for k in range(-16, -3))
    with pytest.raises(SpecError, match=r"rates: after 2 extensions, to 1.52588e-05–0.0625, fewer than 3 rates train "
                                        "in an arm; train for longer, or begin with other rates"):  # fmt: skip
        next_grid(grid, [vertex(_sweep(_bowl(-10), grid, diverges_from=0))], 2)


def test_a_cliff_that_pulls_the_vertex_away_is_remarked_on() -> None:
    found = vertex(list(zip(GRID, (3.5, 3.2, 3.0, 2.9, 5.0), strict=True)))
    assert found.remark == "the vertex is 1.4 octaves from the best rate tried: no parabola, or much noise"
    turned = vertex(list(zip(GRID, (-3.5, -3.2, -3.0, -2.9, -5.0), strict=True)), lower_is_better=False)
    assert (turned.remark, turned.rate) == (found.remark, pytest.approx(found.rate))
    assert vertex(_sweep(_bowl(-10.3))).remark == ""


def test_one_grid_serves_all_arms() -> None:
    inside, above = vertex(_sweep(_bowl(-10))), vertex(_sweep(_bowl(-7)))
    assert next_grid(GRID, [inside, inside], 0) == GRID
    assert next_grid(GRID, [inside, above], 0) == (*GRID, GRID[-1] * 2, GRID[-1] * 4)


def test_an_optimum_near_the_grid_is_found_after_an_extension() -> None:
    grid = next_grid(GRID, [vertex(_sweep(_bowl(-7)))], 0)
    assert vertex(_sweep(_bowl(-7), grid)).rate == pytest.approx(2**-7)


@pytest.mark.parametrize(("best", "edge"), [(4, "highest"), (-24, "lowest")])
def test_an_optimum_far_outside_is_refused_after_two_extensions(best: float, edge: str) -> None:
    grid = GRID
    for n_extensions in range(2):
        grid = next_grid(grid, [vertex(_sweep(_bowl(best), grid))], n_extensions)
    assert len(grid) == 9
    found = vertex(_sweep(_bowl(best), grid))
    with pytest.raises(SpecError, match=f"after 2 extensions, to .*, the optimum of an arm is still at the {edge}"):
        next_grid(grid, [found], 2)


def _chosen(rng: np.random.Generator, loss: Loss) -> float:
    grid, n_extensions = GRID, 0
    while True:
        seeds = 3 * rng.normal(size=2)
        points = [(rate, loss(rate) + seed + rng.normal()) for seed in seeds for rate in grid]
        found = vertex(points)
        if found.rate is not None:
            return found.rate
        grid, n_extensions = next_grid(grid, [found], n_extensions), n_extensions + 1


def _picked(rng: np.random.Generator, loss: Loss) -> float:
    means = {rate: loss(rate) + rng.normal() / np.sqrt(2) for rate in GRID}
    return min(means, key=lambda rate: means[rate])


def _false_verdicts(choose: Callable[[np.random.Generator, Loss], float], curvature: float, draws: int) -> float:
    """How often two arms that are as good at their own best rates are told apart, by percent."""
    rng, false = np.random.default_rng(79), 0
    for _ in range(draws):
        losses = [_bowl(best, curvature) for best in rng.uniform(-11, -9, size=2)]
        a, b = (loss(choose(rng, loss)) + rng.normal(size=5) for loss in losses)
        false += compare((a - b).tolist()).verdict.word in ("better", "worse")
    return 100 * false / draws


@pytest.mark.parametrize("curvature", [1, 10])
def test_rates_from_vertices_tell_equal_arms_apart_no_more_often_than_chance(curvature: float) -> None:
    assert _false_verdicts(_chosen, curvature, N_DRAWS) <= 7


def test_rates_picked_off_the_grid_tell_equal_arms_apart() -> None:
    assert _false_verdicts(_picked, 10, 1000) > 12


def test_the_difference_is_shown_at_every_common_rate() -> None:
    baseline, arm = _sweep(_bowl(-10)), _sweep(_bowl(-10.5), (*GRID[1:], GRID[-1] * 2), diverges_from=GRID[4])
    found = gains_by_rate(baseline, arm)
    assert list(found) == list(GRID[1:])
    assert found[GRID[2]] == pytest.approx(-0.25)
    assert found[GRID[4]] is None


def test_a_shorter_sweep_says_so() -> None:
    assert tuned_at(1000, 1000) is None
    assert tuned_at(300, 1200) == "rates tuned at 25 %"


def test_a_sweep_has_a_grid_and_seeds_of_its_own() -> None:
    check_sweep(GRID, [100, 101], range(5))
    check_sweep((1.5e-4, 3e-4, 6e-4, 1.2e-3, 2.4e-3), [100, 101], range(5))
    with pytest.raises(SpecError) as refusal:
        check_sweep((1e-4, 3e-4), [4], range(5))
    assert refusal.value.problems == (
        "rates: 2 given; use a grid of 5 or more, each twice the one before",
        "sweep seeds: 1 given; use 2 or more",
        "sweep seeds: 4 are reported too; use seeds that no verdict sees",
    )
    with pytest.raises(SpecError, match=r"rates: 0\.0001, .*; use a grid in which each doubles the last"):
        check_sweep((1e-4, 2e-4, 5e-4, 1e-3, 2e-3), [100, 101], range(5))


def test_every_rate_has_as_many_scores() -> None:
    with pytest.raises(SpecError, match=r"rates: scores at each rate are 0\.1: 2, 0\.2: 1; give as many at each"):
        vertex([(0.1, 1.0), (0.2, 1.0), (0.1, 2.0)])
    with pytest.raises(SpecError, match="rates: scores at each rate are none"):
        vertex([])
