"""Every pair and contrast of a plan, judged on the scores of its runs at one rate of each arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean
from typing import Any

from paribus.analyse.advice import next_look_advice
from paribus.analyse.bracket import contrast_across_bracket, judgement_across_bracket
from paribus.analyse.contrasts import ContrastFinding, contrast_findings, plan_factorial
from paribus.analyse.criterion import Criterion
from paribus.analyse.factorial import Factorial
from paribus.analyse.family import ArmPair, judge_family
from paribus.analyse.heaps import contrasts_after_heaps, pairs_after_heaps, plan_heaps
from paribus.analyse.judgement import Judgement, Scores
from paribus.analyse.manipulation import (
    CheckFinding,
    contrasts_after_checks,
    pairs_after_checks,
)
from paribus.analyse.margins import Margins
from paribus.analyse.own_ceiling import own_scores, with_own_ceiling
from paribus.analyse.plan_family import is_fourth_edition, plan_family, plan_family_size
from paribus.analyse.plan_rules import (
    declared_looks,
    declares_pooled_noise,
    has_open_seeds,
    plan_measure,
    plan_test,
)
from paribus.analyse.pooled_noise import PooledNoise, judge_with_pooled_noise
from paribus.analyse.run_answers import column_of
from paribus.analyse.run_table import Row
from paribus.analyse.score_bounds import row_bounds
from paribus.analyse.tuning import (
    contrast_with_doubt,
    judgement_with_doubt,
    pair_tuning_uncertainty,
)
from paribus.analyse.undertrained import UNDERTRAINED, UndertrainedRuns, UndertrainedScores
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord
from paribus.spec.yardstick import task_measure

MAX_NAMED = 3  # of runs that are not done


@dataclass(frozen=True)
class PlanVerdicts:
    """What the runs at one rate of each arm say: every pair, every contrast, and what these
    were made with.
    """

    pairs: Mapping[ArmPair, Judgement]
    pooled_noise: PooledNoise | None
    factorial: Factorial | None
    contrasts: tuple[ContrastFinding, ...]


def judge_plan(
    plan: PlanRecord,
    rows: Sequence[Row],
    seeds: Sequence[int],
    margins: Margins,
    remarks: Sequence[str],
    checks: Sequence[CheckFinding] = (),
) -> PlanVerdicts:
    column = column_of(plan.design.primary.measure.table)
    scores = scores_by_arm(plan, rows, seeds, column)
    undertrained_scores = undertrained_scores_by_arm(rows, column)
    criterion = plan_criterion(plan, seeds, margins, remarks)
    criterion = replace(criterion, bounds=row_bounds(rows, plan_measure(plan)))
    pairs, pooled_noise = _judge_pairs(plan, scores, undertrained_scores, criterion)
    if plan_measure(plan).is_difference:
        own_measure = task_measure(plan.design.primary.measure.table["task"])
        pairs = with_own_ceiling(pairs, own_scores(rows, column), own_measure)
    against_baseline = criterion.for_reference_arm(plan.baseline)
    factorial = plan_factorial(plan, scores, undertrained_scores, against_baseline)
    contrasts = contrast_findings(plan, scores, undertrained_scores, against_baseline, factorial)
    heaps = plan_heaps(plan, rows, scores)
    if isinstance(factorial, str) or heaps.middles:
        factorial = None
    return PlanVerdicts(
        pairs=pairs_after_heaps(pairs_after_checks(pairs, checks), heaps),
        pooled_noise=pooled_noise,
        factorial=factorial,
        contrasts=contrasts_after_heaps(contrasts_after_checks(contrasts, checks), heaps),
    )


def plan_criterion(
    plan: PlanRecord, seeds: Sequence[int], margins: Margins, remarks: Sequence[str]
) -> Criterion:
    """What every pair and contrast of a study is judged by."""
    if margins.refusal:
        remarks = (*remarks, f"no margin: {margins.refusal}")
    return Criterion(
        margin_by_reference_arm=margins.against,
        n_comparisons=plan_family_size(plan) or None,
        looks=declared_looks(plan),
        seeds=tuple(seeds),
        open_ended=has_open_seeds(plan),
        test=plan_test(plan),
        remarks=tuple(remarks),
        margin_is_refused=bool(margins.refusal),
    )


def pairs_across_bracket(
    tuned_verdicts: PlanVerdicts, sides: Mapping[str, PlanVerdicts], rates: Mapping[str, Any] | None
) -> dict[ArmPair, Judgement]:
    """Every pair, with what tuning could overturn, and as it holds at the rates to either side."""
    judgements = {}
    for pair, own in tuned_verdicts.pairs.items():
        judgement = judgement_with_doubt(own, pair_tuning_uncertainty(*pair, rates))
        judgements[pair] = judgement_across_bracket(
            judgement, {side: at.pairs[pair] for side, at in sides.items()}
        )
    return judgements


def contrasts_across_bracket(
    tuned_verdicts: PlanVerdicts, sides: Mapping[str, PlanVerdicts], rates: Mapping[str, Any] | None
) -> tuple[ContrastFinding, ...]:
    """Every contrast, with what tuning could overturn, and as it holds at the rates to either
    side.
    """
    findings = []
    for place, own in enumerate(tuned_verdicts.contrasts):
        finding = contrast_with_doubt(own, rates)
        findings.append(
            contrast_across_bracket(
                finding, {side: at.contrasts[place] for side, at in sides.items()}
            )
        )
    return tuple(findings)


def scores_by_arm(
    plan: PlanRecord, rows: Sequence[Row], seeds: Sequence[int], column: str
) -> dict[str, Scores]:
    """Arm → seed → its score, None where it failed; SpecError where a run is not there yet."""
    scores: dict[str, dict[int, float | None]] = {arm: {} for arm in plan.order}
    missing = []
    for row in rows:
        if row["outcome"] in ("open", "failed"):
            missing.append(f"{row['arm']}, seed {row['seed']}{_failure_note(row)}")
        if row["outcome"] == "finished":
            scores[row["arm"]][row["seed"]] = row.get(column)
        else:
            scores[row["arm"]][row["seed"]] = None
    for arm, seed in product(scores, seeds):
        if seed not in scores[arm]:
            missing.append(f"{arm}, seed {seed}")
    if missing:
        raise SpecError(_describe_missing_runs(missing, len(scores) * len(seeds)))
    return dict(scores)


def _failure_note(row: Row) -> str:
    if row["outcome"] == "failed":
        return " (failed)"
    return ""


def _describe_missing_runs(missing: Sequence[str], n_runs: int) -> str:
    """How many runs there are still to be made, and which, if they are few."""
    if len(missing) > MAX_NAMED:
        more = [f"{len(missing) - MAX_NAMED} more"]
    else:
        more = []
    run_list = "; ".join((*missing[:MAX_NAMED], *more))
    are = "is" if len(missing) == 1 else "are"
    return (
        f"{len(missing)} of {n_runs} runs {are} missing or not yet run: {run_list};"
        " `paribus run DESIGN` resumes"
    )


def undertrained_scores_by_arm(rows: Sequence[Row], column: str) -> dict[str, dict[int, float]]:
    """Arm → seed → the score of a run that was not trained long enough."""
    scores: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["outcome"] == UNDERTRAINED:
            scores.setdefault(row["arm"], {})[row["seed"]] = row[column]
    return scores


def _judge_pairs(
    plan: PlanRecord,
    scores: Mapping[str, Scores],
    undertrained_scores: UndertrainedScores,
    criterion: Criterion,
) -> tuple[dict[ArmPair, Judgement], PooledNoise | None]:
    baseline, measure = plan.baseline, plan_measure(plan)
    pairs, _ = plan_family(plan)
    if not pairs:
        return {}, None
    judgements = judge_family(
        scores,
        baseline,
        measure,
        criterion,
        comparisons=pairs,
        undertrained_runs=UndertrainedRuns(
            undertrained_scores, plan.design.control_arm, is_fourth_edition(plan)
        ),
    )
    pooled_noise = None
    if declares_pooled_noise(plan):
        judgements, pooled_noise = judge_with_pooled_noise(
            judgements, scores, baseline, measure, _pooled_criterion(criterion, baseline)
        )
    for pair, own in judgements.items():
        judgements[pair] = _with_next_look(own, criterion)
    return judgements, pooled_noise


def _pooled_criterion(criterion: Criterion, baseline: str) -> Criterion:
    """What pairs are judged by under one noise: the mean margin, a family of pairs alone."""
    own = criterion.for_reference_arm(baseline).for_seeds(criterion.seeds or ())
    margin = own.margin
    if isinstance(margin, Mapping):
        margin = fmean(margin.values())
    return Criterion(
        margin=margin, family_alpha=own.family_alpha, seeds=own.seeds, remarks=own.remarks
    )


def _with_next_look(judgement: Judgement, criterion: Criterion) -> Judgement:
    """A judgement whose advice is the next declared look where there is one."""
    later = criterion.next_look
    if later is None or judgement.comparison is None or judgement.comparison.advice is None:
        return judgement
    return replace(
        judgement, comparison=replace(judgement.comparison, advice=next_look_advice(later))
    )
