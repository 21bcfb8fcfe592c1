"""The losses of an arm's sweep, by rate, and which of them a fit may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from paribus.errors import SpecError
from paribus.spec.measure import Measure

# a rate, and the score of one sweep seed there; None where it failed
Point = tuple[float, float | None]
MAX_LOST_SHARE = (
    0.1  # of what the best gained over the unigram model: a rate that lost more is no neighbour
)


@dataclass(frozen=True)
class SweepLosses:
    """Losses by rate, none where a seed failed, and the loss of the unigram model."""

    losses: Mapping[float, Sequence[float]]
    unigram: float | None  # of a task, its highest floor
    sign: int  # 1 where a score is a loss, −1 where more is better
    is_likelihood: bool = True

    def usable_losses(self, rates: Iterable[float]) -> dict[float, float]:
        """The mean losses of those rates that a fit may use."""
        means = {}
        for rate in rates:
            if self.losses[rate]:
                means[rate] = fmean(self.losses[rate])
        if not means or self.unigram is None:
            return means
        best = min(means.values())
        worst = best + MAX_LOST_SHARE * (self.unigram - best)
        return {rate: mean for rate, mean in means.items() if mean <= worst}

    def untried_rates(self, rates: Iterable[float]) -> tuple[float, ...]:
        """Those of some rates that have no run yet."""
        return tuple(rate for rate in rates if rate not in self.losses)

    def unigram_gain(self, best: float | None) -> float | None:
        """What the best rate gained over the unigram model, as a share of its loss; None of a
        task, which has floors.
        """
        if best is None or not self.unigram or not self.is_likelihood:
            return None
        return (self.unigram - fmean(self.losses[best])) / abs(self.unigram)


def sweep_losses(points: Sequence[Point], unigram: float | None, measure: Measure) -> SweepLosses:
    """The losses of a sweep's points; of scores where more is better, their negatives."""
    sign = 1 if measure.lower_is_better else -1
    losses = {}
    for rate, own in scores_by_rate(points).items():
        losses[rate] = [sign * score for score in complete_scores(own)]
    if unigram is not None:
        unigram = sign * unigram
    return SweepLosses(losses, unigram, sign, measure.is_likelihood)


def scores_by_rate(points: Sequence[Point]) -> dict[float, list[float | None]]:
    """The scores of all sweep seeds at each rate, the lowest rate first; as many at each."""
    by_rate: dict[float, list[float | None]] = {}
    for rate, score in sorted(points, key=lambda point: point[0]):
        by_rate.setdefault(rate, []).append(score)
    if len(set(map(len, by_rate.values()))) != 1 or min(by_rate) <= 0:
        counts = ", ".join(f"{rate:g}: {len(scores)}" for rate, scores in by_rate.items()) or "none"
        raise SpecError(
            f"rates: scores at each rate are {counts}; give as many at each, None where a seed"
            " diverged"
        )
    return by_rate


def complete_scores(scores: Sequence[float | None]) -> list[float]:
    """The scores where every seed has one; nothing where any failed."""
    finite_scores = [score for score in scores if score is not None and isfinite(score)]
    if len(finite_scores) == len(scores):
        return finite_scores
    return []
