"""One noise for all arms: an assumption that a design may make before it runs, and has to show."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np

from paribus.analyse.interval import MIN_SEEDS, t_interval, t_test_p
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.verdict import IDENTICAL, Verdict, decide_verdict
from paribus.errors import SpecError
from paribus.spec.measure import Measure

MIN_ARMS = 3


@dataclass(frozen=True)
class PooledNoise:
    """Effects against the baseline under one pooled spread, and every arm's own, by which to
    judge the pooling.

    `score_sds` are of scores, `residual_sds` of what is left of them without arm and seed means:
    the mean of their squares is the square of `residual_sd`.
    """

    effects: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    inner_intervals: Mapping[str, tuple[float, float]]
    p: Mapping[str, float]
    verdicts: Mapping[str, Verdict]
    level: float
    df: int
    residual_sd: float
    score_sds: Mapping[str, float]
    residual_sds: Mapping[str, float]


def pool_noise(
    arms: Mapping[str, Mapping[int, float]],
    baseline: str,
    measure: Measure,
    *,
    margin: float | None = None,
    family_alpha: float = FAMILY_ALPHA,
    n_comparisons: int | None = None,
) -> PooledNoise:
    """Arm against baseline with the residual of all arms: ± t·√(2·MS/n), (n − 1)(k − 1) df.

    MS is what arm and seed means leave over. More df than pairs alone, but intervals that cover too
    seldom where one arm is noisier than the rest. The family is of these arms, or of
    `n_comparisons` where it has more.
    """
    seeds, names = (
        _require_complete_table(arms, baseline),
        [name for name in arms if name != baseline],
    )
    y = np.array([[arms[name][seed] for seed in seeds] for name in arms]) * (
        -1 if measure.lower_is_better else 1
    )
    (k, n), alpha = y.shape, family_alpha / (n_comparisons or len(names))
    left = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0, keepdims=True) + y.mean()
    df = (n - 1) * (k - 1)
    spread = sqrt(float((left**2).sum()) / df)
    error, means = spread * sqrt(2 / n), dict(zip(arms, y.mean(axis=1), strict=True))
    effects = {name: float(means[name] - means[baseline]) for name in names}

    def ends(effect: float, level: float) -> tuple[float, float]:
        low, high = t_interval(effect, error, df, level)
        return float(low), float(high)

    outer = {name: ends(effect, 1 - alpha) for name, effect in effects.items()}
    inner = {name: ends(effect, 1 - 2 * alpha) for name, effect in effects.items()}
    verdicts = {name: decide_verdict(outer[name], inner[name], margin) for name in names}
    same = {name: IDENTICAL for name in names if dict(arms[name]) == dict(arms[baseline])}
    own = np.sqrt((left**2).sum(axis=1) * k / df)
    return PooledNoise(
        effects,
        outer,
        inner,
        {name: float(t_test_p(effect, error, df)) for name, effect in effects.items()},
        verdicts | same,
        1 - alpha,
        df,
        spread,
        dict(zip(arms, map(float, y.std(axis=1, ddof=1)), strict=True)),
        dict(zip(arms, map(float, own), strict=True)),
    )


def _require_complete_table(arms: Mapping[str, Mapping[int, float]], baseline: str) -> list[int]:
    if len(arms) < MIN_ARMS or baseline not in arms:
        raise SpecError(
            f"equal_noise: {', '.join(arms)} against {baseline}; use it from {MIN_ARMS} arms, one"
            " the baseline"
        )
    seeds = sorted(arms[baseline])
    if len(seeds) < MIN_SEEDS or any(sorted(scores) != seeds for scores in arms.values()):
        raise SpecError(
            f"equal_noise: arms differ in seeds; give every arm the same {MIN_SEEDS} or more, all"
            " trained"
        )
    return seeds
