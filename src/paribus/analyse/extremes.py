"""Where does an arm gain or lose most? Items by their mean difference over seeds; a description
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean

from paribus.analyse.run_scores import Answers, item_totals
from paribus.spec.measure import LIKELIHOOD, Measure


@dataclass(frozen=True)
class ExtremeItem:
    """One item: its score in both arms, the mean over the seeds that both trained in."""

    item: str
    baseline_score: float
    arm_score: float
    gain: float


def extreme_items(
    baseline: Mapping[int, Answers],
    arm: Mapping[int, Answers],
    n: int,
    measure: Measure = LIKELIHOOD,
) -> tuple[tuple[ExtremeItem, ...], tuple[ExtremeItem, ...]]:
    """The n items with the highest gain, the highest first, and the n with the lowest, the
    lowest first; none of a measure that gives no item a score of its own.
    """
    seeds = sorted(baseline.keys() & arm.keys())
    if not seeds or not measure.adds_up:
        return (), ()
    before = [_scores_by_item(baseline[seed]) for seed in seeds]
    after = [_scores_by_item(arm[seed]) for seed in seeds]
    items = []
    for item in sorted(set(before[0]).intersection(*before, *after)):
        read_item = itemgetter(item)
        baseline_score, arm_score = fmean(map(read_item, before)), fmean(map(read_item, after))
        gain = measure.gain(baseline_score, arm_score)
        items.append(ExtremeItem(item, baseline_score, arm_score, gain))
    ranking = sorted(items, key=lambda one: (-one.gain, one.item))
    n = min(n, len(ranking) // 2)
    return tuple(ranking[:n]), tuple(ranking[len(ranking) - n :][::-1])


def _scores_by_item(answers: Answers) -> dict[str, float]:
    return {one.item: one.total / one.count for one in item_totals(answers) if one.count}
