"""The best learning rate: the vertex of a parabola in log₂ rate, and what to add where it lies at an edge."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from paribus.analyse.gain import gain
from paribus.errors import SpecError

MIN_RATES, MIN_SWEEP_SEEDS, MAX_EXTENSIONS = 5, 2, 2
Point = tuple[float, float | None]  # a rate, and the score of one sweep seed there; None where it diverged


@dataclass(frozen=True)
class Optimum:
    """Where a sweep found its best; `rate` is None where it is not inside, and `needs` the two rates to add.

    `coefficients` are of score = a·x² + b·x + c, x = log₂ rate; None with fewer than 3 rates to fit. `left_out` are
    rates where a sweep seed diverged. `remark` is there where the vertex is far from the best rate tried.
    """

    rate: float | None
    inside: bool
    coefficients: tuple[float, float, float] | None
    left_out: tuple[float, ...]
    needs: tuple[float, ...] = ()
    remark: str = ""


def vertex(points: Sequence[Point], *, lower_is_better: bool = True) -> Optimum:
    """The optimum of all sweep seeds together: x = −b/2a, where the parabola opens the right way.

    A rate where any seed diverged is left out for all of them, so that every rate speaks of the same seeds.
    """
    scores = _by_rate(points)
    means = {rate: fmean(whole) for rate, found in scores.items() if (whole := _whole(found))}
    left_out = tuple(rate for rate in scores if rate not in means)
    if len(means) < 3:
        return Optimum(None, False, None, left_out, _around(means, scores))
    x, y = np.log2(list(means)), np.array(list(means.values()))
    a, b, _ = coefficients = _parabola(x, y)
    best = -b / (2 * a) if a and (a > 0) == lower_is_better else None
    if best is not None and x.min() <= best <= x.max():
        return Optimum(float(2**best), True, coefficients, left_out, (), _remark(best, x, y if lower_is_better else -y))
    upward = _upward(best, x, y, lower_is_better)
    needs = _above(max(means), scores) if upward else _below(min(means), scores)
    return Optimum(None, False, coefficients, left_out, needs)


def next_grid(rates: Sequence[float], optima: Iterable[Optimum], n_extensions: int) -> tuple[float, ...]:
    """The grid for all arms, with what any of them needs; the same grid where none does. Refused after two."""
    found = list(optima)
    needs = {rate for optimum in found for rate in optimum.needs}
    if needs and n_extensions >= MAX_EXTENSIONS:
        tried = f"rates: after {n_extensions} extensions, to {min(rates):g}–{max(rates):g}, "
        if any(optimum.coefficients is None for optimum in found):
            raise SpecError(f"{tried}fewer than 3 rates train in an arm; train for longer, or begin with other rates")
        edge, centre = ("lowest", min(needs)) if min(needs) < min(rates) else ("highest", max(needs))
        raise SpecError(
            f"{tried}the optimum of an arm is still at the {edge} rate that trains; begin again with a grid around "
            f"{centre:g}"
        )
    return tuple(sorted({*rates, *needs}))


def check_sweep(rates: Sequence[float], sweep_seeds: Iterable[int], reported_seeds: Iterable[int]) -> None:
    """Refuse a sweep that is too coarse, or whose seeds are reported on too."""
    seeds, both, problems = set(sweep_seeds), sorted(set(sweep_seeds) & set(reported_seeds)), []
    if len(rates) < MIN_RATES:
        problems.append(f"rates: {len(rates)} given; use a grid of {MIN_RATES} or more, each twice the one before")
    elif min(rates) <= 0 or not np.allclose(np.diff(np.log2(rates)), 1, atol=0.02):
        problems.append(f"rates: {', '.join(f'{rate:g}' for rate in rates)}; use a grid in which each doubles the last")
    if len(seeds) < MIN_SWEEP_SEEDS:
        problems.append(f"sweep seeds: {len(seeds)} given; use {MIN_SWEEP_SEEDS} or more")
    if both:
        problems.append(f"sweep seeds: {', '.join(map(str, both))} are reported too; use seeds that no verdict sees")
    if problems:
        raise SpecError(problems)


def gains_by_rate(
    baseline: Sequence[Point], arm: Sequence[Point], *, lower_is_better: bool = True
) -> dict[float, float | None]:
    """The arm's mean gain at every rate both were swept at; None where either diverged."""
    before, after = _by_rate(baseline), _by_rate(arm)
    found: dict[float, float | None] = {}
    for rate in [rate for rate in before if rate in after]:
        a, b = _whole(before[rate]), _whole(after[rate])
        found[rate] = gain(fmean(a), fmean(b), lower_is_better=lower_is_better) if a and b else None
    return found


def tuned_at(sweep_steps: int, run_steps: int) -> str | None:
    """What a verdict must add where sweeps were shorter than runs."""
    return None if sweep_steps == run_steps else f"rates tuned at {100 * sweep_steps / run_steps:.3g} %"


def _by_rate(points: Sequence[Point]) -> dict[float, list[float | None]]:
    found: dict[float, list[float | None]] = {}
    for rate, score in sorted(points, key=lambda point: point[0]):
        found.setdefault(rate, []).append(score)
    if len({len(scores) for scores in found.values()}) != 1 or min(found) <= 0:
        counts = ", ".join(f"{rate:g}: {len(scores)}" for rate, scores in found.items()) or "none"
        raise SpecError(f"rates: scores at each rate are {counts}; give as many at each, None where a seed diverged")
    return found


def _whole(scores: Sequence[float | None]) -> list[float]:
    """The scores where every seed has one; nothing where any diverged."""
    found = [score for score in scores if score is not None and np.isfinite(score)]
    return found if len(found) == len(scores) else []


def _parabola(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """a, b, c of the least-squares a·x² + b·x + c; fitted about the middle, where the powers are told apart best."""
    centre = float(x.mean())
    a, b, c = (float(one) for one in np.polyfit(x - centre, y, 2))
    return a, b - 2 * a * centre, c - b * centre + a * centre**2


def _remark(best: float, x: np.ndarray, losses: np.ndarray) -> str:
    """A cliff at high rates, though still finite, pulls the vertex away from the floor beside it."""
    away = abs(best - x[losses.argmin()])
    return f"the vertex is {away:.1f} octaves from the best rate tried: no parabola, or much noise" if away > 1 else ""


def _upward(best: float | None, x: np.ndarray, y: np.ndarray, lower_is_better: bool) -> bool:
    """Whether to look at higher rates: past the vertex, or where the better end is."""
    if best is not None:
        return best > x.max()
    return bool(y[-1] < y[0]) == lower_is_better


def _around(trained: Mapping[float, object], tried: Mapping[float, object]) -> tuple[float, ...]:
    """More rates beside the few that trained, if any: at low rates a run may learn too little, at high ones diverge."""
    edges = trained or tried
    low, high = min(tried) in trained, max(tried) in trained
    below = _below(min(edges), tried) if low or not high else ()
    return below + (_above(max(edges), tried) if high or not low else ())


def _above(edge: float, tried: Mapping[float, object]) -> tuple[float, ...]:
    return _beyond(edge, min((rate for rate in tried if rate > edge), default=None), 2.0)


def _below(edge: float, tried: Mapping[float, object]) -> tuple[float, ...]:
    return _beyond(edge, max((rate for rate in tried if rate < edge), default=None), 0.5)


def _beyond(edge: float, diverged: float | None, factor: float) -> tuple[float, ...]:
    """Two rates past the edge; where the next one was tried and diverged, two between it and the edge."""
    step = factor if diverged is None else (diverged / edge) ** (1 / 3)
    return tuple(sorted((edge * step, edge * step**2)))
