"""The difference along training, and how early the final order shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.compare import compare
from paribus.analyse.criterion import Criterion
from paribus.analyse.equal_totals import validation_bits_per_byte, validation_rows
from paribus.analyse.interval import MIN_SEEDS, interval
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.errors import SpecError
from paribus.record import Row
from paribus.spec.measure import Measure

Curves = Mapping[int, Mapping[int, float]]  # seed → step → score
BAND_NOTE = "pointwise band: at each step alone, not over the curve"
NOT_ANNEALED = "points before the end are not annealed: the schedule still holds the rate up"
MIN_ARMS, MIN_SPLIT_SEEDS = 4, 6


@dataclass(frozen=True)
class GainAtStep:
    """The mean gain at one step, with its pointwise t interval."""

    step: int
    effect: float
    low: float
    high: float


@dataclass(frozen=True)
class EarlyOrder:
    """By step, how often half of the seeds there order arms as the other half does at the end;
    or why not.

    Over the comparisons that ended `better` or `worse`; a half that knew nothing would be right
    half the time.
    """

    agreement: Mapping[int, float]
    decided_arms: tuple[str, ...]
    description: str


def seed_curves(runs: Mapping[int, Sequence[Row]]) -> dict[int, dict[int, float]]:
    """By seed: tokens read → held-out bits a byte, at the mean of all seeds' tokens.

    Seeds read other texts, so at one step their tokens may differ a little; a mean over seeds needs
    one axis.
    """
    found: dict[int, list[int]] = {}
    for row in (row for own in runs.values() for row in validation_rows(own)):
        found.setdefault(row["step"], []).append(row["tokens_read"])
    tokens = {step: round(fmean(each)) for step, each in found.items()}
    return {
        seed: {tokens[row["step"]]: validation_bits_per_byte(row) for row in validation_rows(own)}
        for seed, own in runs.items()
    }


def paired_gain_curve(
    baseline: Curves, arm: Curves, measure: Measure, level: float = 0.95
) -> tuple[GainAtStep, ...]:
    """The paired gain at every step both have, mean ± t·s/√n at each alone."""
    steps, gains_TS = _gains_by_step(baseline, arm, measure)
    low, high = interval(gains_TS, level)
    rows = zip(steps, gains_TS.mean(axis=1), np.atleast_1d(low), np.atleast_1d(high), strict=True)
    return tuple(GainAtStep(step, float(mean), float(a), float(b)) for step, mean, a, b in rows)


def early_order(
    arms: Mapping[str, Curves],
    baseline: str,
    measure: Measure,
    *,
    family_alpha: float = FAMILY_ALPHA,
    decided_arms: Sequence[str] | None = None,
) -> EarlyOrder:
    """The order at each step in one half of the seeds against the final order in the other.

    Seeds are split, since a run's early and late scores share its luck. Every rotation of the
    sorted seeds gives a split. From 4 arms and 6 seeds. `decided` are the arms that ended `better`
    or `worse`; without it, by these curves.
    """
    n_seeds = len(arms[baseline])
    if len(arms) < MIN_ARMS or n_seeds < MIN_SPLIT_SEEDS:
        short = f"{len(arms)} arms and {n_seeds} seeds; {MIN_ARMS} and {MIN_SPLIT_SEEDS} are needed"
        return EarlyOrder({}, (), f"no early order: {short}.")
    found = {
        name: _gains_by_step(arms[baseline], curves, measure)
        for name, curves in arms.items()
        if name != baseline
    }
    if decided_arms is None:
        decided_arms = [
            name
            for name, (_, gains) in found.items()
            if _is_decided_at_end(gains[-1], len(found), family_alpha)
        ]
    if not decided_arms:
        return EarlyOrder({}, (), "no early order: no comparison ended better or worse.")
    steps = sorted(set.intersection(*(set(found[name][0]) for name in decided_arms)))
    agreement = {
        step: float(np.mean([_agreement(*found[name], step) for name in decided_arms]))
        for step in steps
    }
    said = f"Agreement of split seeds over {', '.join(decided_arms)}; {NOT_ANNEALED}."
    return EarlyOrder(agreement, tuple(decided_arms), said)


def _agreement(steps: Sequence[int], gains_TS: NDArray[np.float64], step: int) -> float:
    """The share of splits in which one half's sign at a step is the other half's at the end."""
    now, end = gains_TS[list(steps).index(step)], gains_TS[-1]
    n = len(now)
    splits = [np.split(np.roll(np.arange(n), turn), [n // 2]) for turn in range(n)]
    return float(
        np.mean([np.sign(now[one].mean()) == np.sign(end[other].mean()) for one, other in splits])
    )


def _is_decided_at_end(
    gains_S: NDArray[np.float64], n_comparisons: int, family_alpha: float
) -> bool:
    criterion = Criterion(n_comparisons=n_comparisons, family_alpha=family_alpha)
    return compare(gains_S.tolist(), criterion).verdict.word in ("better", "worse")


def _gains_by_step(
    baseline: Curves, arm: Curves, measure: Measure
) -> tuple[list[int], NDArray[np.float64]]:
    if baseline.keys() != arm.keys() or len(baseline) < MIN_SEEDS:
        raise SpecError(
            f"curves: seeds {sorted(baseline)} against {sorted(arm)}; give the same {MIN_SEEDS} or"
            " more"
        )
    steps = sorted(
        set.intersection(*(set(curve) for curves in (baseline, arm) for curve in curves.values()))
    )
    if not steps:
        raise SpecError("curves: no step is in every curve; measure all runs at the same steps")
    sign = -1.0 if measure.lower_is_better else 1.0
    rows = [
        [sign * (arm[seed][step] - baseline[seed][step]) for seed in sorted(arm)] for step in steps
    ]
    return steps, np.array(rows, dtype=np.float64)
