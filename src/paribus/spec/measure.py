"""What the scores of a yardstick are: their unit, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LikelihoodKind = Literal["likelihood", "pseudo-likelihood"]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The scores of one kind of yardstick. Two measures are never put on one axis."""

    kind: LikelihoodKind
    unit: str
    lower_is_better: bool

    @property
    def direction(self) -> str:
        """Which way is better, in words."""
        if self.lower_is_better:
            return "lower is better"
        return "higher is better"

    def gain(self, baseline: float, arm: float) -> float:
        """By how much an arm is better than the baseline; below zero, worse."""
        if self.lower_is_better:
            return baseline - arm
        return arm - baseline


LIKELIHOOD = Measure(kind="likelihood", unit="bits per byte", lower_is_better=True)
PSEUDO_LIKELIHOOD = Measure(kind="pseudo-likelihood", unit="bits per byte", lower_is_better=True)
