"""Heaps: do some runs of an arm learn while others do not? Then a mean describes neither, and no t
is asked.

R is the largest mean gain of an arm over what needs no model. An arm is split at its largest gap G
where G > R/10; s is the spread within sides, pooled over all arms that are compared. Scores lie in
two heaps where G > 5·s. Simpler rules find heaps in 40 % of normal arms of three seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, fsum, log, sqrt
from statistics import fmean
from typing import Any

from paribus.analyse.contrasts import ContrastFinding, contrast_with_word
from paribus.analyse.family import ArmPair
from paribus.analyse.judgement import Judgement, Scores, judgement_with_word, trained_scores
from paribus.analyse.plan_family import compared_arms, is_fourth_edition
from paribus.analyse.plan_rules import plan_measure
from paribus.analyse.run_answers import column_of
from paribus.analyse.run_table import Row
from paribus.analyse.verdict import Verdict
from paribus.record.plan import PlanRecord
from paribus.spec.measure import Measure, with_unit

MIN_GAP_SHARE = 0.1  # of R: a smaller gap splits no arm
MIN_GAP_SPREADS = 5.0  # of the spread within sides: a smaller gap is noise
RARE_STATE_SHARE = 0.2  # of runs: how often a state that few seeds do not show may still come
SURE_SIGHT = 0.95  # in so many arms such a state is to be seen
_DIGITS = 4


@dataclass(frozen=True)
class Heaps:
    """Of the arms whose scores lie in two heaps, the score in the middle of the gap.

    `scores` are of all arms that are compared.
    """

    scores: Mapping[str, Scores]
    middles: Mapping[str, float]
    measure: Measure

    def verdict(self, arms: Iterable[str]) -> Verdict | None:
        """The word of a comparison of these arms, with how many runs learnt in each; None where
        none of them lies in two heaps. Runs that diverged have not learnt.
        """
        names = list(arms)
        own_middles = [self.middles[arm] for arm in names if arm in self.middles]
        if not own_middles:
            return None
        counts = []
        for arm in names:
            counts.append((self._learnt(arm, own_middles[0]), self._middle(arm, own_middles[0])))
        if len(set(own_middles)) == 1:
            phrases = ", ".join(learnt for learnt, _ in counts)
            return Verdict("bimodal", f"{phrases} ({counts[0][1]})")
        return Verdict("bimodal", ", ".join(f"{learnt} ({middle})" for learnt, middle in counts))

    def _learnt(self, arm: str, middle: float) -> str:
        """How many runs of an arm lie on the better side of its own gap, or of another's."""
        middle = self.middles.get(arm, middle)
        scores = trained_scores(self.scores[arm]).values()
        n_learnt = sum(self.measure.gain(middle, score) > 0 for score in scores)
        return f"{n_learnt} of {len(self.scores[arm])} runs of {arm} learnt"

    def _middle(self, arm: str, middle: float) -> str:
        value = f"{self.middles.get(arm, middle):.{_DIGITS}g}"
        return f"better than {with_unit(value, self.measure.unit)}"


def unseen_share(n_seeds: int) -> float:
    """In what part of arms of so many seeds a state that 1 run in 5 falls into is not seen."""
    return (1 - RARE_STATE_SHARE) ** n_seeds


def seeds_that_see() -> int:
    """How many seeds show a state that 1 run in 5 falls into in 95 % of arms."""
    return ceil(log(1 - SURE_SIGHT) / log(1 - RARE_STATE_SHARE))


def learnt_gain(rows: Iterable[Row], column: str, measure: Measure) -> float | None:
    """The mean gain of runs over what needs no model: the unigram model, or the floor of a task.

    None where no run has both, and of a score minus the parent's, where nothing is learnt from
    scratch.
    """
    gains = []
    if measure.is_difference:
        return None
    for row in rows:
        reference = reference_of(row)
        if row["outcome"] == "finished" and row.get(column) is not None and reference is not None:
            gains.append(measure.gain(reference, row[column]))
    if gains:
        return fmean(gains)
    return None


def reference_of(row: Mapping[str, Any]) -> float | None:
    """What needs no model, as a row of a run has it: what the unigram model scores, or the floor
    of a task.
    """
    if row.get("unigram") is not None:
        return row["unigram"]
    return row.get("floor")


def plan_heaps(plan: PlanRecord, rows: Sequence[Row], scores: Mapping[str, Scores]) -> Heaps:
    """The heaps of the arms that a plan compares; none before the fourth edition."""
    measure, column = plan_measure(plan), column_of(plan.design.primary.measure.table)
    if not is_fourth_edition(plan):
        return find_heaps({}, None, measure)
    arms = compared_arms(plan)
    gains = []
    for arm in arms:
        own = learnt_gain([row for row in rows if row["arm"] == arm], column, measure)
        if own is not None:
            gains.append(own)
    learnt = max(gains, default=None)
    return find_heaps({arm: scores[arm] for arm in arms}, learnt, measure)


def pairs_after_heaps(
    judgements: Mapping[ArmPair, Judgement], heaps: Heaps
) -> dict[ArmPair, Judgement]:
    """Every pair, without a word of t where an arm of it lies in two heaps."""
    result = dict(judgements)
    for pair, own in judgements.items():
        verdict = heaps.verdict(pair)
        if verdict is not None:
            result[pair] = judgement_with_word(own, verdict)
    return result


def contrasts_after_heaps(
    contrasts: Sequence[ContrastFinding], heaps: Heaps
) -> tuple[ContrastFinding, ...]:
    """Every contrast, without a word of t where an arm of it lies in two heaps."""
    result = []
    for contrast in contrasts:
        verdict = heaps.verdict(arm for arm, weight in contrast.weights.items() if weight)
        if verdict is not None:
            contrast = contrast_with_word(contrast, verdict)
        result.append(contrast)
    return tuple(result)


def find_heaps(scores: Mapping[str, Scores], learnt: float | None, measure: Measure) -> Heaps:
    """The arms whose scores lie in two heaps, `learnt` being R; none of them without R."""
    middles: dict[str, float] = {}
    if learnt is None or learnt <= 0:
        return Heaps(scores, middles, measure)
    squares, df = [], 0
    gaps: dict[str, float] = {}
    for arm, own in scores.items():
        sides = _split(sorted(trained_scores(own).values()), MIN_GAP_SHARE * learnt)
        if len(sides) == 2:
            gaps[arm] = sides[1][0] - sides[0][-1]
            middles[arm] = (sides[1][0] + sides[0][-1]) / 2
        for side in sides:
            mean = fmean(side)
            squares += [(score - mean) ** 2 for score in side]
            df += len(side) - 1
    if not df:
        return Heaps(scores, {}, measure)
    spread = sqrt(fsum(squares) / df)
    heaped = {arm: middles[arm] for arm, gap in gaps.items() if gap > MIN_GAP_SPREADS * spread}
    return Heaps(scores, heaped, measure)


def _split(scores: Sequence[float], least: float) -> list[Sequence[float]]:
    """Ascending scores on two sides of their largest gap, where that is larger than `least`."""
    place, largest = 0, least
    for here in range(1, len(scores)):
        if scores[here] - scores[here - 1] > largest:
            place, largest = here, scores[here] - scores[here - 1]
    return [side for side in (scores[:place], scores[place:]) if side]
