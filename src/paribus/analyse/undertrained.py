"""Runs that were not trained long enough: finite, falling, still worse than the unigram model.
They did not fail.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from paribus.analyse.judgement import Judgement, Scores
from paribus.analyse.verdict import Verdict

UNDERTRAINED = "undertrained"  # the outcome of such a run
UNDERTRAINED_REASON = "not trained long enough, still worse than the unigram model"
RISE_FACTOR = 1.05  # a last loss above this multiple of the lowest one has risen
# arm → seed → the score of a run that was not trained long enough
UndertrainedScores = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class UndertrainedRuns:
    """The scores of runs that were not trained long enough, and the control, which may be
    `worse` by them. `comes_later` says that `identical` and `unstable` are decided before them, as
    they are from the fourth edition on.
    """

    scores: UndertrainedScores = field(default_factory=dict)
    control: str | None = None
    comes_later: bool = False

    def of(self, arm: str) -> Mapping[int, float]:
        return self.scores.get(arm, {})


def has_risen(losses: Sequence[float]) -> bool:
    """Is the last loss above the first, or above 1.05 times the lowest? One that is no number
    has risen.
    """
    if not all(map(isfinite, losses)):
        return True
    return bool(losses) and (losses[-1] > losses[0] or losses[-1] > RISE_FACTOR * min(losses))


def describe_undertrained(
    names: Iterable[str], undertrained_scores: UndertrainedScores, seeds: Sequence[int]
) -> str:
    """Which of these arms were not trained long enough, and in how many seeds; empty where all
    were.
    """
    counts = []
    for name in dict.fromkeys(names):
        n_short = len(undertrained_scores.get(name, {}).keys() & set(seeds))
        if n_short:
            counts.append(f"{name} in {n_short} of {len(seeds)} seeds")
    if counts:
        return f"not trained long enough ({', '.join(counts)})"
    return ""


def with_undertrained_scores(
    scores: Scores, undertrained_scores: Mapping[int, float]
) -> dict[int, float | None]:
    """Scores that also hold what runs had reached that were not trained long enough."""
    return {
        **scores,
        **{seed: score for seed, score in undertrained_scores.items() if seed in scores},
    }


def without_verdict(judgement: Judgement, note: str) -> Judgement:
    """The judgement of a pair that gets no word and no interval; every seed stays in the table."""
    return replace(
        judgement,
        comparison=None,
        mcnemar=None,
        verdict=Verdict("no verdict", note),
        undertrained_note=note,
    )


def earlier_judgement(
    judgement: Judgement, with_undertrained: Judgement, note: str
) -> Judgement | None:
    """The judgement of a pair that is `identical` or `unstable` whatever its undertrained runs
    would have scored; None where it is neither.

    Undertrained runs did not fail: `unstable` is where runs of one arm alone diverged.
    """
    if with_undertrained.verdict.word == "identical":
        return replace(judgement, comparison=None, verdict=with_undertrained.verdict)
    before, after = with_undertrained.baseline_trained, with_undertrained.arm_trained
    if before.k == after.k:
        return None
    counts = (
        f"runs diverged in {after.n - after.k} of {after.n} seeds of the arm and in"
        f" {before.n - before.k} of {judgement.against}; others were {note}"
    )
    return replace(without_verdict(judgement, note), verdict=Verdict("unstable", counts))


def worse_control_judgement(
    judgement: Judgement, with_undertrained: Judgement, note: str
) -> Judgement | None:
    """A declared control may be `worse` by the scores its runs had reached; None where it is
    not.
    """
    if with_undertrained.verdict.word != "worse" or with_undertrained.comparison is None:
        return None
    return replace(
        judgement,
        comparison=with_undertrained.comparison,
        mcnemar=None,
        verdict=with_undertrained.verdict,
        undertrained_note=note,
    )
