"""One noise for all arms: an assumption that a design may make before it runs, and has to show."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.criterion import Criterion
from paribus.analyse.interval import MIN_SEEDS, t_interval, t_test_p
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
    criterion: Criterion | None = None,
) -> PooledNoise:
    """Arm against baseline with the residual of all arms: ± t·√(2·MS/n), (n − 1)(k − 1) df.

    MS is what arm and seed means leave over. More df than pairs alone, but intervals that cover too
    seldom where one arm is noisier than the rest. The family is of these arms, or
    larger where the criterion says so.
    """
    own = (criterion or Criterion()).for_seeds(_require_complete_table(arms, baseline))
    margin = _require_one_margin(own)
    names = [name for name in arms if name != baseline]
    y = _scores_by_arm(arms, measure)
    (k, n), alpha = y.shape, own.for_family(len(names)).alpha
    residuals = y - y.mean(axis=1, keepdims=True) - y.mean(axis=0, keepdims=True) + y.mean()
    df = (n - 1) * (k - 1)
    residual_sd = sqrt(float((residuals**2).sum()) / df)
    error, means = residual_sd * sqrt(2 / n), dict(zip(arms, y.mean(axis=1), strict=True))
    effects, outer, inner, p, verdicts = {}, {}, {}, {}, {}
    for name in names:
        effects[name] = float(means[name] - means[baseline])
        outer[name] = _ends(effects[name], error, df, 1 - alpha)
        inner[name] = _ends(effects[name], error, df, 1 - 2 * alpha)
        p[name] = float(t_test_p(effects[name], error, df))
        verdicts[name] = decide_verdict(outer[name], inner[name], margin, test=own.test)
        if dict(arms[name]) == dict(arms[baseline]):
            verdicts[name] = IDENTICAL
    residual_sds = np.sqrt((residuals**2).sum(axis=1) * k / df)
    return PooledNoise(
        effects=effects,
        intervals=outer,
        inner_intervals=inner,
        p=p,
        verdicts=verdicts,
        level=1 - alpha,
        df=df,
        residual_sd=residual_sd,
        score_sds=dict(zip(arms, map(float, y.std(axis=1, ddof=1)), strict=True)),
        residual_sds=dict(zip(arms, map(float, residual_sds), strict=True)),
    )


def _scores_by_arm(
    arms: Mapping[str, Mapping[int, float]], measure: Measure
) -> NDArray[np.float64]:
    """The scores of complete arms, arms by seeds, oriented so that more is better."""
    rows = []
    for scores in arms.values():
        rows.append([scores[seed] for seed in sorted(scores)])
    if measure.lower_is_better:
        return np.array(rows) * -1
    return np.array(rows) * 1


def _ends(effect: float, error: float, df: int, level: float) -> tuple[float, float]:
    low, high = t_interval(effect, error, df, level)
    return float(low), float(high)


def _require_one_margin(criterion: Criterion) -> float | None:
    margin = criterion.margin
    if criterion.open_ended:
        raise SpecError("equal_noise: the number of seeds is open; declare how many there are")
    if margin is None or isinstance(margin, int | float):
        return margin
    raise SpecError("equal_noise: the margin is given by seed; use one number for all seeds")


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
