"""One noise for all arms, and judgements by it: an assumption that a design may make before it
runs, and has to show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.advice import advice_on_verdict
from paribus.analyse.compare import Comparison, adjusted_p, normality_remarks
from paribus.analyse.criterion import Criterion
from paribus.analyse.family import ArmPair
from paribus.analyse.interval import MIN_SEEDS, t_interval, t_test_p
from paribus.analyse.judgement import Judgement, Scores, trained_scores
from paribus.analyse.undertrained import without_verdict
from paribus.analyse.verdict import IDENTICAL, Verdict, decide_verdict
from paribus.errors import SpecError
from paribus.spec.measure import Measure

MIN_ARMS = 3
POOLED_NOISE_REMARK = "by one noise for all arms, as was declared"
CompleteScores = Mapping[str, Mapping[int, float]]  # arm → seed → score, in every seed


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
    arms: CompleteScores,
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


def _scores_by_arm(arms: CompleteScores, measure: Measure) -> NDArray[np.float64]:
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


def _require_complete_table(arms: CompleteScores, baseline: str) -> list[int]:
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


def judge_with_pooled_noise(
    judgements: Mapping[ArmPair, Judgement],
    scores: Mapping[str, Scores],
    baseline: str,
    measure: Measure,
    criterion: Criterion,
) -> tuple[dict[ArmPair, Judgement], PooledNoise | None]:
    """Judgements by pooled noise: every arm against the baseline, by the noise of all arms that
    trained in every seed.

    One that did not, or whose baseline did not, is `unstable` and has no interval: never that of
    its own noise.
    """
    complete_scores = _complete_arms(scores)
    pooled_noise = None
    if baseline in complete_scores and len(complete_scores) >= MIN_ARMS:
        pooled_noise = pool_noise(
            complete_scores, baseline, measure, criterion.for_family(len(judgements))
        )
    results = {}
    for pair, own in judgements.items():
        if own.undertrained_note:
            results[pair] = without_verdict(own, own.undertrained_note)
        elif pooled_noise is None or pair[0] not in pooled_noise.effects or own.comparison is None:
            results[pair] = _unstable_judgement(own)
        else:
            comparison = _with_pooled_noise(own.comparison, pair[0], pooled_noise, criterion)
            results[pair] = replace(own, comparison=comparison, verdict=comparison.verdict)
    return results, pooled_noise


def _complete_arms(scores: Mapping[str, Scores]) -> CompleteScores:
    """The arms that trained in every seed."""
    complete = {}
    for arm, own in scores.items():
        own_scores = trained_scores(own)
        if len(own_scores) == len(own):
            complete[arm] = own_scores
    return complete


def _unstable_judgement(judgement: Judgement) -> Judgement:
    counts = (
        f"the arm trained in {judgement.arm_trained}, {judgement.against} in"
        f" {judgement.baseline_trained}"
    )
    why = (
        f"one noise is had from {MIN_ARMS} arms or more that trained in every seed, and judges no"
        " other"
    )
    return replace(judgement, comparison=None, verdict=Verdict("unstable", f"{counts}; {why}"))


def _with_pooled_noise(
    comparison: Comparison, arm: str, pooled_noise: PooledNoise, criterion: Criterion
) -> Comparison:
    low, high = pooled_noise.intervals[arm]
    inner_low, inner_high = pooled_noise.inner_intervals[arm]
    verdict, p = pooled_noise.verdicts[arm], pooled_noise.p[arm]
    doubts = normality_remarks(verdict, comparison.sign_flip)
    return replace(
        comparison,
        low=low,
        high=high,
        inner_low=inner_low,
        inner_high=inner_high,
        p=p,
        p_adjusted=adjusted_p(p, replace(criterion, n_comparisons=comparison.n_comparisons)),
        verdict=verdict,
        remarks=(*criterion.remarks, POOLED_NOISE_REMARK, *doubts),
        advice=advice_on_verdict(
            verdict,
            comparison.margin,
            sqrt(2) * pooled_noise.residual_sd,
            comparison.n,
            1 - pooled_noise.level,
        ),
    )
