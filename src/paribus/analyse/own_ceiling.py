"""Scores minus the parent's end where the run's own score does: at the ceiling of the task nothing
more can be gained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paribus.analyse.bound_verdict import comparison_at_bounds
from paribus.analyse.family import ArmPair
from paribus.analyse.judgement import Judgement
from paribus.analyse.run_table import Row
from paribus.analyse.score_bounds import ScoreBounds
from paribus.spec.measure import Measure

OwnScores = Mapping[str, Mapping[int, float]]  # arm → seed → the score before anything is taken off


def own_scores(rows: Sequence[Row], column: str) -> OwnScores:
    """What the runs scored themselves, by their differences and the scores of their parents."""
    scores: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.get(column) is not None and row.get("parent_score") is not None:
            scores.setdefault(row["arm"], {})[row["seed"]] = row[column] + row["parent_score"]
    return scores


def with_own_ceiling(
    judgements: Mapping[ArmPair, Judgement], scores: OwnScores, measure: Measure
) -> dict[ArmPair, Judgement]:
    """Judgements of differences, `at ceiling` where both arms of a pair are there by their own
    scores. `measure` is that of the own scores.
    """
    bounds = ScoreBounds(ceiling=measure.ceiling)
    result = dict(judgements)
    for (name, against), judgement in judgements.items():
        if judgement.comparison is None or judgement.verdict != judgement.comparison.verdict:
            continue  # runs that failed have a word of their own
        seeds = [one.seed for one in judgement.seeds if one.gain is not None]
        arms = [[scores[arm][seed] for seed in seeds] for arm in (against, name)]
        comparison = comparison_at_bounds(judgement.comparison, arms, measure, bounds)
        result[name, against] = replace(
            judgement, comparison=comparison, verdict=comparison.verdict
        )
    return result
