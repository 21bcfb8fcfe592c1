"""Manipulation checks: did the arms do what the question needs? Where they did not, no word.

A check is outside the family. It is read at the tuned rates, from the raw scores of every run that
ended with one: a run that learnt nothing of what a check is about is what the check looks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from statistics import fmean
from typing import Any

from paribus.analyse.contrasts import ContrastFinding, contrast_with_word
from paribus.analyse.family import ArmPair
from paribus.analyse.interval import moments
from paribus.analyse.judgement import Judgement, judgement_with_word
from paribus.analyse.plan_family import plan_family
from paribus.analyse.plan_rules import has_open_seeds, plan_alpha
from paribus.analyse.power import one_sided_t
from paribus.analyse.run_answers import column_of, read_answers
from paribus.analyse.run_scores import (
    Answers,
    measure_of,
    raw_score,
    reference_score,
    resolution_of,
)
from paribus.analyse.run_table import ENDED_OUTCOMES, Row
from paribus.analyse.verdict import Verdict
from paribus.record import Study
from paribus.record.plan import PlanRecord
from paribus.record.plan_design import MustRecord
from paribus.spec.measure import with_unit
from paribus.spec.must import CHANCE, Claim, hanging_contrasts, hanging_pairs, parse_claim

NOT_SHOWN = "manipulation not shown"
_ROUNDING = 1e-12  # a spread below this part of the mean is rounding, not noise


@dataclass(frozen=True)
class CheckFinding:
    """What became of one check: whether it is shown, in words, and what hangs on it.

    `effect` is the mean gain of the first arm on the second, or of a threshold its mean gain over
    chance; `low` is the one-sided bound of a test at `level`, or what the threshold asks.
    """

    that: str
    column: str  # of the yardstick that shows it
    is_shown: bool
    description: str
    pairs: tuple[ArmPair, ...]
    contrasts: tuple[str, ...]
    n_seeds: int
    effect: float | None = None
    low: float | None = None
    level: float | None = None  # None of a threshold, which is read on means


AnswersBySeed = Mapping[str, Mapping[int, Answers]]  # arm → seed → answers to one yardstick


def check_findings(
    study: Study, plan: PlanRecord, reported_rows: Sequence[Row], seeds: Sequence[int]
) -> tuple[CheckFinding, ...]:
    """Every check that a plan declares, in its order."""
    pairs, contrasts = plan_family(plan)
    findings = []
    for must in plan.design.must:
        yardstick = _yardstick_of(plan, must)
        answers = _answers_by_seed(study, plan, reported_rows, yardstick)
        finding = _judge_claim(plan, must, column_of(yardstick), answers, seeds)
        findings.append(
            replace(
                finding,
                pairs=tuple(hanging_pairs(must.scope, pairs)),
                contrasts=tuple(hanging_contrasts(must.scope, contrasts)),
            )
        )
    return tuple(findings)


def pairs_after_checks(
    judgements: Mapping[ArmPair, Judgement], checks: Sequence[CheckFinding]
) -> dict[ArmPair, Judgement]:
    """Every pair, without a word of its own where a check that it hangs on is not shown."""
    result = dict(judgements)
    for pair, own in judgements.items():
        failed = [
            check.description for check in checks if pair in check.pairs and not check.is_shown
        ]
        if failed:
            result[pair] = judgement_with_word(own, Verdict(NOT_SHOWN, "; ".join(failed)))
    return result


def contrasts_after_checks(
    contrasts: Sequence[ContrastFinding], checks: Sequence[CheckFinding]
) -> tuple[ContrastFinding, ...]:
    """Every contrast, without a word of its own where a check that it hangs on is not shown."""
    result = []
    for contrast in contrasts:
        failed = []
        for check in checks:
            if contrast.name in check.contrasts and not check.is_shown:
                failed.append(check.description)
        if failed:
            contrast = contrast_with_word(contrast, Verdict(NOT_SHOWN, "; ".join(failed)))
        result.append(contrast)
    return tuple(result)


def _yardstick_of(plan: PlanRecord, must: MustRecord) -> dict[str, Any]:
    """The yardstick that shows it: the primary one, or the one whose column it names."""
    for yardstick in plan.design.others:
        if must.on == column_of(yardstick.table):
            return yardstick.table
    return plan.design.primary.measure.table


def _answers_by_seed(
    study: Study, plan: PlanRecord, reported_rows: Sequence[Row], yardstick: dict[str, Any]
) -> AnswersBySeed:
    """What every reported run that ended with a finite score said to a yardstick."""
    column, by_arm = column_of(yardstick), {arm: dict[int, Answers]() for arm in plan.order}
    for row in reported_rows:
        if row["outcome"] not in ENDED_OUTCOMES:
            continue
        folder, text = study.root / row["run"], plan.arms[row["arm"]].text
        answers = read_answers(folder, [yardstick], text, row["n_steps"], plan.items).get(column)
        if answers is not None and isfinite(raw_score(answers)):
            by_arm[row["arm"]][row["seed"]] = answers
    return by_arm


def _judge_claim(
    plan: PlanRecord, must: MustRecord, column: str, by_arm: AnswersBySeed, seeds: Sequence[int]
) -> CheckFinding:
    claim = parse_claim(must.that)
    finding = CheckFinding(
        that=must.that,
        column=column,
        is_shown=False,
        description="",
        pairs=(),
        contrasts=(),
        n_seeds=len(seeds),
    )
    for arm in claim.arms:
        n_scores = len(by_arm[arm].keys() & set(seeds))
        if n_scores < len(seeds):
            reason = f"{arm} has a score on {column} in {n_scores} of {len(seeds)} seeds"
            return replace(finding, description=reason)
    answers = {arm: [by_arm[arm][seed] for seed in seeds] for arm in claim.arms}
    if claim.is_threshold:
        return _read_threshold(finding, claim, answers)
    alpha = plan_alpha(plan, len(seeds))
    return _test_gain(finding, claim, answers, alpha, has_open_seeds(plan))


def _test_gain(
    finding: CheckFinding,
    claim: Claim,
    answers: Mapping[str, Sequence[Answers]],
    alpha: float,
    open_ended: bool,
) -> CheckFinding:
    """Is the first arm better than the second, one-sided over paired seeds?"""
    arm, against = claim.arms
    measure, n = measure_of(answers[arm][0]), finding.n_seeds
    gains = []
    for before, after in zip(answers[against], answers[arm], strict=True):
        gains.append(measure.gain(raw_score(before), raw_score(after)))
    own = moments(gains)
    effect, error = float(own.mean), float(own.standard_error)
    better = "has more" if measure.is_inside else "does better"
    if float(own.sd) <= _ROUNDING * abs(effect):
        error = max(map(resolution_of, answers[arm])) / sqrt(n)
        if not error:
            reason = f"{arm} and {against} differ by the same in every seed on {finding.column}"
            return replace(finding, description=reason, effect=effect)
    low = effect - one_sided_t(n, alpha, open_ended=open_ended) * error
    is_shown = low > 0
    level, unit = 1 - alpha, measure.unit
    shown = "is shown" if is_shown else "is not shown"
    bound = f"at least {with_unit(f'{low:.3g}', unit)}, one-sided at {100 * level:.4g} %"
    description = (
        f"it {shown} that {arm} {better} than {against} on {finding.column}: gain {effect:.3g},"
        f" {bound}, {n} seeds"
    )
    return replace(
        finding,
        is_shown=is_shown,
        description=description,
        effect=effect,
        low=low,
        level=level,
    )


def _read_threshold(
    finding: CheckFinding, claim: Claim, answers: Mapping[str, Sequence[Answers]]
) -> CheckFinding:
    """Is the mean gain of an arm over chance as large as is asked?"""
    gains = {}
    for arm, own in answers.items():
        gain = _gain_over_chance(own)
        if gain is None:
            reason = f"no score of {CHANCE} is on record for {arm} on {finding.column}"
            return replace(finding, description=reason)
        gains[arm] = gain
    unit = measure_of(answers[claim.arm][0]).unit
    effect = gains[claim.arm]
    said = f"{claim.arm} gains {with_unit(f'{effect:.3g}', unit)} over {CHANCE} on {finding.column}"
    if claim.against is None:
        assert claim.points is not None
        asked = claim.points
        description = f"{said}, where more than {asked:g} is asked"
        is_shown = effect > asked
    else:
        assert claim.share is not None
        asked = claim.share * gains[claim.against]
        description = (
            f"{said}, {claim.against} {gains[claim.against]:.3g}, and {100 * claim.share:g} % of"
            " that is asked"
        )
        is_shown = asked > 0 and effect >= asked
    return replace(finding, is_shown=is_shown, description=description, effect=effect, low=asked)


def _gain_over_chance(answers: Sequence[Answers]) -> float | None:
    """The mean over seeds of what an arm gains on what needs no model; None where a record does
    not say what that scores.
    """
    gains = []
    for own in answers:
        reference = reference_score(own)
        if reference is None:
            return None
        gains.append(measure_of(own).gain(reference, raw_score(own)))
    return fmean(gains)
