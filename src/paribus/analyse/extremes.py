"""Where does an arm gain or lose most? Items by their mean difference over seeds; a description
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    before, after = (
        [_bits_by_item(answered[seed]) for seed in seeds] for answered in (baseline, arm)
    )
    common = sorted(set(before[0]).intersection(*before, *after))
    found = [
        ExtremeItem(item, fmean(one[item] for one in before), fmean(one[item] for one in after))
        for item in common
    ]
    ranked = sorted(found, key=lambda one: (-one.gain, one.item))
    n = min(n, len(ranked) // 2)
    return tuple(ranked[:n]), tuple(ranked[len(ranked) - n :][::-1])


def _bits_by_item(evaluation: Evaluation) -> dict[str, float]:
    return {answer.item: answer.bits_per_byte for answer in evaluation.answers}
