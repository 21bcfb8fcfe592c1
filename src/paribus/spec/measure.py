"""What the scores of a yardstick or a task are: their unit, which way is better, how those of
items add up, and where they end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

LikelihoodKind = Literal["likelihood", "pseudo-likelihood"]
POINTS, BITS_PER_BYTE, BITS_PER_ITEM = "points", "bits per byte", "bits per item"
_SINGULARS = {
    POINTS: "point",
    BITS_PER_BYTE: "bit per byte",
    BITS_PER_ITEM: "bit per item",
}
# from no knowledge to all of it, by unit: a guess among all bytes costs 8 bits
WHOLE_RANGES = {POINTS: 100.0, BITS_PER_BYTE: 8.0}


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
    is_inside: bool = False  # is it something inside of a model, of which neither way is better?

    @property
    def direction(self) -> str:
        """Which way is better, in words."""
        if self.is_inside:
            return "neither way is better"
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


LIKELIHOOD = Measure(kind="likelihood", unit=BITS_PER_BYTE, lower_is_better=True)
PSEUDO_LIKELIHOOD = Measure(kind="pseudo-likelihood", unit=BITS_PER_BYTE, lower_is_better=True)
ACCURACY = _points("accuracy")
MATTHEWS = _points("matthews", adds_up=False)
_TASK_MEASURES = (
    ACCURACY,
    MATTHEWS,
    _points("macro f1", adds_up=False),
    _points("span f1", adds_up=False),
    _points("exact match"),
    _points("normalised match"),
    _points("reward"),
    _points("f1"),
    _points("bleu", adds_up=False),
    _points("chrf", adds_up=False),
    _points("rouge-1"),
    _points("rouge-2"),
    _points("rouge-l"),
    Measure(kind="bits per byte", unit=BITS_PER_BYTE, lower_is_better=True),
    Measure(kind="log loss", unit=BITS_PER_ITEM, lower_is_better=True),
)
_DIFFERENCES = tuple(minus_parent(measure) for measure in _TASK_MEASURES if measure.adds_up)
# what a probe finds, by its kind: the unit of each quantity that a design can show
PROBE_UNITS: Mapping[str, Mapping[str, str]] = {
    "rank": {
        "effective rank": "directions",
        "effective rank over the most there can be": "",
        "stable rank": "directions",
        "numerical rank at 0.01": "directions",
        "numerical rank at 0.0001": "directions",
        "numerical rank above rounding": "directions",
        "log |det|": "nats",
    },
    "collapse": {
        "residual over norm": "",
        "residual over norm, composite": "",
        "cosine similarity": "",
    },
    "experts": {
        "MaxVio over the whole text": "",
        "MaxVio, mean over batches": "",
        "first expert stays": "",
        "an expert stays": "",
        "what the domain tells of the expert": "bits",
        "what the token tells of the expert": "bits",
    },
    "positions": {
        "distance to the true position": "tokens",
        "variance explained": "",
        "exact positions": "",
    },
    "flow": {
        "attention distance": "tokens",
        "attention entropy": "nats",
        "weight on the first token": "",
        "weight on itself": "",
        "weight on the most attended token": "",
        "reached pairs": "",
        "gradient distance": "tokens",
    },
    "context": {
        "gain of context": "bits per byte",
        "gain of order": "bits per byte",
        "effective context": "tokens",
    },
    "gradients": {
        "gradient norm": "",
        "gradient norm per target": "",
        "gradient norm per token": "",
        "gradient norm of one text": "",
        "targets per text": "targets",
        "targets per token": "",
        "curvature along the gradient": "",
        "curvature along the last update": "",
    },
    "corruption": {
        "loss, corrupted input": "bits per byte",
        "loss, plain input": "bits per byte",
        "cost of corruption": "bits per byte",
    },
    "descent": {
        "SimAOU": "",
        "SimAOU, random update": "",
        "SimAM": "",
        "SimAM, before tuning": "",
        "Kendall's tau": "",
        "Rec2FTP": "",
    },
    "in-context": {
        "squared error": "",
        "squared difference": "",
        "nats": "nats",
        "accuracy": "",
        "mass of symbols": "",
    },
}


def inside_name(probe: str, quantity: str) -> str:
    """What the measure of a probe's quantity is called."""
    return f"{probe}: {quantity}"


def _inside_measures() -> Iterator[Measure]:
    for probe, units in PROBE_UNITS.items():
        for quantity, unit in units.items():
            yield Measure(
                kind=inside_name(probe, quantity),
                unit=unit,
                lower_is_better=False,
                adds_up=False,
                is_inside=True,
            )


# by the name that a task, or a probe, and its record have
TASK_MEASURES: Mapping[str, Measure] = {
    measure.kind: measure for measure in (*_TASK_MEASURES, *_DIFFERENCES, *_inside_measures())
}
