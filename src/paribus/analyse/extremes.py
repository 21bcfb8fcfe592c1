"""Where does an arm gain or lose most? Items by their mean difference over seeds; a description
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean

from paribus.record import Evaluation


@dataclass(frozen=True)
class ExtremeItem:
    """One item: bits a byte in both arms, the mean over the seeds that both trained in."""

    item: str
    baseline_bits: float
    arm_bits: float

    @property
    def gain(self) -> float:
        return self.baseline_bits - self.arm_bits


def extreme_items(
    baseline: Mapping[int, Evaluation], arm: Mapping[int, Evaluation], n: int
) -> tuple[tuple[ExtremeItem, ...], tuple[ExtremeItem, ...]]:
    """The n items with the highest gain, the highest first, and the n with the lowest, the
    lowest first.
    """
    seeds = sorted(baseline.keys() & arm.keys())
    if not seeds:
        return (), ()
    before = [_bits_by_item(baseline[seed]) for seed in seeds]
    after = [_bits_by_item(arm[seed]) for seed in seeds]
    items = []
    for item in sorted(set(before[0]).intersection(*before, *after)):
        read_item = itemgetter(item)
        baseline_bits, arm_bits = fmean(map(read_item, before)), fmean(map(read_item, after))
        items.append(ExtremeItem(item, baseline_bits, arm_bits))
    ranking = sorted(items, key=lambda one: (-one.gain, one.item))
    n = min(n, len(ranking) // 2)
    return tuple(ranking[:n]), tuple(ranking[len(ranking) - n :][::-1])


def _bits_by_item(evaluation: Evaluation) -> dict[str, float]:
    return {answer.item: answer.bits_per_byte for answer in evaluation.answers}
