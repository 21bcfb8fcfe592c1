"""The best learning rate of an arm: a parabola through the best tried rate and its neighbours,
then through more.

A rate far from the best says little of where the best is: a cliff at high rates that is still
finite would pull the vertex of a parabola through the whole grid away from it. So the first fit
takes the best tried rate and one neighbour on each side. Two more rates are then tried half an
octave to either side of that vertex, and the second fit takes all rates within one octave of the
best tried one. (Within one octave of the vertex there may be two rates alone, where it lies halfway
between two of the grid.) The same rule holds for every arm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2

from paribus.analyse.rate_fit import MAX_OCTAVES, RateFit, fit_rates
from paribus.analyse.rate_neighbours import ROUNDING_OCTAVES, Neighbourhood, locate_best, round_rate
from paribus.analyse.sweep_losses import Point, SweepLosses, sweep_losses
from paribus.spec.measure import LIKELIHOOD, Measure

REFINE_OCTAVES = (
    0.5  # octaves: the two rates beside the first vertex, and the furthest that the second one goes
)
POOR_FIT = 0.01  # a lack of fit below this p is remarked on
NEAR_PLATEAU = (
    0.05  # a best run that gained less than this share of the unigram's loss is remarked on
)
CLIFF_REMARK = (
    "a quarter of an octave beside the best rate tried no run is of use: it was taken without a fit"
)
DOWNWARD_REMARK = "the parabola opens downward: the best rate tried was taken"
CLAMPED_REMARK = (
    "the second vertex was {away:.2f} octaves from the first, and was held to half an octave"
)
POOR_FIT_REMARK = "the losses do not lie on a parabola (lack of fit, p = {p:.2g})"
NEAR_PLATEAU_REMARK = (
    "its best run gained only {gained:.1%} over the unigram model: the sweep may be too short"
)


@dataclass(frozen=True)
class Optimum:
    """Where a sweep found its best; `rate` is None while rates are still to be tried.

    `needs` are rates beyond the grid, to be tried in every arm; `tries` are rates to be tried in
    this arm alone. `coefficients` are of score = a·x² + b·x + c, x = log₂ rate, over the rates in
    `fitted`. `left_out` are rates where a sweep seed failed, or that lost too much to be fitted.
    `interval` is of the vertex, at 95 %. `excess` is the loss if the best rate were at an end of
    it: what tuning could move; None without a parabola. `gained` is what the best rate gained over
    the unigram model, as a share of its loss; None where the unigram model is not on record.
    """

    rate: float | None
    inside: bool
    coefficients: tuple[float, float, float] | None
    left_out: tuple[float, ...]
    needs: tuple[float, ...] = ()
    remark: str = ""
    tries: tuple[float, ...] = ()
    best: float | None = None  # the best rate tried; None where none trained
    fitted: tuple[float, ...] = ()
    interval: tuple[float, float] | None = None
    excess: float | None = None
    lack_of_fit: float | None = None
    gained: float | None = None


def fit_vertex(
    points: Sequence[Point], *, unigram: float | None = None, measure: Measure = LIKELIHOOD
) -> Optimum:
    """The first fit: through the best tried rate and one neighbour on each side, all sweep
    seeds together.

    A rate where any seed failed is no neighbour, nor is one that lost more than a tenth of what the
    best gained over the unigram model: half an octave is to be tried there, then a quarter. A best
    rate at the edge needs two more.
    """
    sweep = sweep_losses(points, unigram, measure)
    place = locate_best(sweep, list(sweep.losses))
    if place.needs or place.tries or len(place.neighbours) < 2:
        return _optimum_without_fit(sweep, place)
    rates = _fitted_rates(place)
    return _optimum_from_fit(sweep, place.best, rates, _fit(sweep, rates), None)


def refine_vertex(
    points: Sequence[Point],
    grid: Sequence[float],
    *,
    unigram: float | None = None,
    measure: Measure = LIKELIHOOD,
) -> Optimum:
    """The optimum after both fits, or what is still to be tried; `points` may hold more rates
    than the grid.

    It is worked out from the grid anew each time, so that a search that was interrupted goes on as
    it would have.
    """
    sweep = sweep_losses(points, unigram, measure)
    known_rates = sorted(grid)
    while True:
        place = locate_best(sweep, known_rates)
        missing = sweep.untried_rates(place.tries)
        if place.needs or missing or not place.tries:
            break
        known_rates = sorted({*known_rates, *place.tries})
    if place.needs or missing or len(place.neighbours) < 2:
        return _optimum_without_fit(sweep, place)
    first = _fit(sweep, _fitted_rates(place)).vertex
    if first is None:
        return _optimum_without_fit(sweep, place, DOWNWARD_REMARK)
    below, above = 2 ** (first - REFINE_OCTAVES), 2 ** (first + REFINE_OCTAVES)
    missing = sweep.untried_rates((round_rate(below), round_rate(above)))
    if missing:
        return _optimum_without_fit(sweep, Neighbourhood(place.best, place.neighbours, missing))
    return _second_fit(sweep, place, first)


def _second_fit(sweep: SweepLosses, place: Neighbourhood, first: float) -> Optimum:
    """The fit over all usable rates within one octave of what was the best tried rate before
    the first vertex.
    """
    assert place.best is not None
    three, usable, middle = (
        _fitted_rates(place),
        sweep.usable_losses(sweep.losses),
        log2(place.best),
    )
    best = min(usable, key=lambda rate: usable[rate])
    near = [rate for rate in usable if abs(log2(rate) - middle) <= MAX_OCTAVES + ROUNDING_OCTAVES]
    rates = tuple(near) if len(near) >= len(three) else three
    return _optimum_from_fit(sweep, best, rates, _fit(sweep, rates), first)


def _optimum_from_fit(
    sweep: SweepLosses,
    best: float | None,
    rates: tuple[float, ...],
    fit: RateFit,
    first: float | None,
) -> Optimum:
    """What a fit says; without a lowest point, the best rate tried."""
    if fit.vertex is None:
        return _optimum_without_fit(sweep, Neighbourhood(best), DOWNWARD_REMARK)
    if first is None:
        log_rate = fit.vertex
    else:
        log_rate = min(max(fit.vertex, first - REFINE_OCTAVES), first + REFINE_OCTAVES)
    remarks = []
    if first is not None and log_rate != fit.vertex:
        remarks.append(CLAMPED_REMARK.format(away=abs(fit.vertex - first)))
    if fit.lack_of_fit is not None and fit.lack_of_fit < POOR_FIT:
        remarks.append(POOR_FIT_REMARK.format(p=fit.lack_of_fit))
    return Optimum(
        rate=float(2**log_rate),
        inside=True,
        coefficients=(sweep.sign * fit.a, sweep.sign * fit.b, sweep.sign * fit.c),
        left_out=_unusable_rates(sweep),
        remark=_join_remarks(remarks, sweep.unigram_gain(best)),
        best=best,
        fitted=rates,
        interval=_rate_interval(fit, log_rate),
        excess=fit.excess_loss(log_rate),
        lack_of_fit=fit.lack_of_fit,
        gained=sweep.unigram_gain(best),
    )


def _rate_interval(fit: RateFit, log2_rate: float) -> tuple[float, float] | None:
    """The interval of the best rate about the one that was taken."""
    ends = fit.vertex_interval(log2_rate)
    if ends is None:
        return None
    low, high = ends
    return float(2**low), float(2**high)


def _optimum_without_fit(
    sweep: SweepLosses, place: Neighbourhood, why: str = CLIFF_REMARK
) -> Optimum:
    """What is to be tried; where nothing is, the best rate tried is taken with a remark."""
    unigram_gain, is_open = sweep.unigram_gain(place.best), bool(place.needs or place.tries)
    if is_open:
        rate, remark = None, ""
    else:
        rate, remark = place.best, _join_remarks([why], unigram_gain)
    return Optimum(
        rate=rate,
        inside=not is_open,
        coefficients=None,
        left_out=_unusable_rates(sweep),
        needs=place.needs,
        remark=remark,
        tries=place.tries,
        best=place.best,
        gained=unigram_gain,
    )


def _join_remarks(remarks: list[str], unigram_gain: float | None) -> str:
    if unigram_gain is not None and unigram_gain < NEAR_PLATEAU:
        remarks = [*remarks, NEAR_PLATEAU_REMARK.format(gained=unigram_gain)]
    return "; ".join(remarks)


def _unusable_rates(sweep: SweepLosses) -> tuple[float, ...]:
    usable = sweep.usable_losses(sweep.losses)
    return tuple(rate for rate in sweep.losses if rate not in usable)


def _fit(sweep: SweepLosses, rates: Iterable[float]) -> RateFit:
    return fit_rates({rate: sweep.losses[rate] for rate in rates})


def _fitted_rates(place: Neighbourhood) -> tuple[float, ...]:
    assert place.best is not None
    return tuple(sorted((place.best, *place.neighbours)))
