"""All comparisons of a design as one family: every arm against the baseline, or the pairs it
names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from paribus.analyse.criterion import Criterion
from paribus.analyse.judgement import BASELINE, Judgement, Scores, judge_arm
from paribus.analyse.undertrained import (
    UndertrainedRuns,
    describe_undertrained,
    earlier_judgement,
    with_undertrained_scores,
    without_verdict,
    worse_control_judgement,
)
from paribus.errors import SpecError
from paribus.spec.measure import Measure

ArmPair = tuple[str, str]  # an arm, and the arm it is judged against


def judge_family(
    arms: Mapping[str, Scores],
    baseline: str,
    measure: Measure,
    criterion: Criterion | None = None,
    *,
    comparisons: Iterable[ArmPair] | None = None,
    undertrained_runs: UndertrainedRuns | None = None,
) -> dict[ArmPair, Judgement]:
    """A judgement for each pair; by default of every arm and the baseline, so that m = arms − 1.

    All are read at one look: the share of the number of seeds, failures included. Bonferroni over
    the family, which is larger than these pairs where the criterion says so. A pair with a run
    that was not trained long enough gets no word, but for a declared control that is worse; the
    family is not shrunk.
    """
    if comparisons is None:
        pairs = [(name, baseline) for name in arms if name != baseline]
    else:
        pairs = list(comparisons)
    _require_pairs(arms, baseline, pairs)
    own = _family_criterion(arms, criterion or Criterion(), len(pairs))
    family = _Family(
        arms=arms,
        baseline=baseline,
        measure=measure,
        criterion=own,
        undertrained_runs=undertrained_runs or UndertrainedRuns(),
    )
    return {(name, against): family.judge_pair(name, against) for name, against in pairs}


def _family_criterion(arms: Mapping[str, Scores], criterion: Criterion, n_pairs: int) -> Criterion:
    """The criterion with the seeds, the look and the size of this family."""
    if criterion.seeds is None:
        seeds = set().union(*arms.values())
    else:
        seeds = set(criterion.seeds)
    return criterion.for_seeds(sorted(seeds)).for_family(n_pairs)


@dataclass(frozen=True)
class _Family:
    """What every pair of a family is judged with."""

    arms: Mapping[str, Scores]
    baseline: str
    measure: Measure
    criterion: Criterion
    undertrained_runs: UndertrainedRuns

    def judge_pair(self, name: str, against: str) -> Judgement:
        own = self._judge(name, against, self.arms)
        seeds = self.criterion.seeds or ()
        note = describe_undertrained((name, against), self.undertrained_runs.scores, seeds)
        if not note:
            return own
        is_control = name == self.undertrained_runs.control
        decided = None
        if is_control or self.undertrained_runs.comes_later:
            with_undertrained = self._judge(
                name, against, self._scores_with_undertrained(name, against)
            )
            if is_control:
                decided = worse_control_judgement(own, with_undertrained, note)
            if decided is None and self.undertrained_runs.comes_later:
                decided = earlier_judgement(own, with_undertrained, note)
        return decided or without_verdict(own, note)

    def _judge(self, name: str, against: str, scores: Mapping[str, Scores]) -> Judgement:
        criterion = self.criterion.for_reference_arm(against)
        label = against
        if against == self.baseline:
            label = BASELINE
        return judge_arm(scores[against], scores[name], self.measure, criterion, against=label)

    def _scores_with_undertrained(self, *names: str) -> dict[str, Scores]:
        scores = {}
        for name in names:
            scores[name] = with_undertrained_scores(
                self.arms[name], self.undertrained_runs.of(name)
            )
        return scores


def _require_pairs(arms: Mapping[str, Scores], baseline: str, pairs: Sequence[ArmPair]) -> None:
    names = dict.fromkeys((baseline, *chain.from_iterable(pairs)))
    unknown_names = [name for name in names if name not in arms]
    if unknown_names:
        raise SpecError(
            f"comparisons: {', '.join(unknown_names)} is not an arm; use {', '.join(arms)}"
        )
    unordered_pairs = list(map(frozenset, pairs))
    has_repeats = len(set(unordered_pairs)) < len(pairs)
    if not pairs or has_repeats or min(map(len, unordered_pairs)) < 2:
        pair_list = ", ".join(f"{name} against {against}" for name, against in pairs) or "none"
        raise SpecError(
            f"comparisons: {pair_list}; name one or more pairs of different arms, each once"
        )
