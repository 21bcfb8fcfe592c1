"""The family of a plan: the pairs and contrasts that get a word, and share the 5 %."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.record.plan import PlanRecord
from paribus.spec.contrasts import (
    ArmPair,
    Contrasts,
    family_size,
    interaction_name,
    judged_family,
    resolve_contrasts,
    two_by_two_levels,
)

SECOND_EDITION = 2  # the edition of the verdict from which on a report has one family
FOURTH_EDITION = 4  # from which on words that need no t are decided before those of t


def plan_family(plan: PlanRecord) -> tuple[list[ArmPair], Contrasts]:
    """The pairs and the contrasts that get a word, by the rule that the plan was made with.

    Before the second edition a control was judged as any arm, and a 2 × 2 had no contrasts unless
    it declared them.
    """
    design, levels, baseline = plan.design, plan_levels(plan), plan.baseline
    pairs, contrasts = None, design.contrasts
    if design.comparisons is not None:
        pairs = [(name, against) for name, against in design.comparisons]
    if is_second_edition(plan):
        return judged_family(pairs, contrasts, levels, baseline, design.control_arm)
    each = [(name, baseline) for name in plan.order[1:]]
    return (each if pairs is None else pairs), resolve_contrasts(contrasts, levels, baseline)


def compared_arms(plan: PlanRecord) -> list[str]:
    """The arms of its pairs and contrasts, in its order."""
    pairs, contrasts = plan_family(plan)
    names = set[str]().union(*pairs, *contrasts.values())
    return [arm for arm in plan.order if arm in names]


def plan_family_size(plan: PlanRecord) -> int:
    """How many words of a plan share the 5 %."""
    return family_size(*plan_family(plan))


def plan_levels(plan: PlanRecord) -> dict[str, Mapping[str, str]]:
    """The levels of each arm of a plan, in its order."""
    return {arm: plan.arms[arm].levels for arm in plan.order}


def is_second_edition(plan: PlanRecord) -> bool:
    """Was a plan made by the second edition of the verdict?"""
    return plan.edition >= SECOND_EDITION


def is_fourth_edition(plan: PlanRecord) -> bool:
    """Was a plan made by the fourth edition of the verdict?"""
    return plan.edition >= FOURTH_EDITION


def judges_factorial_effects(plan: PlanRecord) -> bool:
    """Are the three effects of a 2 × 2 in the family?"""
    factors = two_by_two_levels(plan_levels(plan), plan.baseline)
    return factors is not None and interaction_name(factors) in plan_family(plan)[1]
