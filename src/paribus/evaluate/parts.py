"""As which part of its objective an arm is asked: the one that comes nearest to `what follows this?`"""

from __future__ import annotations

from paribus.errors import SpecError
from paribus.objectives.framing import framing
from paribus.spec.objectives import Mixture, Objective, SpanCorruption, Weighted, parts
from paribus.spec.yardstick import Measure

PREFERRED = ("continuation", "prefix", "seq2seq", "causal", "spans", "last_token")
_WHY_NOT = {
    "masked": "a masked token is predicted from what follows it too",
    "reverse": "each token is predicted from those after it",
}


def answering(objective: Objective, label: Measure) -> Weighted:
    """The part under which an arm answers; SpecError with the reason where none can."""
    given = parts(objective)
    kinds = PREFERRED if label == "likelihood" else ("masked",)
    found = [part for kind in kinds for part in given if part.objective.kind == kind]
    if not found:
        raise SpecError(_no_likelihood(objective) if label == "likelihood" else _no_masks(objective))
    alike = [part for part in found if part.objective.kind == found[0].objective.kind]
    return max(alike, key=_longest)  # the first of equals


def only(part: Weighted) -> Mixture:
    """An objective that is this part alone, mode sign and all."""
    return Mixture(parts=(part,))


def context_is_prefix(objective: Objective) -> bool:
    """Does one stack go on from a context as from its prefix? Not if it learnt each token from those before it."""
    try:
        return framing(answering(objective, "likelihood").objective, False) != "shifted"
    except SpecError:  # it never learnt to go on: what it says means little, with a prefix or without
        return True


def _longest(part: Weighted) -> float:
    """Of several denoisers, the one that hides the longest spans: a target is one long span."""
    return part.objective.mean_span if isinstance(part.objective, SpanCorruption) else 0.0


def _no_likelihood(objective: Objective) -> str:
    kinds = dict.fromkeys(part.objective.kind for part in parts(objective))
    advice = "measure it with 'pseudo', beside its like" if "masked" in kinds else "train with 'causal' or 'prefix'"
    return (
        f"objective.kind is {objective.kind!r}, which gives no likelihood of a target after its context: "
        f"{', and '.join(_WHY_NOT[kind] for kind in kinds)}; {advice}"
    )


def _no_masks(objective: Objective) -> str:
    return (
        f"objective.kind is {objective.kind!r}, which was not trained to fill masks, as the yardstick 'pseudo' asks; "
        f"use 'halves', or an objective such as 'masked'"
    )
