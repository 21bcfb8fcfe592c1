"""The interventions of a study on the rank of attention: the rank and the score of every run."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.analyse.attention_rank import MIN_LEVELS, rank_interventions
from paribus.analyse.findings import Findings
from paribus.analyse.rank_effect import Intervention, RankedRun, RankEffect, rank_effects
from paribus.analyse.run_answers import column_of
from paribus.analyse.seed_scores import seed_scores

Ranks = Mapping[str, Mapping[int, float]]  # arm → seed → mean effective rank


def study_rank_effects(findings: Findings, ranks: Ranks) -> tuple[RankEffect, ...]:
    """The effect under each intervention of a study; none where no field of attention takes three
    values under one mask.
    """
    architectures = {}
    for arm in findings.plan.order:
        architectures[arm] = findings.plan.arms[arm].run.last_architecture
    declared = rank_interventions(architectures, findings.baseline)
    interventions: dict[str, Intervention] = {}
    for name, arms in declared.items():
        levels = {arm: _ranked_runs(findings, arm, ranks.get(arm, {})) for arm in arms}
        intervention = {arm: runs for arm, runs in levels.items() if runs}
        if len(intervention) >= MIN_LEVELS:
            interventions[name] = intervention
    return rank_effects(interventions, findings.measure, findings.margin, len(declared))


def _ranked_runs(findings: Findings, arm: str, ranks: Mapping[int, float]) -> dict[int, RankedRun]:
    """The runs of an arm that have a rank and a score."""
    scores = seed_scores(findings, arm, column_of(findings.plan.design.primary.measure.table))
    runs = {}
    for seed, score in scores.items():
        if seed in ranks:
            runs[seed] = RankedRun(ranks[seed], score)
    return runs
