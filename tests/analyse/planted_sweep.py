"""A sweep whose losses are drawn from a planted curve, carried on until the rate of its arm is found."""

from collections.abc import Callable, Sequence

from paribus.analyse import Optimum, next_grid, refined_vertex
from paribus.analyse.rate_search import Point

Draw = Callable[[float], list[float | None]]  # a rate → the scores of all sweep seeds


def carry_sweep(grid: Sequence[float], draw: Draw, unigram: float | None = None) -> tuple[Optimum, list[Point]]:
    """The optimum of one arm, and all that was tried: the grid, longer where it must be, then rates of its own."""
    rates, n_extensions = tuple(grid), 0
    points = _drawn(rates, draw)
    while True:
        found = refined_vertex(points, rates, unigram=unigram)
        if found.needs:
            longer = next_grid(rates, [found], n_extensions)
            points += _drawn([rate for rate in longer if rate not in rates], draw)
            rates, n_extensions = longer, n_extensions + 1
        elif found.tries:
            points += _drawn(found.tries, draw)
        else:
            return found, points


def _drawn(rates: Sequence[float], draw: Draw) -> list[Point]:
    return [(rate, score) for rate in rates for score in draw(rate)]
