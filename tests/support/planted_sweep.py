"""A sweep whose losses are drawn from a planted curve, carried on until the rate of its arm is
found.
"""

from collections.abc import Callable, Sequence

from paribus.analyse import Optimum, extend_grid, refine_vertex
from paribus.analyse.sweep_losses import Point

ScoreDraw = Callable[[float], list[float | None]]  # a rate → the scores of all sweep seeds


def run_sweep(
    grid: Sequence[float], draw: ScoreDraw, unigram: float | None = None
) -> tuple[Optimum, list[Point]]:
    """The optimum of one arm, and all that was tried: the grid, longer where it must be, then
    rates of its own.
    """
    rates, n_extensions = tuple(grid), 0
    points = _draw_points(rates, draw)
    while True:
        found = refine_vertex(points, rates, unigram=unigram)
        if found.needs:
            longer = extend_grid(rates, [found], n_extensions)
            points += _draw_points([rate for rate in longer if rate not in rates], draw)
            rates, n_extensions = longer, n_extensions + 1
        elif found.tries:
            points += _draw_points(found.tries, draw)
        else:
            return found, points


def _draw_points(rates: Sequence[float], draw: ScoreDraw) -> list[Point]:
    return [(rate, score) for rate in rates for score in draw(rate)]
