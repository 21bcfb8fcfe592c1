"""How early the final order shows, in a sentence; nothing where there is too little to say it from."""

from __future__ import annotations

from collections.abc import Sequence

from paribus.analyse import EarlyOrder, early_order, seed_curves
from paribus.analyse.curves import NOT_ANNEALED
from paribus.report.material import Material
from paribus.report.numbers import listed, whole_percent

TITLE = "How early the final order shows"
PARTS = (0.25, 0.5, 0.75)  # of the tokens


def early_words(material: Material) -> str:
    """Over arms that ended better or worse than the baseline, at a few parts of training; empty where not said."""
    found = _order(material)
    if not found.agreement:
        return ""
    end = max(found.agreement)
    steps = dict.fromkeys(_nearest(list(found.agreement), part * end) for part in PARTS)
    at = listed([whole_percent(step / end) for step in steps])
    right = listed([whole_percent(found.agreement[step]) for step in steps])
    return (
        f"After {at} of the tokens, half of the seeds order {listed(list(found.decided))} against "
        f"{material.found.baseline} as the other half does at the end in {right} of splits, on validation text; by "
        f"chance it would be 50 %. To explore, and no forecast of shorter runs: {NOT_ANNEALED}."
    )


def _order(material: Material) -> EarlyOrder:
    found = material.found
    arms = [arm for arm in found.arms if arm.against == found.baseline and arm.curve and _alike(arm.name, material)]
    decided = [arm.name for arm in arms if arm.judgement.verdict.word in ("better", "worse")]
    curves = {name: seed_curves(found.runs[name]) for name in (found.baseline, *(arm.name for arm in arms))}
    return early_order(curves, found.baseline, lower_is_better=True, decided=decided)


def _alike(arm: str, material: Material) -> bool:
    """Is an arm asked what the baseline is, and did both train in every seed?"""
    n_seeds = len(material.found.seeds)
    whole = all(len(material.found.runs[name]) == n_seeds for name in (arm, material.found.baseline))
    return whole and material.asked_alike(arm)


def _nearest(steps: Sequence[int], wanted: float) -> int:
    return min(steps, key=lambda step: abs(step - wanted))
