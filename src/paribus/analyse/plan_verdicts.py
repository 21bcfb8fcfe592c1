"""Every pair and contrast of a plan, judged on the scores of its runs at one rate of each arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from paribus.analyse.advice import at_next_look
from paribus.analyse.bracket import hold_contrast, hold_judgement
from paribus.analyse.contrasts import (
    ContrastFinding,
    Setting,
    contrast_findings,
    plan_factorial,
    plan_family,
    plan_family_size,
)
from paribus.analyse.equal_noise import Pooled
from paribus.analyse.factorial import Factorial
from paribus.analyse.failures import Judgement, Scores, SeedMargin
from paribus.analyse.family import Pair, family
from paribus.analyse.margins import Margins
from paribus.analyse.one_noise import by_one_noise
from paribus.analyse.plan_rules import UNIT, declared_looks, declares_one_noise, is_open, next_look, plan_test, share_of
from paribus.analyse.rows import Row, name_of
from paribus.analyse.tuning import contrast_with_doubt, judged_with_doubt, movable_pair
from paribus.analyse.undertrained import UNDERTRAINED, Reached
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord

MAX_NAMED = 3  # of runs that are not done


@dataclass(frozen=True)
class Verdicts:
    """What the runs at one rate of each arm say: every pair, every contrast, and what these were made with."""

    pairs: Mapping[Pair, Judgement]
    pooled: Pooled | None
    factorial: Factorial | None
    contrasts: tuple[ContrastFinding, ...]


def verdicts_at(
    plan: PlanRecord, own: Sequence[Row], seeds: Sequence[int], margins: Margins, remarks: Sequence[str]
) -> Verdicts:
    column = name_of(plan.design.primary.measure.table)
    scores, reached = scores_by_arm(plan, own, seeds, column), reached_by_arm(own, column)
    pairs, pooled = _family(plan, scores, reached, seeds, margins, remarks)
    setting = _setting(plan, seeds, margins.against[plan.baseline], remarks)
    factorial = plan_factorial(plan, scores, reached, setting)
    contrasts = contrast_findings(plan, scores, reached, setting, factorial)
    return Verdicts(pairs, pooled, factorial if isinstance(factorial, Factorial) else None, contrasts)


def held_pairs(
    tuned: Verdicts, sides: Mapping[str, Verdicts], rates: Mapping[str, Any] | None
) -> dict[Pair, Judgement]:
    """Every pair, with what tuning could overturn, and as it holds at the rates to either side."""
    found = {}
    for pair, own in tuned.pairs.items():
        doubted = judged_with_doubt(own, movable_pair(*pair, rates))
        found[pair] = hold_judgement(doubted, {side: at.pairs[pair] for side, at in sides.items()})
    return found


def held_contrasts(
    tuned: Verdicts, sides: Mapping[str, Verdicts], rates: Mapping[str, Any] | None
) -> tuple[ContrastFinding, ...]:
    """Every contrast likewise."""
    found = []
    for place, own in enumerate(tuned.contrasts):
        doubted = contrast_with_doubt(own, rates)
        found.append(hold_contrast(doubted, {side: at.contrasts[place] for side, at in sides.items()}))
    return tuple(found)


def scores_by_arm(plan: PlanRecord, reported: Sequence[Row], seeds: Sequence[int], column: str) -> dict[str, Scores]:
    """Arm → seed → its score, None where it failed; SpecError where a run is not there yet."""
    scores: dict[str, dict[int, float | None]] = {arm: {} for arm in plan.order}
    missing = []
    for row in reported:
        if row["outcome"] in ("open", "failed"):
            missing.append(f"{row['arm']}, seed {row['seed']}{' (failed)' if row['outcome'] == 'failed' else ''}")
        scores[row["arm"]][row["seed"]] = row.get(column) if row["outcome"] == "finished" else None
    missing += [f"{arm}, seed {seed}" for arm, own in scores.items() for seed in seeds if seed not in own]
    if missing:
        raise SpecError(_of_missing(missing, len(scores) * len(seeds)))
    return {arm: dict(own) for arm, own in scores.items()}


def _of_missing(missing: Sequence[str], n_runs: int) -> str:
    """How many runs there are still to be made, and which, if they are few."""
    more = [f"{len(missing) - MAX_NAMED} more"] if len(missing) > MAX_NAMED else []
    named = "; ".join((*missing[:MAX_NAMED], *more))
    are = "is" if len(missing) == 1 else "are"
    return f"{len(missing)} of {n_runs} reported runs {are} open: {named}; `paribus run DESIGN` goes on"


def reached_by_arm(reported: Sequence[Row], column: str) -> dict[str, dict[int, float]]:
    """Arm → seed → the score of a run that was not trained long enough."""
    found: dict[str, dict[int, float]] = {}
    for row in reported:
        if row["outcome"] == UNDERTRAINED:
            found.setdefault(row["arm"], {})[row["seed"]] = row[column]
    return found


def _family(
    plan: PlanRecord,
    scores: Mapping[str, Scores],
    reached: Reached,
    seeds: Sequence[int],
    margins: Margins,
    remarks: Sequence[str],
) -> tuple[dict[Pair, Judgement], Pooled | None]:
    declared, baseline = declared_looks(plan), plan.baseline
    pairs, _ = plan_family(plan)
    if not pairs:
        return {}, None
    found = family(
        scores, baseline, lower_is_better=True, margins=margins.against, looks=declared, seeds=seeds, unit=UNIT,
        comparisons=pairs, remarks=remarks,
        open_ended=is_open(plan), undertrained=reached, control=plan.design.control_arm,
        n_comparisons=plan_family_size(plan), test=plan_test(plan),
    )  # fmt: skip
    pooled = None
    if declares_one_noise(plan):
        share = share_of(plan, len(seeds))
        found, pooled = by_one_noise(
            found, scores, baseline, lower_is_better=True, margin=margins.mean(baseline), share=share, remarks=remarks
        )
    return {pair: _with_next_look(own, plan, len(seeds)) for pair, own in found.items()}, pooled


def _with_next_look(own: Judgement, plan: PlanRecord, n_seeds: int) -> Judgement:
    """The same judgement; its advice is the next declared look where there is one."""
    later = next_look(plan, n_seeds)
    if later is None or own.comparison is None or own.comparison.advice is None:
        return own
    return replace(own, comparison=replace(own.comparison, advice=at_next_look(later)))


def _setting(plan: PlanRecord, seeds: Sequence[int], margin: SeedMargin | None, remarks: Sequence[str]) -> Setting:
    """What the contrasts of a study are judged with."""
    return Setting(
        margin=margin, share=share_of(plan, len(seeds)), unit=UNIT, open_ended=is_open(plan), remarks=tuple(remarks),
        n_comparisons=plan_family_size(plan), next_look=next_look(plan, len(seeds)), test=plan_test(plan),
    )  # fmt: skip
