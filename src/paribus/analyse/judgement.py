"""Runs that failed are outcomes: counted, shown, and never dropped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite

import scipy

from paribus.analyse.bound_verdict import compare_scores
from paribus.analyse.compare import Comparison
from paribus.analyse.criterion import Criterion, format_seeds
from paribus.analyse.gain import Scale, gain
from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.verdict import Verdict, VerdictWord, is_decided_before
from paribus.errors import SpecError
from paribus.spec.measure import Measure

Scores = Mapping[int, float | None]  # by seed; None is a run that failed
BASELINE = "the baseline"


@dataclass(frozen=True)
class TrainedCount:
    """k of n runs trained, and the exact (Clopper–Pearson) 95 % interval of that share."""

    k: int
    n: int
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.k} of {self.n}"


@dataclass(frozen=True)
class PairedSeed:
    """One seed in both arms; `gain` where both trained."""

    seed: int
    baseline: float | None
    arm: float | None
    gain: float | None


@dataclass(frozen=True)
class Judgement:
    """The verdict on an arm with its failures: every seed, who trained how often, and the
    comparison where both did.

    `mcnemar` is the exact p of failing equally often, None where no seed failed in one arm alone;
    below 6 such seeds it cannot reach 0.05.
    """

    seeds: tuple[PairedSeed, ...]
    baseline_trained: TrainedCount
    arm_trained: TrainedCount
    mcnemar: float | None
    comparison: Comparison | None
    verdict: Verdict
    against: str = BASELINE  # what the first of the two is called
    undertrained_note: str = ""  # which runs were not trained long enough, where any were

    @property
    def description(self) -> str:
        """The verdict as a sentence, failures first where there are any."""
        if self.comparison is None:
            return f"{self.verdict}."
        if self.undertrained_note:
            return f"{self.comparison.description} Runs were {self.undertrained_note}."
        if self.arm_trained.k == self.baseline_trained.k == len(self.seeds):
            return self.comparison.description
        counts = f"the arm trained in {self.arm_trained}, {self.against} in {self.baseline_trained}"
        return f"{self.verdict.label}: {counts}; where both trained, {self.comparison.description}"


def judgement_with_word(judgement: Judgement, verdict: Verdict) -> Judgement:
    """The judgement with a word that is decided before those of t, and without an interval; as it
    is where its own word is decided before this one.

    Where one arm failed more often it stays `unstable`, and this is what holds of the seeds in
    which both trained.
    """
    comparison = judgement.comparison
    present = judgement.verdict if comparison is None else comparison.verdict
    if not is_decided_before(verdict.word, present.word):
        return judgement
    if comparison is None:
        return replace(judgement, verdict=verdict)
    own = _verdict_with_failures(
        judgement.baseline_trained,
        judgement.arm_trained,
        replace(comparison, verdict=verdict, advice=None),
        judgement.against,
    )
    return replace(judgement, comparison=None, verdict=own)


def judgement_with_seed_count(judgement: Judgement) -> Judgement:
    """The judgement whose word says in how many seeds it holds, where runs of the pair failed.

    A word of t is of the seeds in which both arms have a score; `unstable` names the others.
    """
    n_both, verdict = sum(one.gain is not None for one in judgement.seeds), judgement.verdict
    n = len(judgement.seeds)
    if verdict.word == "unstable":
        counted = replace(verdict, seeds=f"in {n - n_both} of {n} seeds")
        return replace(judgement, verdict=counted)
    comparison = judgement.comparison
    if comparison is None or comparison.n == n:
        return judgement
    counted = replace(verdict, seeds=f"in {comparison.n} of {n} seeds")
    return replace(judgement, verdict=counted, comparison=replace(comparison, verdict=counted))


def score_if_trained(score: float, unigram: float, measure: Measure) -> float | None:
    """The score of a run that trained; None where it is no number, or worse than knowing how
    frequent words are.
    """
    if not isfinite(score):
        return None
    if measure.gain(unigram, score) < 0:
        return None
    return score


def trained_scores(scores: Scores) -> dict[int, float]:
    """The scores of the seeds that trained."""
    return {seed: score for seed, score in scores.items() if score is not None}


@lru_cache(maxsize=4096)  # a report asks for the same few again and again
def trained_count(k: int, n: int) -> TrainedCount:
    """k of n with its exact interval: of 5 runs that all trained, up to 52 % may still fail."""
    interval = scipy.stats.binomtest(k, n).proportion_ci(0.95, "exact")
    return TrainedCount(k, n, float(interval.low), float(interval.high))


def mcnemar(only_arm: int, only_baseline: int) -> float | None:
    """The exact two-sided p of as many failures in one arm alone as in the other; None where
    there is neither.
    """
    discordant = only_arm + only_baseline
    if discordant:
        return float(scipy.stats.binomtest(only_arm, discordant).pvalue)
    return None


def judge_arm(
    baseline: Scores,
    arm: Scores,
    measure: Measure,
    criterion: Criterion | None = None,
    *,
    scale: Scale = "difference",
    against: str = BASELINE,
) -> Judgement:
    """The verdict on an arm, seeds paired by key: those that the criterion declares, else those
    of either arm.
    """
    criterion = criterion or Criterion()
    rows = _pair_seeds(baseline, arm, criterion, measure, scale)
    gains = {row.seed: row.gain for row in rows if row.gain is not None}
    seeds, comparison = [row.seed for row in rows], None
    if len(gains) >= MIN_SEEDS:
        own = criterion.for_seeds(seeds).for_seeds(list(gains))
        arms = [[scores[seed] for seed in gains] for scores in map(trained_scores, (baseline, arm))]
        comparison = compare_scores(arms, list(gains.values()), measure, own)
    before = trained_count(len(trained_scores(baseline)), len(rows))
    after = trained_count(len(trained_scores(arm)), len(rows))
    return Judgement(
        seeds=rows,
        baseline_trained=before,
        arm_trained=after,
        mcnemar=mcnemar(before.k - len(gains), after.k - len(gains)),
        comparison=comparison,
        verdict=_verdict_with_failures(before, after, comparison, against),
        against=against,
    )


def _pair_seeds(
    baseline: Scores, arm: Scores, criterion: Criterion, measure: Measure, scale: Scale
) -> tuple[PairedSeed, ...]:
    if criterion.seeds is None:
        seeds = sorted(baseline.keys() | arm.keys())
    else:
        seeds = sorted(set(criterion.seeds))
    _require_declared_seeds(seeds, {"baseline": baseline, "arm": arm})
    rows = []
    for seed in seeds:
        before, after = baseline[seed], arm[seed]
        seed_gain = None
        if before is not None and after is not None:
            seed_gain = gain(before, after, measure, scale)
        rows.append(PairedSeed(seed, before, after, seed_gain))
    return tuple(rows)


def _require_declared_seeds(seeds: Sequence[int], arms: Mapping[str, Scores]) -> None:
    if len(seeds) < MIN_SEEDS:
        raise SpecError(
            f"seeds: {len(seeds)} given, too few for a verdict; use {MIN_SEEDS} or more, 5 by"
            " default"
        )
    problems = []
    for name, scores in arms.items():
        missing = [seed for seed in seeds if seed not in scores]
        extra = sorted(scores.keys() - set(seeds))
        if missing:
            problems.append(
                f"{name}: seeds {format_seeds(missing)} were not run; run them (None is for a run"
                " that failed)"
            )
        if extra:
            problems.append(
                f"{name}: seeds {format_seeds(extra)} were not declared; leave no run out, or"
                " declare a new design"
            )
    if problems:
        raise SpecError(problems)


def _verdict_with_failures(
    baseline: TrainedCount, arm: TrainedCount, comparison: Comparison | None, against: str
) -> Verdict:
    """The comparison's verdict, unless it would favour, or find equal, an arm that failed more
    often.
    """
    if comparison is None:
        counts = f"the arm trained in {arm}, {against} in {baseline}"
        return Verdict("unstable", f"{counts}; fewer than {MIN_SEEDS} seeds trained in both")
    if arm.k == baseline.k:
        return comparison.verdict
    allowed_word: VerdictWord = "worse" if arm.k < baseline.k else "better"
    if comparison.verdict.word == allowed_word:
        return comparison.verdict
    if arm.k < baseline.k:
        name, fewer = ("the arm", arm)
    else:
        name, fewer = (against, baseline)
    return Verdict(
        "unstable", f"{name} trained in {fewer}; where both trained, {comparison.verdict}"
    )
