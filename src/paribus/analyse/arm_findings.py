"""What a study found of each pair of arms, with what stands beside the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from paribus.analyse.family import ArmPair
from paribus.analyse.findings import ArmFinding
from paribus.analyse.judgement import Judgement, Scores, judgement_with_seed_count
from paribus.analyse.length_curves import LengthCurves
from paribus.analyse.looks import FAMILY_ALPHA
from paribus.analyse.multiplier import Multiplier, compute_multiplier
from paribus.analyse.new_documents import NO_STATEMENT, NewDocumentFinding
from paribus.analyse.pair_details import gain_curve, gains_at_rates, pair_new_documents, pairing_of
from paribus.analyse.plan_family import is_fourth_edition
from paribus.analyse.plan_rules import has_open_seeds, plan_measure
from paribus.analyse.plan_verdicts import PlanVerdicts, pairs_across_bracket
from paribus.analyse.run_scores import Answers
from paribus.analyse.run_table import Row
from paribus.analyse.tuning import pair_tuning_uncertainty
from paribus.analyse.verdict import BOUND_WORDS
from paribus.record.plan import PlanRecord

NO_STATEMENT_WHEN_OPEN = (
    f"{NO_STATEMENT}: the number of seeds is open, and its interval would hold at one number alone."
)


@dataclass(frozen=True)
class PairData:
    """What the pairs of a study are described from, by arm."""

    plan: PlanRecord
    scores: Mapping[str, Scores]
    runs: Mapping[str, Mapping[int, list[Row]]]
    evaluations: Mapping[str, Mapping[int, Answers]]
    rates: dict[str, Any] | None
    lengths: Mapping[str, LengthCurves]


def arm_findings(
    tuned_verdicts: PlanVerdicts, sides: Mapping[str, PlanVerdicts], pair_data: PairData
) -> tuple[ArmFinding, ...]:
    """Every pair, with what was found of it at the rates to either side."""
    arms = []
    for pair, judgement in pairs_across_bracket(tuned_verdicts, sides, pair_data.rates).items():
        brackets = {side: at.pairs[pair] for side, at in sides.items()}
        if is_fourth_edition(pair_data.plan):
            judgement = judgement_with_seed_count(judgement)
        arms.append(replace(_arm_finding(pair, judgement, pair_data), brackets=brackets))
    return tuple(arms)


def _arm_finding(pair: ArmPair, judgement: Judgement, pair_data: PairData) -> ArmFinding:
    name, against = pair
    runs, scores, measure = pair_data.runs, pair_data.scores, plan_measure(pair_data.plan)
    both = sorted(runs[against].keys() & runs[name].keys())
    return ArmFinding(
        name=name,
        against=against,
        judgement=judgement,
        multiplier=_multiplier(judgement, pair_data.lengths[against]),
        new_documents=_new_documents(pair, judgement, both, pair_data),
        pairing=pairing_of(scores[against], scores[name], both),
        gain_curve=gain_curve(runs, against, name, both),
        gains_by_rate=gains_at_rates(pair_data.rates, against, name, measure),
        tuning_uncertainty=pair_tuning_uncertainty(name, against, pair_data.rates),
    )


def _multiplier(judgement: Judgement, lengths: LengthCurves) -> Multiplier | None:
    if judgement.comparison is None or judgement.verdict.word in BOUND_WORDS:
        return None
    gains = {one.seed: one.gain for one in judgement.seeds if one.gain is not None}
    return compute_multiplier(judgement.comparison, gains, lengths)


def _new_documents(
    pair: ArmPair, judgement: Judgement, seeds: Sequence[int], pair_data: PairData
) -> NewDocumentFinding | None:
    """What may be said of documents that were not read; nothing of an open number of seeds, nor
    where nothing is said of those that were.
    """
    if judgement.comparison is None and is_fourth_edition(pair_data.plan):
        return None
    if judgement.comparison is None:
        level = 1 - FAMILY_ALPHA
    else:
        level = judgement.comparison.level
    before, after = pair_data.evaluations[pair[1]], pair_data.evaluations[pair[0]]
    finding = pair_new_documents(before, after, seeds, level, plan_measure(pair_data.plan))
    if finding is not None and has_open_seeds(pair_data.plan):
        return NewDocumentFinding(None, NO_STATEMENT_WHEN_OPEN)
    return finding
