"""What a study says of rank: the effect under each intervention, or the ranks of its arms alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from paribus.analyse.findings import Findings
from paribus.analyse.rank_effect import (
    Intervention,
    RankedRun,
    RankEffect,
    SlopeDifference,
    rank_effects,
    slope_difference,
)
from paribus.analyse.rank_interventions import MIN_LEVELS, InterventionName, rank_interventions
from paribus.analyse.run_answers import column_of
from paribus.analyse.seed_scores import seed_scores
from paribus.spec.yardstick import PROBE

# of a probe: the effective rank of self-attention in the main stack, as the model is
RANK_SHOWN = {
    "quantity": "effective rank",
    "stack": "stack",
    "branch": "attention",
    "variant": "",
}


@dataclass(frozen=True)
class StudyRanks:
    """Effective ranks of a study's runs by arm; effects under its interventions, and the
    differences of slopes of those under one mask. A study without interventions has ranks alone.
    """

    by_arm: dict[str, list[float]]
    effects: tuple[RankEffect, ...]
    differences: tuple[SlopeDifference, ...]


def study_ranks(findings: Findings) -> StudyRanks | None:
    """What a study says of the rank of attention; None where no probe of it was shown."""
    column = rank_column(findings)
    if column is None:
        return None
    by_arm: dict[str, list[float]] = {}
    for arm in findings.plan.order:
        ranks = list(seed_scores(findings, arm, column).values())
        if ranks:
            by_arm[arm] = ranks
    interventions, n_declared = _ranked_interventions(findings, column)
    by_name = {str(name): intervention for name, intervention in interventions.items()}
    effects = rank_effects(by_name, findings.measure, findings.margin, n_declared)
    named = dict(zip(interventions, effects, strict=True))
    return StudyRanks(by_arm, effects, _slope_differences(named))


def rank_column(findings: Findings) -> str | None:
    """The column of the effective rank of the main stack's attention, as the model is; None where
    the design does not show it.
    """
    for yardstick in findings.plan.design.others:
        table = yardstick.table
        if table["kind"] == PROBE and RANK_SHOWN.items() <= table.items():
            return column_of(table)
    return None


def _ranked_interventions(
    findings: Findings, column: str
) -> tuple[dict[InterventionName, Intervention], int]:
    """Every intervention with the runs of its levels, and how many the plan has: one whose levels
    lack ranks or scores is left out.
    """
    architectures = {}
    for arm in findings.plan.order:
        architectures[arm] = findings.plan.arms[arm].run.last_architecture
    declared = rank_interventions(architectures, findings.baseline)
    interventions: dict[InterventionName, Intervention] = {}
    for name, arms in declared.items():
        levels = {arm: _ranked_runs(findings, arm, column) for arm in arms}
        intervention = {arm: runs for arm, runs in levels.items() if runs}
        if len(intervention) >= MIN_LEVELS:
            interventions[name] = intervention
    return interventions, len(declared)


def _ranked_runs(findings: Findings, arm: str, column: str) -> dict[int, RankedRun]:
    """The runs of an arm that have a rank and a score."""
    primary = column_of(findings.plan.design.primary.measure.table)
    scores, ranks = seed_scores(findings, arm, primary), seed_scores(findings, arm, column)
    return {seed: RankedRun(ranks[seed], scores[seed]) for seed in scores if seed in ranks}


def _slope_differences(
    effects: dict[InterventionName, RankEffect],
) -> tuple[SlopeDifference, ...]:
    differences: list[SlopeDifference] = []
    for one, other in combinations(effects, 2):
        if one.mask == other.mask:
            difference = slope_difference(effects[one], effects[other])
            if difference is not None:
                differences.append(difference)
    return tuple(differences)
