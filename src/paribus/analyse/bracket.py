"""A bracket of rates: every arm half an octave to either side of its own, where a verdict must hold as well.

All arms are shifted alike. A word that another one takes the place of at either side is no word: `inconclusive`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.failures import Judgement
from paribus.analyse.verdict import Verdict
from paribus.record.plan import PlanRecord

Side = str
SIDES: Mapping[Side, float] = {"below": -0.5, "above": 0.5}  # octaves from the tuned rate
UNCERTAIN = ("inconclusive", "unstable", "no verdict", "withheld", "identical")  # words that claim nothing
_DIGITS = 4


def bracket_rate(rate: float, side: Side) -> float:
    """The rate at one side of a tuned one, to a few digits."""
    return float(f"{rate * 2 ** SIDES[side]:.{_DIGITS}g}")


def bracket_rows(
    plan: PlanRecord, table: Sequence[Mapping[str, Any]], seeds: Sequence[int]
) -> dict[Side, list[dict[str, Any]]]:
    """The rows of each side under these seeds, perhaps fewer than there will be; no side where none was asked for."""
    tune = plan.design.tune
    if tune is None or not tune.bracket:
        return {}
    rates = {row["arm"]: row["rate"] for row in table if row["purpose"] == "reported"}
    found: dict[Side, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for row in table:
        if row["purpose"] == "bracket" and row["seed"] in seeds and row["arm"] in rates:
            side = "below" if row["rate"] < rates[row["arm"]] else "above"
            found[side].append(dict(row))
    return found


def hold_judgement(own: Judgement, at: Mapping[Side, Judgement]) -> Judgement:
    """The judgement at the tuned rates; inconclusive where its word does not hold at a side."""
    verdict = hold_verdict(own.verdict, {side: other.verdict for side, other in at.items()})
    if verdict == own.verdict or own.comparison is None:
        return own
    made = replace(own.comparison, verdict=verdict, advice=None)
    return replace(own, verdict=verdict, comparison=made)


def hold_contrast(own: ContrastFinding, at: Mapping[Side, ContrastFinding]) -> ContrastFinding:
    """The contrast at the tuned rates; inconclusive where its word does not hold at a side."""
    if own.comparison is None or not own.is_judged:
        return own
    others = {side: _verdict(other) for side, other in at.items()}
    verdict = hold_verdict(own.comparison.verdict, others)
    if verdict == own.comparison.verdict:
        return own
    return replace(own, comparison=replace(own.comparison, verdict=verdict, advice=None))


def _verdict(one: ContrastFinding) -> Verdict:
    return Verdict("no verdict", one.reason) if one.comparison is None else one.comparison.verdict


def hold_verdict(own: Verdict, at: Mapping[Side, Verdict]) -> Verdict:
    """The verdict, if its word holds at every side; of a difference, its size is said only where that holds too."""
    if own.word in UNCERTAIN:
        return own
    lost = [f"{other.word} half an octave {side}" for side, other in at.items() if other.word != own.word]
    if lost:
        return Verdict("inconclusive", f"{own.word} at the tuned rates, {' and '.join(lost)}")
    sized = own.word in ("better", "worse", "not worse")
    same = all(other.detail == own.detail for other in at.values())
    return replace(own, detail="") if sized and not same else own
