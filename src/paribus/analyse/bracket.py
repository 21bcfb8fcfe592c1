"""A bracket of rates: every arm half an octave to either side of its own, where a verdict must
hold as well.

All arms are shifted alike. A word that another one takes the place of at either side is no word:
`inconclusive`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.judgement import Judgement
from paribus.analyse.run_table import select_rows
from paribus.analyse.verdict import Verdict
from paribus.record.plan import PlanRecord

Side = str
SIDES: Mapping[Side, float] = {"below": -0.5, "above": 0.5}  # octaves from the tuned rate
NO_CLAIM_WORDS = (
    "inconclusive",
    "unstable",
    "no verdict",
    "withheld",
    "identical",
    "at floor",
    "at ceiling",
    "manipulation not shown",
    "bimodal",
)  # words that claim nothing
_DIGITS = 4


def bracket_rate(rate: float, side: Side) -> float:
    """The rate at one side of a tuned one, to a few digits."""
    return float(f"{rate * 2 ** SIDES[side]:.{_DIGITS}g}")


def bracket_rows(
    plan: PlanRecord, table: Sequence[Mapping[str, Any]], seeds: Sequence[int]
) -> dict[Side, list[dict[str, Any]]]:
    """The rows of each side under these seeds, perhaps fewer than there will be; no side where
    none was asked for.
    """
    tune = plan.design.tune
    if tune is None or not tune.bracket:
        return {}
    reported_rows = select_rows(table, purposes=["reported"])
    rates = {row["arm"]: row["rate"] for row in reported_rows}
    rows_by_side: dict[Side, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for row in select_rows(table, purposes=["bracket"], seeds=seeds):
        if row["arm"] in rates:
            side = "below" if row["rate"] < rates[row["arm"]] else "above"
            rows_by_side[side].append(dict(row))
    return rows_by_side


def judgement_across_bracket(
    judgement: Judgement, judgement_by_side: Mapping[Side, Judgement]
) -> Judgement:
    """The judgement at the tuned rates; inconclusive where its word does not hold at a side."""
    verdict = verdict_across_bracket(
        judgement.verdict, {side: other.verdict for side, other in judgement_by_side.items()}
    )
    if verdict == judgement.verdict or judgement.comparison is None:
        return judgement
    comparison = replace(judgement.comparison, verdict=verdict, advice=None)
    return replace(judgement, verdict=verdict, comparison=comparison)


def contrast_across_bracket(
    contrast: ContrastFinding, contrast_by_side: Mapping[Side, ContrastFinding]
) -> ContrastFinding:
    """The contrast at the tuned rates; inconclusive where its word does not hold at a side."""
    if contrast.comparison is None or not contrast.is_judged:
        return contrast
    others = {side: _contrast_verdict(other) for side, other in contrast_by_side.items()}
    verdict = verdict_across_bracket(contrast.comparison.verdict, others)
    if verdict == contrast.comparison.verdict:
        return contrast
    return replace(contrast, comparison=replace(contrast.comparison, verdict=verdict, advice=None))


def _contrast_verdict(contrast: ContrastFinding) -> Verdict:
    if contrast.verdict is not None:
        return contrast.verdict
    if contrast.comparison is None:
        return Verdict("no verdict", contrast.reason)
    return contrast.comparison.verdict


def verdict_across_bracket(verdict: Verdict, verdict_by_side: Mapping[Side, Verdict]) -> Verdict:
    """The verdict, if its word holds at every side; of a difference, its size is said only
    where that holds too.
    """
    if verdict.word in NO_CLAIM_WORDS:
        return verdict
    other_words, same_details = [], True
    for side, other in verdict_by_side.items():
        same_details = same_details and other.detail == verdict.detail
        if other.word != verdict.word:
            other_words.append(f"{other.word} half an octave {side}")
    if other_words:
        at_sides = " and ".join(other_words)
        return Verdict("inconclusive", f"{verdict.word} at the tuned rates, {at_sides}")
    if verdict.word in ("better", "worse", "not worse") and not same_details:
        return replace(verdict, detail="")
    return verdict
