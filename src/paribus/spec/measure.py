"""What the scores of a yardstick or a task are: their unit, which way is better, how those of
items add up, and where they end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

LikelihoodKind = Literal["likelihood", "pseudo-likelihood"]
POINTS = "points"
_SINGULARS = {POINTS: "point", "bits per byte": "bit per byte"}


def with_unit(number: str, unit: str) -> str:
    """A number as it is written, and its unit: "1 point", "±1 point", "2 points"; alone where
    there is no unit.
    """
    if number.lstrip("±+−-") == "1":
        unit = _SINGULARS.get(unit, unit)
    return f"{number} {unit}".rstrip()


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The scores of one kind of yardstick. Two measures are never put on one axis.

    Answers are recorded as sums and counts. The score of a run is `scale` × the sum over the count,
    if the measure adds up over items; another is computed from all answers at once.
    """

    kind: str
    unit: str
    lower_is_better: bool
    scale: float = 1.0  # what a recorded score is multiplied by: 100 where a share is in points
    adds_up: bool = True
    ceiling: float | None = None  # the best score there can be, in the unit
    is_difference: bool = False  # is it the score of a run minus that of its parent?

    @property
    def direction(self) -> str:
        """Which way is better, in words."""
        if self.lower_is_better:
            return "lower is better"
        return "higher is better"

    @property
    def is_likelihood(self) -> bool:
        """Is it in nats or bits of text, so that a unigram model has a score too?"""
        return self.kind in ("likelihood", "pseudo-likelihood")

    def gain(self, baseline: float, arm: float) -> float:
        """By how much an arm is better than the baseline; below zero, worse."""
        if self.lower_is_better:
            return baseline - arm
        return arm - baseline

    def best(self, scores: list[float]) -> float:
        """The best of some scores."""
        if self.lower_is_better:
            return min(scores)
        return max(scores)


def minus_parent(measure: Measure) -> Measure:
    """The measure of a score minus that of the parent: 0 where a stage changes nothing, and without
    a best score of its own.
    """
    kind = f"{measure.kind} minus the parent's"
    return replace(measure, kind=kind, ceiling=None, is_difference=True)


def _points(kind: str, *, adds_up: bool = True) -> Measure:
    """A measure that is recorded between 0 and 1."""
    return Measure(
        kind=kind,
        unit=POINTS,
        lower_is_better=False,
        scale=100.0,
        adds_up=adds_up,
        ceiling=100.0,
    )


LIKELIHOOD = Measure(kind="likelihood", unit="bits per byte", lower_is_better=True)
PSEUDO_LIKELIHOOD = Measure(kind="pseudo-likelihood", unit="bits per byte", lower_is_better=True)
ACCURACY = _points("accuracy")
MATTHEWS = _points("matthews", adds_up=False)
_TASK_MEASURES = (
    ACCURACY,
    MATTHEWS,
    _points("macro f1", adds_up=False),
    _points("span f1", adds_up=False),
    _points("exact match"),
    _points("reward"),
    _points("f1"),
    _points("bleu", adds_up=False),
    _points("chrf", adds_up=False),
    _points("rouge-1"),
    _points("rouge-2"),
    _points("rouge-l"),
    Measure(kind="bits per byte", unit="bits per byte", lower_is_better=True),
)
_DIFFERENCES = tuple(minus_parent(measure) for measure in _TASK_MEASURES if measure.adds_up)
# by the name that a task and its record have
TASK_MEASURES: Mapping[str, Measure] = {
    measure.kind: measure for measure in (*_TASK_MEASURES, *_DIFFERENCES)
}
