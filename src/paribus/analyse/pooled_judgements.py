"""Judgements whose numbers come from one noise for all arms, where a design declared it."""

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

from paribus.analyse.advice import advice_on_verdict
from paribus.analyse.compare import Comparison, adjusted_p, normality_remarks
from paribus.analyse.criterion import Criterion
from paribus.analyse.family import ArmPair
from paribus.analyse.judgement import Judgement, Scores, trained_scores
from paribus.analyse.pooled_noise import MIN_ARMS, PooledNoise, pool_noise
from paribus.analyse.undertrained import without_verdict
from paribus.analyse.verdict import Verdict
from paribus.spec.measure import Measure

POOLED_NOISE_REMARK = "by one noise for all arms, as was declared"
CompleteScores = Mapping[str, Mapping[int, float]]


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
