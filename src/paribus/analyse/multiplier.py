"""What is an effect worth in compute? Read off the learning curve of the arm it is judged against."""

from collections.abc import Mapping
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


def _slope(seed: int, curve: Curve, lower_is_better: bool) -> float:
    tokens = sorted(at for at in curve if at > 0 and at >= _PART * max(curve))
    if len(tokens) < _MIN_POINTS:
        raise SpecError(
            f"learning curve: seed {seed} has {len(tokens)} points in its last third; measure {_MIN_POINTS} there"
        )
    rise = float(np.polyfit(np.log(tokens), [curve[at] for at in tokens], 1)[0])
    return -rise if lower_is_better else rise
