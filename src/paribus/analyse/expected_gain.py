"""What gain to expect on documents that were not read."""

from __future__ import annotations

from dataclasses import dataclass

from paribus.analyse.findings import ArmFinding

ROUNDING = 1e-9  # of a width: two intervals that are as wide differ by it


@dataclass(frozen=True)
class ExpectedGain:
    """A gain on new documents; where their interval is the narrower one, the hull with the
    verdict's.
    """

    effect: float
    low: float
    high: float
    level: float
    is_hull: bool


def expected_gain(arm: ArmFinding) -> ExpectedGain | None:
    """The gain to expect of one comparison; None where nothing is said of new documents.

    The crossed interval has more degrees of freedom than the verdict's, and may be narrower for
    that alone.
    """
    interval = None if arm.new_documents is None else arm.new_documents.interval
    if interval is None:
        return None
    comparison, low, high = arm.judgement.comparison, interval.low, interval.high
    is_hull = comparison is not None and high - low < (comparison.high - comparison.low) * (
        1 - ROUNDING
    )
    if comparison is not None and is_hull:
        low, high = min(low, comparison.low), max(high, comparison.high)
    return ExpectedGain(
        effect=interval.effect, low=low, high=high, level=interval.level, is_hull=is_hull
    )
