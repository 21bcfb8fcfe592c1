"""One noise for all arms: an assumption that a design may make before it runs, and has to show."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np

from paribus.analyse.interval import MIN_SEEDS, around, p_of
from paribus.analyse.looks import SHARE
from paribus.analyse.verdict import IDENTICAL, Verdict, decide
from paribus.errors import SpecError

MIN_ARMS = 3


@dataclass(frozen=True)
class Pooled:
    """Effects against the baseline under one pooled spread, and every arm's own, by which to judge the pooling.

    `arm_sds` are of scores, `own_sds` of what is left of them without arm and seed means: the mean of their squares is
    the square of `residual_sd`.
    """

    effects: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    inner: Mapping[str, tuple[float, float]]
    p: Mapping[str, float]
    verdicts: Mapping[str, Verdict]
    level: float
    df: int
    residual_sd: float
    arm_sds: Mapping[str, float]
    own_sds: Mapping[str, float]


def equal_noise(
    arms: Mapping[str, Mapping[int, float]],
    baseline: str,
    *,
    lower_is_better: bool,
    margin: float | None = None,
    share: float = SHARE,
    n_comparisons: int | None = None,
) -> Pooled:
    """Arm against baseline with the residual of all arms: ± t·√(2·MS/n), (n − 1)(k − 1) df.

    MS is what arm and seed means leave over. More df than pairs alone, but intervals that cover too seldom where one
    arm is noisier than the rest. The family is of these arms, or of `n_comparisons` where it has more.
    """
    seeds, names = _require_table(arms, baseline), [name for name in arms if name != baseline]
    y = np.array([[arms[name][seed] for seed in seeds] for name in arms]) * (-1 if lower_is_better else 1)
    (k, n), alpha = y.shape, share / (n_comparisons or len(names))
    left = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0, keepdims=True) + y.mean()
    df = (n - 1) * (k - 1)
    spread = sqrt(float((left**2).sum()) / df)
    error, means = spread * sqrt(2 / n), dict(zip(arms, y.mean(axis=1), strict=True))
    effects = {name: float(means[name] - means[baseline]) for name in names}

    def ends(effect: float, level: float) -> tuple[float, float]:
        low, high = around(effect, error, df, level)
        return float(low), float(high)

    outer = {name: ends(effect, 1 - alpha) for name, effect in effects.items()}
    inner = {name: ends(effect, 1 - 2 * alpha) for name, effect in effects.items()}
    verdicts = {name: decide(outer[name], inner[name], margin) for name in names}
    same = {name: IDENTICAL for name in names if dict(arms[name]) == dict(arms[baseline])}
    own = np.sqrt((left**2).sum(axis=1) * k / df)
    return Pooled(
        effects, outer, inner, {name: float(p_of(effect, error, df)) for name, effect in effects.items()},
        verdicts | same, 1 - alpha, df, spread, dict(zip(arms, map(float, y.std(axis=1, ddof=1)), strict=True)),
        dict(zip(arms, map(float, own), strict=True)),
    )  # fmt: skip


def _require_table(arms: Mapping[str, Mapping[int, float]], baseline: str) -> list[int]:
    if len(arms) < MIN_ARMS or baseline not in arms:
        raise SpecError(
            f"equal_noise: {', '.join(arms)} against {baseline}; use it from {MIN_ARMS} arms, one the baseline"
        )
    seeds = sorted(arms[baseline])
    if len(seeds) < MIN_SEEDS or any(sorted(scores) != seeds for scores in arms.values()):
        raise SpecError(f"equal_noise: arms differ in seeds; give every arm the same {MIN_SEEDS} or more, all trained")
    return seeds
