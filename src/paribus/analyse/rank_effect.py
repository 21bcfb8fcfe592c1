"""Does the score follow the effective rank of attention? A slope for each seed, under an
intervention that is known to move the rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, log2
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np

from paribus.analyse.interval import MIN_SEEDS, interval
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.verdict import decide_verdict
from paribus.spec.measure import Measure

MIN_MOVE = 0.1  # of the effective rank between two levels: with less of it, it is not moved
RankWord = Literal["rank helps", "rank hurts", "within the margin", "undecided", "not moved"]
WORDS: Mapping[str, RankWord] = {
    "better": "rank helps",
    "worse": "rank hurts",
    "equivalent": "within the margin",
    "inconclusive": "undecided",
}


class RankedRun(NamedTuple):
    """What a run scored, and the mean effective rank of its attention."""

    effective_rank: float
    score: float


Intervention = Mapping[str, Mapping[int, RankedRun]]  # level → seed → run


@dataclass(frozen=True, kw_only=True)
class RankMove:
    """The manipulation check: how far apart the two levels are that differ most in rank. Ranks
    are geometric means over seeds.
    """

    lowest: str
    highest: str
    low_rank: float
    high_rank: float

    @property
    def share(self) -> float:
        """By which part the highest rank is above the lowest."""
        return self.high_rank / self.low_rank - 1

    @property
    def is_moved(self) -> bool:
        return self.share >= MIN_MOVE


@dataclass(frozen=True, kw_only=True)
class RankEffect:
    """What a doubling of the effective rank gains under one intervention; positive is better.

    `slopes` has a gain for each seed. Without them the rank is not moved, or too few seeds have all
    levels; there is no effect then.
    """

    intervention: str
    move: RankMove
    n_seeds: int
    level: float
    unit: str
    word: RankWord
    slopes: Mapping[int, float]
    effect: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class SlopeDifference:
    """The slope under one intervention less that under another. Were rank all that matters, it
    would be zero.
    """

    interventions: tuple[str, str]
    effect: float
    low: float
    high: float
    level: float
    unit: str

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def rank_move(intervention: Intervention) -> RankMove:
    """The two levels of an intervention whose ranks are furthest apart."""
    ranks: dict[str, float] = {}
    for level, runs in intervention.items():
        ranks[level] = exp(fmean(log(run.effective_rank) for run in runs.values()))
    lowest, highest = min(ranks, key=ranks.__getitem__), max(ranks, key=ranks.__getitem__)
    return RankMove(
        lowest=lowest, highest=highest, low_rank=ranks[lowest], high_rank=ranks[highest]
    )


def rank_slopes(intervention: Intervention, measure: Measure) -> dict[int, float]:
    """Seed → gain for each doubling of the effective rank: the least-squares slope over the levels,
    of seeds that have all of them.
    """
    slopes: dict[int, float] = {}
    for seed in _common_seeds(intervention):
        runs = [level[seed] for level in intervention.values()]
        doublings = np.log2([run.effective_rank for run in runs])
        gains = [measure.gain(0.0, run.score) for run in runs]
        if np.ptp(doublings) > 0:
            slopes[seed] = float(np.polyfit(doublings, gains, 1)[0])
    return slopes


def rank_effects(
    interventions: Mapping[str, Intervention],
    measure: Measure,
    margin: float | None = None,
    n_declared: int | None = None,
) -> tuple[RankEffect, ...]:
    """The effect under each intervention. All that were declared share the 5 % of false alarms,
    moved or not. A margin is the smallest difference in score that matters, over the whole range of
    ranks.
    """
    effects, n_interventions = [], n_declared or len(interventions)
    for name, intervention in interventions.items():
        effect = _unjudged_effect(name, intervention, measure, n_interventions)
        if len(effect.slopes) >= MIN_SEEDS:
            effect = _judged_effect(effect, margin, n_interventions)
        effects.append(effect)
    return tuple(effects)


def slope_difference(one: RankEffect, other: RankEffect) -> SlopeDifference | None:
    """The slope under one intervention less that under another, seed by seed; None where one of
    them has none.
    """
    seeds = sorted(one.slopes.keys() & other.slopes.keys())
    if len(seeds) < MIN_SEEDS or "not moved" in (one.word, other.word):
        return None
    differences = [one.slopes[seed] - other.slopes[seed] for seed in seeds]
    low, high = map(float, interval(differences, one.level))
    return SlopeDifference(
        interventions=(one.intervention, other.intervention),
        effect=fmean(differences),
        low=low,
        high=high,
        level=one.level,
        unit=one.unit,
    )


def _unjudged_effect(
    name: str, intervention: Intervention, measure: Measure, n_interventions: int
) -> RankEffect:
    move = rank_move(intervention)
    slopes = rank_slopes(intervention, measure) if move.is_moved else {}
    return RankEffect(
        intervention=name,
        move=move,
        n_seeds=len(_common_seeds(intervention)),
        level=1 - FAMILY_ALPHA / n_interventions,
        unit=measure.unit,
        word="undecided" if move.is_moved else "not moved",
        slopes=slopes,
    )


def _judged_effect(effect: RankEffect, margin: float | None, n_interventions: int) -> RankEffect:
    slopes = list(effect.slopes.values())
    low, high = map(float, interval(slopes, effect.level))
    inner_low, inner_high = map(float, interval(slopes, 1 - 2 * FAMILY_ALPHA / n_interventions))
    # a margin is a difference in score, so slopes are judged over the whole range of ranks
    n_doublings = log2(effect.move.high_rank / effect.move.low_rank)
    outer = (n_doublings * low, n_doublings * high)
    inner = (n_doublings * inner_low, n_doublings * inner_high)
    word = WORDS[decide_verdict(outer, inner, margin).word]
    return replace(effect, word=word, effect=fmean(slopes), low=low, high=high)


def _common_seeds(intervention: Intervention) -> Sequence[int]:
    return sorted(set.intersection(*(set(runs) for runs in intervention.values())))
