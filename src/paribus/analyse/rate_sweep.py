"""A sweep of learning rates: its grid, what is refused, and the difference between two arms at
every common rate.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from paribus.analyse.rate_search import Optimum
from paribus.analyse.sweep_losses import Point, complete_scores, scores_by_rate
from paribus.errors import SpecError
from paribus.spec.measure import LIKELIHOOD, Measure

MIN_RATES, MIN_SWEEP_SEEDS, MAX_EXTENSIONS = 5, 2, 2
# a best run that gained less than this share of the unigram's loss has not left its plateau
PLATEAU = 0.01


def extend_grid(
    rates: Sequence[float], optima: Iterable[Optimum], n_extensions: int
) -> tuple[float, ...]:
    """The grid for all arms, with what any of them needs; the same grid where none does.
    Refused after two.
    """
    all_optima = list(optima)
    needs = set()
    for optimum in all_optima:
        needs.update(optimum.needs)
    if needs and n_extensions >= MAX_EXTENSIONS:
        opening = f"rates: after {n_extensions} extensions, to {min(rates):g}–{max(rates):g}, "
        if any(map(is_on_plateau, all_optima)):
            raise SpecError(
                f"{opening}no run of an arm leaves the plateau of the unigram model: too short to"
                " tune; raise tune.share or training.n_steps, or begin with other rates"
            )
        if min(needs) < min(rates):
            edge, centre = ("lowest", min(needs))
        else:
            edge, centre = ("highest", max(needs))
        raise SpecError(
            f"{opening}the optimum of an arm is still at the {edge} rate that trains; begin again"
            f" with a grid around {centre:g}"
        )
    return tuple(sorted({*rates, *needs}))


def is_on_plateau(optimum: Optimum) -> bool:
    """Has no run of a sweep gained much over the unigram model? Not said where its loss is not
    on record.
    """
    return optimum.best is None or (optimum.gained is not None and optimum.gained < PLATEAU)


def require_off_plateau(optima: Mapping[str, Optimum], sweep_steps: Mapping[str, int]) -> None:
    """SpecError where an arm's best run has not left the plateau of the unigram model: its rate
    cannot be seen there.

    An arm that still needs rates beyond the grid is left for later.
    """
    problems = []
    for arm, optimum in optima.items():
        if is_on_plateau(optimum) and not optimum.needs:
            problems.append(
                f"tune: the sweep of {arm} is too short to tune: after {sweep_steps[arm]} steps its"
                f" best run, at the rate {optimum.best:g}, gained {optimum.gained:.2%} over the"
                f" unigram model, and {PLATEAU:.0%} is needed; raise tune.share or training.n_steps"
            )
    if problems:
        raise SpecError(problems)


def require_valid_sweep(
    rates: Sequence[float], sweep_seeds: Iterable[int], reported_seeds: Iterable[int]
) -> None:
    """Refuse a sweep that is too coarse, or whose seeds are reported on too."""
    seeds, both, problems = set(sweep_seeds), sorted(set(sweep_seeds) & set(reported_seeds)), []
    if len(rates) < MIN_RATES:
        problems.append(
            f"rates: {len(rates)} given; use a grid of {MIN_RATES} or more, each twice the one"
            " before"
        )
    elif min(rates) <= 0 or not np.allclose(np.diff(np.log2(rates)), 1, atol=0.02):
        problems.append(
            f"rates: {', '.join(f'{rate:g}' for rate in rates)}; use a grid in which each doubles"
            " the last"
        )
    if len(seeds) < MIN_SWEEP_SEEDS:
        problems.append(f"sweep seeds: {len(seeds)} given; use {MIN_SWEEP_SEEDS} or more")
    if both:
        problems.append(
            f"sweep seeds: {', '.join(map(str, both))} are reported too; use seeds that no verdict"
            " sees"
        )
    if problems:
        raise SpecError(problems)


def gains_by_rate(
    baseline: Sequence[Point],
    arm: Sequence[Point],
    *,
    grid: Iterable[float] | None = None,
    measure: Measure = LIKELIHOOD,
) -> dict[float, float | None]:
    """The arm's mean gain at every rate of the common grid; None where either failed.

    Without a grid, at every rate that both were swept at.
    """
    before, after = scores_by_rate(baseline), scores_by_rate(arm)
    if grid is None:
        common = before.keys() & after.keys()
    else:
        common = before.keys() & after.keys() & set(grid)
    gains: dict[float, float | None] = {}
    for rate in sorted(common):
        a, b = _mean_if_complete(before[rate]), _mean_if_complete(after[rate])
        if a is None or b is None:
            gains[rate] = None
        else:
            gains[rate] = measure.gain(a, b)
    return gains


def short_sweep_remark(sweep_steps: int, run_steps: int) -> str | None:
    """What a verdict must add where sweeps were shorter than runs."""
    if sweep_steps == run_steps:
        return None
    return f"rates tuned at {100 * sweep_steps / run_steps:.3g} %"


def _mean_if_complete(scores: Sequence[float | None]) -> float | None:
    """The mean of all seeds; None where any failed."""
    complete = complete_scores(scores)
    if complete:
        return fmean(complete)
    return None
