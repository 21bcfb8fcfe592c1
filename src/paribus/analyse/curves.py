"""The difference along training, and how early the final order shows."""

from collections.abc import Iterable, Mapping, Sequence
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
    tokens_by_step: dict[int, list[int]] = {}
    for own in runs.values():
        for row in validation_rows(own):
            tokens_by_step.setdefault(row["step"], []).append(row["tokens_read"])
    curves: dict[int, dict[int, float]] = {}
    for seed, own in runs.items():
        curves[seed] = {}
        for row in validation_rows(own):
            tokens = round(fmean(tokens_by_step[row["step"]]))
            curves[seed][tokens] = validation_bits_per_byte(row)
    return curves


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
    sorted seeds gives a split. From 4 arms and 6 seeds. `decided_arms` are the
    arms that ended `better` or `worse`; without it, by these curves.
    """
    n_seeds = len(arms[baseline])
    if len(arms) < MIN_ARMS or n_seeds < MIN_SPLIT_SEEDS:
        short = f"{len(arms)} arms and {n_seeds} seeds; {MIN_ARMS} and {MIN_SPLIT_SEEDS} are needed"
        return EarlyOrder({}, (), f"no early order: {short}.")
    gains_by_arm = {}
    for name, curves in arms.items():
        if name != baseline:
            gains_by_arm[name] = _gains_by_step(arms[baseline], curves, measure)
    if decided_arms is None:
        criterion = Criterion(n_comparisons=len(gains_by_arm), family_alpha=family_alpha)
        decided_arms = _decided_arms(gains_by_arm, criterion)
    if not decided_arms:
        return EarlyOrder({}, (), "no early order: no comparison ended better or worse.")
    decided_gains = [gains_by_arm[name] for name in decided_arms]
    agreement = {}
    for step in _common_steps([steps for steps, _ in decided_gains]):
        shares = [_agreement(steps, gains_TS, step) for steps, gains_TS in decided_gains]
        agreement[step] = float(np.mean(shares))
    description = f"Agreement of split seeds over {', '.join(decided_arms)}; {NOT_ANNEALED}."
    return EarlyOrder(agreement, tuple(decided_arms), description)


def _common_steps(steps: Iterable[Iterable[int]]) -> list[int]:
    """The steps that all of some curves have."""
    return sorted(set.intersection(*map(set, steps)))


def _agreement(steps: Sequence[int], gains_TS: NDArray[np.float64], step: int) -> float:
    """The share of splits in which one half's sign at a step is the other half's at the end."""
    now, end = gains_TS[list(steps).index(step)], gains_TS[-1]
    n = len(now)
    agrees = []
    for turn in range(n):
        one, other = np.split(np.roll(np.arange(n), turn), [n // 2])
        agrees.append(np.sign(now[one].mean()) == np.sign(end[other].mean()))
    return float(np.mean(agrees))


def _decided_arms(
    gains_by_arm: Mapping[str, tuple[list[int], NDArray[np.float64]]], criterion: Criterion
) -> list[str]:
    """The arms that are better or worse at the end of their curves."""
    names = []
    for name, (_, gains_TS) in gains_by_arm.items():
        verdict = compare(gains_TS[-1].tolist(), criterion).verdict
        if verdict.word in ("better", "worse"):
            names.append(name)
    return names


def _gains_by_step(
    baseline: Curves, arm: Curves, measure: Measure
) -> tuple[list[int], NDArray[np.float64]]:
    if baseline.keys() != arm.keys() or len(baseline) < MIN_SEEDS:
        raise SpecError(
            f"curves: seeds {sorted(baseline)} against {sorted(arm)}; give the same {MIN_SEEDS} or"
            " more"
        )
    steps = _common_steps([*baseline.values(), *arm.values()])
    if not steps:
        raise SpecError("curves: no step is in every curve; measure all runs at the same steps")
    sign = -1.0 if measure.lower_is_better else 1.0
    rows = []
    for step in steps:
        rows.append([sign * (arm[seed][step] - baseline[seed][step]) for seed in sorted(arm)])
    return steps, np.array(rows, dtype=np.float64)
