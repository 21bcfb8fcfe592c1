"""What is an effect worth in compute? Read off the learning curve of the arm it is judged against."""

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np

from paribus.analyse.compare import Comparison
from paribus.errors import SpecError

Curve = Mapping[int, float]  # tokens read → score
MAX_FACTOR = 4.0
_PART, _MIN_POINTS = 2 / 3, 3


@dataclass(frozen=True)
class Slope:
    """Gain for each e-fold of tokens at the end of training: the mean over seeds, their spread, and each."""

    mean: float
    sd: float
    each: tuple[float, ...]
    tokens: int


@dataclass(frozen=True)
class Multiplier:
    """How many times its tokens the arm that another is judged against would need for the other's score.

    `low` and `high` are the ends of the effect's interval at the mean slope. Beyond a factor of 4 nothing was read:
    there each of them is 0 or infinite. All are None where the curve gives none, with the reason.
    """

    factor: float | None
    low: float | None
    high: float | None
    reason: str = ""

    @property
    def said(self) -> float | None:
        """The factor, where it lies within the limit."""
        return self.factor if self.factor and self.factor < inf else None


@dataclass(frozen=True)
class PointsShort:
    """How many validation points a slope would have and needs, and what gives as many.

    `valid_every` is None where the run is too short for any; then it takes `n_steps`.
    """

    n_points: int
    n_needed: int
    valid_every: int | None
    n_steps: int


def slope(curves: Mapping[int, Curve], *, lower_is_better: bool) -> Slope:
    """The least-squares slope of score over ln tokens, in the last third of each seed's tokens, oriented."""
    if not curves:
        raise SpecError("learning curve: no seeds given; give the baseline's curve for one seed or more")
    each = tuple(_slope(seed, curve, lower_is_better) for seed, curve in sorted(curves.items()))
    sd = float(np.std(each, ddof=1)) if len(each) > 1 else 0.0
    return Slope(float(np.mean(each)), sd, each, max(max(curve) for curve in curves.values()))


def margin_of(percent: float, found: Slope) -> float | None:
    """The gain that x % more tokens buy: slope · ln(1 + x/100); None where more tokens buy nothing."""
    if not 0 < percent <= 100 * (MAX_FACTOR - 1):
        raise SpecError(f"margin: {percent:g} % more compute; use above 0, up to {100 * (MAX_FACTOR - 1):g} %")
    return None if _flat(found) else found.mean * log(1 + percent / 100)


def multiplier(comparison: Comparison, found: Slope) -> Multiplier:
    """exp(effect / slope): the line in ln tokens of what an arm is judged against, until it reaches the arm's score."""
    if _flat(found):
        least = f"{min(found.each):.3g}".replace("-", "−")
        return Multiplier(None, None, None, f"no longer improves in every seed (slope {least})")
    factor, low, high = (_factor(end / found.mean) for end in (comparison.effect, comparison.low, comparison.high))
    return Multiplier(factor, low, high)


def _factor(e_folds: float) -> float:
    if abs(e_folds) > log(MAX_FACTOR):
        return inf if e_folds > 0 else 0.0
    return exp(e_folds)


def _flat(found: Slope) -> bool:
    return min(found.each) <= 0


def points_short(n_steps: int, valid_every: int, is_even: bool) -> PointsShort | None:
    """What a run to come lacks for its slope, said before it is made; None where it will have points enough.

    A step reads as many tokens as any other where `is_even`; elsewhere a point on the edge of the part that is used
    may fall out of it, and does not count.
    """
    found = _n_points(n_steps, valid_every, is_even)
    if found >= _MIN_POINTS:
        return None
    rarest = min(valid_every - 1, n_steps // (_MIN_POINTS + 1))  # any rarer, and the last third has too few
    every = next((n for n in range(rarest, 0, -1) if _n_points(n_steps, n, is_even) >= _MIN_POINTS), None)
    shortest = next(n for n in itertools.count(1) if _n_points(n, 1, is_even) >= _MIN_POINTS)
    return PointsShort(found, _MIN_POINTS, every, shortest)


def _n_points(n_steps: int, valid_every: int, is_even: bool) -> int:
    """How many of a run's validation points its slope is read from, as far as it matters; the last step is one."""
    steps = range(valid_every, n_steps + 1, valid_every)[-_MIN_POINTS - 1 :]
    used = _used({*steps, n_steps})
    on_edge = 3 * used[0] <= 2 * n_steps
    return len(used) - (on_edge and not is_even)


def _used(places: Collection[int]) -> list[int]:
    """The places along a curve that its slope is read from: those of its last third."""
    return sorted(at for at in places if at > 0 and at >= _PART * max(places))


def _slope(seed: int, curve: Curve, lower_is_better: bool) -> float:
    tokens = _used(curve)
    if len(tokens) < _MIN_POINTS:
        raise SpecError(
            f"learning curve: seed {seed} has {len(tokens)} points in its last third; measure {_MIN_POINTS} there"
        )
    rise = float(np.polyfit(np.log(tokens), [curve[at] for at in tokens], 1)[0])
    return -rise if lower_is_better else rise
