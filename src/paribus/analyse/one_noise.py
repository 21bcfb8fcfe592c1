"""Judgements whose numbers come from one noise for all arms, where a design declared it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

from paribus.analyse.advice import advised
from paribus.analyse.compare import Comparison, doubts
from paribus.analyse.equal_noise import MIN_ARMS, Pooled, equal_noise
from paribus.analyse.failures import Judgement, Scores
from paribus.analyse.family import Pair
from paribus.analyse.looks import SHARE
from paribus.analyse.undertrained import without_word
from paribus.analyse.verdict import Verdict

ONE_NOISE = "by one noise for all arms, as was declared"
Whole = Mapping[str, Mapping[int, float]]


def by_one_noise(
    judgements: Mapping[Pair, Judgement],
    scores: Mapping[str, Scores],
    baseline: str,
    *,
    lower_is_better: bool,
    margin: float | None,
    share: float,
    remarks: Sequence[str] = (),
) -> tuple[dict[Pair, Judgement], Pooled | None]:
    """The same judgements, every arm against the baseline, by the noise of all arms that trained in every seed.

    One that did not, or whose baseline did not, is `unstable` and has no interval: never that of its own noise.
    """
    whole = _whole(scores)
    pooled = None
    if baseline in whole and len(whole) >= MIN_ARMS:
        pooled = equal_noise(
            whole, baseline, lower_is_better=lower_is_better, margin=margin, share=share, n_comparisons=len(judgements)
        )
    found = {}
    for pair, own in judgements.items():
        if own.undertrained:
            found[pair] = without_word(own, own.undertrained)
        elif pooled is None or pair[0] not in pooled.effects or own.comparison is None:
            found[pair] = _unstable(own)
        else:
            made = _pooled(own.comparison, pair[0], pooled, share, remarks)
            found[pair] = replace(own, comparison=made, verdict=made.verdict)
    return found, pooled


def _whole(scores: Mapping[str, Scores]) -> Whole:
    """The arms that trained in every seed."""
    trained = {arm: {seed: y for seed, y in own.items() if y is not None} for arm, own in scores.items()}
    return {arm: own for arm, own in trained.items() if len(own) == len(scores[arm])}


def _unstable(own: Judgement) -> Judgement:
    counts = f"the arm trained in {own.arm_trained}, {own.against} in {own.baseline_trained}"
    why = f"one noise is had from {MIN_ARMS} arms or more that trained in every seed, and judges no other"
    return replace(own, comparison=None, verdict=Verdict("unstable", f"{counts}; {why}"))


def _pooled(made: Comparison, arm: str, pooled: Pooled, share: float, remarks: Sequence[str]) -> Comparison:
    (low, high), (inner_low, inner_high) = pooled.intervals[arm], pooled.inner[arm]
    verdict, p = pooled.verdicts[arm], pooled.p[arm]
    return replace(
        made, low=low, high=high, inner_low=inner_low, inner_high=inner_high, p=p,
        p_adjusted=min(1.0, made.n_comparisons * p * (SHARE / share)), verdict=verdict,
        remarks=(*remarks, ONE_NOISE, *doubts(verdict, made.sign_flip)),
        advice=advised(verdict, made.margin, sqrt(2) * pooled.residual_sd, made.n, 1 - pooled.level),
    )  # fmt: skip
