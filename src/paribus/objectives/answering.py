"""As which component of its objective an arm is asked: the one that comes nearest to `what follows
this?`
"""

from __future__ import annotations

from paribus.errors import SpecError
from paribus.spec.measure import LikelihoodKind
from paribus.spec.objectives import (
    Mixture,
    MixtureComponent,
    Objective,
    SpanCorruption,
    components_of,
)

_ACROSS_OBJECTIVES = (
    "arms that fill masks are measured beside others by the yardstick 'head', after a last stage"
    " that trains one in every arm (objective 'labels' or 'tags')"
)
PREFERRED_KINDS = ("continuation", "prefix", "seq2seq", "causal", "spans", "last_token")
_WHY_NOT = {
    "masked": "a masked token is predicted from what follows it too",
    "reverse": "each token is predicted from those after it",
    "labels": "its head gives labels",
    "tags": "its head gives tags",
}


def answering_component(objective: Objective, label: LikelihoodKind) -> MixtureComponent:
    """The component under which an arm answers; SpecError with the reason where none can."""
    kinds = PREFERRED_KINDS if label == "likelihood" else ("masked",)
    for kind in kinds:
        own = [
            component for component in components_of(objective) if component.objective.kind == kind
        ]
        if own:
            return max(own, key=_span_length)  # the first of equals
    if label == "likelihood":
        raise SpecError(_describe_no_likelihood(objective))
    raise SpecError(_describe_no_masks(objective))


def reading_component(objective: Objective) -> MixtureComponent:
    """The component as which a model reads a text that it only represents: the one under which it
    answers, or the first where it gives no likelihood.
    """
    try:
        return answering_component(objective, "likelihood")
    except SpecError:
        return components_of(objective)[0]


def mixture_of_one(component: MixtureComponent) -> Mixture:
    """An objective that is this component alone, mode token and all."""
    return Mixture(components=(component,))


def _span_length(component: MixtureComponent) -> float:
    """Of several denoisers, the one that hides the longest spans: a target is one long span."""
    if isinstance(component.objective, SpanCorruption):
        return component.objective.mean_span
    return 0.0


def _describe_no_likelihood(objective: Objective) -> str:
    kinds = _objective_kinds(objective)
    if "masked" in kinds:
        advice = f"measure it with 'pseudo' where every arm fills masks; {_ACROSS_OBJECTIVES}"
    elif {"labels", "tags"}.intersection(kinds):
        advice = "measure the labels that it gives, or the stage before"
    else:
        advice = "train with 'causal' or 'prefix'"
    return f"{why_no_likelihood(objective)}; {advice}"


def why_no_likelihood(objective: Objective) -> str:
    """Why an objective gives no likelihood of a target after its context."""
    reasons = ", and ".join(_WHY_NOT[kind] for kind in _objective_kinds(objective))
    return (
        f"objective.kind is {objective.kind!r}, which gives no likelihood of a target after its"
        f" context: {reasons}"
    )


def _objective_kinds(objective: Objective) -> list[str]:
    """The kinds of the components of an objective, each once."""
    return list(dict.fromkeys(one.objective.kind for one in components_of(objective)))


def _describe_no_masks(objective: Objective) -> str:
    return (
        f"objective.kind is {objective.kind!r}, which was not trained to fill masks, as the"
        " yardstick 'pseudo' asks; use 'halves' where no arm fills masks, or an objective such as"
        f" 'masked'; {_ACROSS_OBJECTIVES}"
    )
