"""Which arms share one budget: those of as many stages, and those that are judged against each
other.

An arm with one stage more reads what that stage reads on top. Where it is judged against an arm
without the stage, the stage is tested together with more training, unless a budget makes their
totals equal. So such a design needs a budget, or a reason why it has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from paribus.design.quantities import TOTALS_TOLERANCE, PlannedArm, full_quantity_name
from paribus.errors import SpecError
from paribus.record import ControlLine, Mark
from paribus.spec.contrasts import Weights
from paribus.spec.design import Budget, Design, declared_contrasts, judged_pairs

BudgetGroups = Mapping[str, int]  # the group of each arm


def budget_groups(design: Design, arms: Sequence[PlannedArm]) -> BudgetGroups:
    """The group of each arm: arms of as many stages are one, and groups are joined where arms of
    both are judged against each other.

    A contrast joins them where its weights do not cancel among arms of as many stages. In an
    interaction with a stage they do: the stage is on both sides.
    """
    n_stages = {arm.name: len(arm.run.stages) for arm in arms}
    group_of = {number: number for number in n_stages.values()}
    judged: list[Weights] = [{arm: 1.0, other: -1.0} for arm, other in judged_pairs(design)]
    judged += declared_contrasts(design).values()
    for weights in judged:
        sums: dict[int, float] = {}
        for name, weight in weights.items():
            sums[n_stages[name]] = sums.get(n_stages[name], 0.0) + weight
        joined = [group_of[number] for number, total in sums.items() if abs(total) > 1e-9]
        for number, group in group_of.items():
            if group in joined:
                group_of[number] = min(joined)
    return {name: group_of[number] for name, number in n_stages.items()}


def require_budget_over_stages(
    design: Design, arms: Sequence[PlannedArm], groups: BudgetGroups
) -> None:
    """SpecError where arms of unequal numbers of stages are judged against each other, read
    unequal totals, and nobody said which of them is made equal, or why none is.
    """
    if _reasons(design):
        return
    for first, others in _joined_arms(arms, groups):
        for arm in others:
            differences = []
            for name in get_args(Budget):
                share = arm.total(name) / first.total(name) - 1
                if abs(share) > TOTALS_TOLERANCE:
                    differences.append(f"{name} by {share:+.1%}")
            if differences and len(arm.run.stages) != len(first.run.stages):
                raise SpecError(
                    f"budget is missing, and {arm.name} has {len(arm.run.stages)} stages where"
                    f" {first.name} has {len(first.run.stages)}, so that it differs in"
                    f" {', '.join(differences)}; say which of them is made equal over all stages,"
                    " such as budget = 'tokens_read', or why none is: allow = { tokens_read ="
                    ' "why" }'
                )


def require_room_for_last_stage(
    budget: str, first: PlannedArm, arm: PlannedArm, goal: float, n_steps: int
) -> None:
    """SpecError where the stages before the last read as much as the whole budget."""
    if n_steps < 1 and len(arm.run.stages) != len(first.run.stages):
        before = arm.total(budget) - getattr(arm.step_cost, budget) * arm.n_steps
        raise SpecError(
            f"budget = {budget!r} is that of {first.name}, {goal:,.0f}, and the stages of"
            f" {arm.name} before its last come to {before:,.0f}; train those for less, or"
            f" {first.name} for longer"
        )


def mark_total_lines(
    lines: Sequence[ControlLine],
    design: Design,
    arms: Sequence[PlannedArm],
    groups: BudgetGroups,
) -> list[ControlLine]:
    """Control lines, in which totals that differ with the number of stages have the reason of the
    design.
    """
    reasons = _reasons(design)
    is_joined = any(True for _ in _joined_arms(arms, groups))
    marked = []
    for line in lines:
        if is_joined and line.path in reasons and line.mark != Mark.EQUAL:
            note = "differs with the number of stages"
            reason = reasons[line.path]
            marked.append(replace(line, mark=Mark.CONFOUND, note=note, allowed=reason))
        else:
            marked.append(line)
    return marked


def _reasons(design: Design) -> dict[str, str]:
    """Why totals may differ, by their line in the control table."""
    totals = {f"{name} in all" for name in get_args(Budget)}
    by_line = {full_quantity_name(path): reason for path, reason in design.allow.items()}
    return {line: reason for line, reason in by_line.items() if line in totals}


def _joined_arms(
    arms: Sequence[PlannedArm], groups: BudgetGroups
) -> list[tuple[PlannedArm, list[PlannedArm]]]:
    """The groups whose arms have unequal numbers of stages: the first arm, and the others."""
    by_group: dict[int, list[PlannedArm]] = {}
    for arm in arms:
        by_group.setdefault(groups[arm.name], []).append(arm)
    joined = []
    for first, *others in by_group.values():
        if any(len(arm.run.stages) != len(first.run.stages) for arm in others):
            joined.append((first, others))
    return joined
