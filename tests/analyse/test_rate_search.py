"""The whole search of a rate: the first fit, two rates beside its vertex, the second fit;
interrupted or not.
"""

from math import log2

import pytest
from planted_sweep import run_sweep

from paribus.analyse import refine_vertex
from paribus.analyse.sweep_losses import Point

GRID = tuple(2.0**k for k in range(-12, -7))
UNIGRAM = 2.54


def _curve(rate: float) -> float:
    """A little steeper below its optimum, as measured curves are."""
    away = log2(rate) + 10.2
    return 1.72 + 0.04 * away**2 - 0.003 * away**3


def _draw(rate: float) -> list[float | None]:
    return [_curve(rate), _curve(rate) + 0.001]


def test_two_rates_beside_the_first_vertex_are_tried_and_the_second_fit_takes_an_octave() -> None:
    grid_points: list[Point] = [(rate, score) for rate in GRID for score in _draw(rate)]
    first = refine_vertex(grid_points, GRID, unigram=UNIGRAM)
    assert (first.rate, first.inside, first.needs) == (None, False, ())
    middle = (log2(first.tries[0]) + log2(first.tries[1])) / 2
    assert middle == pytest.approx(-10.2, abs=0.05)
    assert log2(first.tries[1] / first.tries[0]) == pytest.approx(1, abs=0.001)
    found, points = run_sweep(GRID, _draw, UNIGRAM)
    assert len(points) == 2 * (5 + 2)
    assert found.fitted == tuple(sorted((*GRID[1:4], *first.tries)))
    assert log2(found.rate or 0) == pytest.approx(-10.2, abs=0.03)
    assert found.remark == ""
    low, high = found.interval or (0, 0)
    assert low < (found.rate or 0) < high
    assert found.excess is not None


def test_a_search_goes_on_from_any_part_of_its_points_as_it_would_have() -> None:
    def draw(rate: float) -> list[float | None]:
        return [None, None] if rate > 2**-9.3 else _draw(rate * 2**-0.9)

    found, points = run_sweep(GRID, draw, UNIGRAM)
    for n in range(10, len(points), 2):
        later = refine_vertex(points[:n], GRID, unigram=UNIGRAM)
        assert set(later.tries) & {rate for rate, _ in points[n:]}
        assert later.rate is None
    assert refine_vertex(points[::-1], GRID, unigram=UNIGRAM).rate == pytest.approx(found.rate)


def test_a_rate_beside_the_vertex_that_fails_is_left_out_of_the_second_fit() -> None:
    def draw(rate: float) -> list[float | None]:
        return [_curve(rate), None] if 2**-9.9 < rate < 2**-9.1 else _draw(rate)

    found, _ = run_sweep(GRID, draw, UNIGRAM)
    assert len(found.fitted) == 4
    assert log2(found.rate or 0) == pytest.approx(-10.2, abs=0.05)


def test_the_second_vertex_stays_within_half_an_octave_of_the_first() -> None:
    def draw(rate: float) -> list[float | None]:
        tilt = 0.3 * (log2(rate) + 10) if rate not in GRID else 0.0
        loss = 2 + 0.04 * (log2(rate) + 10) ** 2 - tilt
        return [loss, loss + 0.001]

    found, points = run_sweep(GRID, draw)
    tries = [rate for rate, _ in points if rate not in GRID]
    first = (log2(min(tries)) + log2(max(tries))) / 2
    assert log2(found.rate or 0) - first == pytest.approx(0.5, abs=0.001)
    assert found.remark.startswith(
        "the second vertex was 0.75 octaves from the first, and was held to half an octave"
    )


def test_a_second_parabola_that_opens_downward_takes_the_best_rate_tried_with_a_remark() -> None:
    def draw(rate: float) -> list[float | None]:
        raised = 0.2 if rate not in GRID else 0.0
        return [3 + raised + 0.01 * (log2(rate) + 10) ** 2 + seed for seed in (0.0, 0.001)]

    found, _ = run_sweep(GRID, draw)
    assert (found.rate, found.inside) == (2.0**-10, True)
    assert (found.coefficients, found.interval, found.excess) == (None, None, None)
    assert found.remark == "the parabola opens downward: the best rate tried was taken"


def test_a_poor_fit_is_remarked_on() -> None:
    found, _ = run_sweep(
        GRID, lambda rate: [2 + 0.1 * abs(log2(rate) + 10) + seed for seed in (0.0, 0.0001)]
    )
    assert "the losses do not lie on a parabola (lack of fit, p = " in found.remark
    assert found.lack_of_fit is not None
    assert found.lack_of_fit < 0.01


def test_an_arm_that_gained_little_over_the_unigram_model_says_so() -> None:
    found, _ = run_sweep(
        GRID, lambda rate: [2.5 + 1e-4 * (log2(rate) + 10.2) ** 2 + 1e-6 * s for s in (0, 1)], 2.54
    )
    assert (
        found.remark
        == "its best run gained only 1.6% over the unigram model: the sweep may be too short"
    )
