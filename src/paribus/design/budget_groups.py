"""Which arms share one budget, and whether whole steps can meet it: arms of as many stages share
one, and arms that are judged against each other.

An arm with one stage more reads what that stage reads on top. Where it is judged against an arm
without the stage, the stage is tested together with more training, unless a budget makes their
totals equal. So such a design needs a budget, or a reason why it has none.

An arm trains for a whole number of steps. Where that is far from the budget, the pair is compared
at unequal budgets, and is refused. Equal budgets may also come to unequal numbers of updates, which
is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from paribus.design.quantities import TOTALS_TOLERANCE, PlannedArm, full_quantity_name
from paribus.errors import SpecError
from paribus.record import ControlLine, Mark
from paribus.record.control_table import BUDGET_TOLERANCE, UPDATES
from paribus.spec.contrasts import Weights
from paribus.spec.design import (
    ArmPair,
    Budget,
    Design,
    compared_pairs,
    declared_contrasts,
    judged_pairs,
)

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
        largest = max(map(abs, weights.values()))
        for name, weight in weights.items():
            sums[n_stages[name]] = sums.get(n_stages[name], 0.0) + weight
        joined = [group_of[number] for number, total in sums.items() if abs(total) > 1e-9 * largest]
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
                    f" {', '.join(differences)}; {_describe_choice(first, arm)}, or why none is:"
                    ' allow = { tokens_read = "why" }'
                )


def _describe_choice(first: PlannedArm, arm: PlannedArm) -> str:
    """How a budget over all stages is chosen, and what must change where none can be met."""
    choice = "say which of them is made equal over all stages, such as budget = 'tokens_read'"
    name: Budget = "tokens_read"
    if round(budget_steps(name, first, arm, first.n_steps)) >= 1:
        return choice
    return (
        f"{choice}; the stages of {arm.name} before its last read as much as all of {first.name},"
        f" so {_describe_longest(first, arm)}"
    )


def _describe_longest(first: PlannedArm, arm: PlannedArm) -> str:
    """How a budget can be met that the earlier stages of an arm fill: by that of the arm."""
    if len(arm.run.stages) > len(first.run.stages):
        return (
            f"write baseline = {arm.name!r}, whose budget moves the steps of {first.name} and"
            " leaves its stages as they are"
        )
    return f"train those for less, or {first.name} for longer"


def require_room_for_last_stage(
    budget: str, first: PlannedArm, arm: PlannedArm, goal: float, n_steps: int
) -> None:
    """SpecError where the stages before the last read as much as the whole budget."""
    if n_steps < 1 and len(arm.run.stages) != len(first.run.stages):
        before = arm.total(budget) - getattr(arm.step_cost, budget) * arm.n_steps
        raise SpecError(
            f"budget = {budget!r} is that of {first.name}, {goal:,.0f}, and the stages of"
            f" {arm.name} before its last come to {before:,.0f}; {_describe_longest(first, arm)}"
        )


def budget_steps(budget: Budget, first: PlannedArm, arm: PlannedArm, n_first: int) -> float:
    """The steps in which the last stage of an arm meets the budget of the first of its group, were
    that trained for `n_first` steps; not a whole number.
    """
    goal = first.total(budget) + (n_first - first.n_steps) * getattr(first.step_cost, budget)
    per_step = getattr(arm.step_cost, budget)
    before = arm.total(budget) - per_step * arm.n_steps  # in earlier stages
    return (goal - before) / per_step


def describe_missed_budgets(lines: Iterable[ControlLine], budget: Budget | None) -> Iterator[str]:
    """The budget that whole steps do not meet and that is not allowed to be missed, in three
    beats.
    """
    for line in lines:
        is_confound = line.mark == Mark.CONFOUND and line.allowed is None
        if budget is not None and line.path == f"{budget} in all" and is_confound:
            values = ", ".join(f"{value:,.0f} in {arm}" for arm, value in line.values.items())
            yield (
                f"{line.path} is {values}, but budget = {budget!r} makes it equal ({line.note});"
                f" use that, or list {line.path!r} under allow with a reason"
            )


def mark_total_lines(
    lines: Sequence[ControlLine],
    design: Design,
    arms: Sequence[PlannedArm],
    groups: BudgetGroups,
) -> list[ControlLine]:
    """Control lines, in which a budget that whole steps miss is a confound, totals that differ
    with the number of stages have the reason of the design, and unequal updates a line of their
    own.
    """
    marked = _mark_stage_totals(lines, design, arms, groups)
    if design.budget is None:
        return marked
    for place, line in enumerate(marked):
        if line.path == f"{design.budget} in all":
            marked[place] = _mark_missed_budget(line, design, design.budget, arms, groups)
    return [*marked, *_update_lines(design, design.budget, arms)]


def _mark_missed_budget(
    line: ControlLine,
    design: Design,
    budget: Budget,
    arms: Sequence[PlannedArm],
    groups: BudgetGroups,
) -> ControlLine:
    """The line of the budget, a confound where two arms that share it and are compared differ."""
    by_name = {arm.name: arm for arm in arms}
    pairs = [pair for pair in compared_pairs(design) if groups[pair[0]] == groups[pair[1]]]
    missed = []
    for arm, against in pairs:
        share = by_name[arm].total(budget) / by_name[against].total(budget) - 1
        if abs(share) > BUDGET_TOLERANCE:
            missed.append(f"{arm} against {against} {share:+.1%}")
    if not missed:
        return line
    cure = _describe_cure(budget, arms, groups, pairs)
    return replace(
        line,
        mark=Mark.CONFOUND,
        note=f"{', '.join(missed)}, as near as whole steps come; it is met with {cure}",
        allowed=_reasons(design).get(line.path),
    )


def _describe_cure(
    budget: Budget, arms: Sequence[PlannedArm], groups: BudgetGroups, pairs: Sequence[ArmPair]
) -> str:
    """The nearest steps of the first arms with which every pair meets the budget, and the nearest
    sequences of an arm whose own number of them is in the way.
    """
    cures = []
    firsts = {groups[arm.name]: arm for arm in reversed(arms)}
    for group, first in firsts.items():
        members = [arm for arm in arms if groups[arm.name] == group]
        own_pairs = [pair for pair in pairs if groups[pair[0]] == group]
        n_steps = _met_steps(budget, first, members, own_pairs)
        if n_steps != first.n_steps:
            cures.append(f"training.n_steps = {n_steps} in {first.name}")
        for arm in members:
            cures += _met_sequences(budget, first, arm)
    return " or ".join(cures)


def _met_steps(
    budget: Budget, first: PlannedArm, arms: Sequence[PlannedArm], pairs: Sequence[ArmPair]
) -> int:
    """The number of steps of the first arm, nearest to its own, with which all pairs are near;
    there is one, for long runs can meet any budget.
    """
    n_first, distance = first.n_steps, 0
    while n_first < 1 or not _is_met(budget, first, n_first, arms, pairs):
        distance = -distance if distance > 0 else 1 - distance
        n_first = first.n_steps + distance
    return n_first


def _is_met(
    budget: Budget,
    first: PlannedArm,
    n_first: int,
    arms: Sequence[PlannedArm],
    pairs: Sequence[ArmPair],
) -> bool:
    """Would all pairs come near the budget, were the first arm trained for so many steps?"""
    totals = {}
    for arm in arms:
        n_steps = max(1, round(budget_steps(budget, first, arm, n_first)))
        more = (n_steps - arm.n_steps) * getattr(arm.step_cost, budget)
        totals[arm.name] = arm.total(budget) + more
    shares = [abs(totals[arm] / totals[against] - 1) for arm, against in pairs]
    return max(shares, default=0.0) <= BUDGET_TOLERANCE


def _met_sequences(budget: Budget, first: PlannedArm, arm: PlannedArm) -> Iterator[str]:
    """The sequences of an arm, nearest to its own, with which it meets the budget as it is; nothing
    where it does so, or has as many as the first.
    """
    own = arm.run.last.training.n_sequences
    steps = budget_steps(budget, first, arm, first.n_steps)
    if own == first.run.last.training.n_sequences or steps <= 0 or _is_near(steps):
        return
    most = own + first.run.last.training.n_sequences * first.n_steps
    for n_sequences in sorted(range(1, most), key=lambda n: abs(n - own)):
        if _is_near(steps * own / n_sequences):
            yield f"training.n_sequences = {n_sequences} in {arm.name}"
            return


def _is_near(steps: float) -> bool:
    """Is a whole number of steps, one at least, near what a budget asks for?"""
    return abs(max(1, round(steps)) / steps - 1) <= BUDGET_TOLERANCE


def _update_lines(
    design: Design, budget: Budget, arms: Sequence[PlannedArm]
) -> Iterator[ControlLine]:
    """How often each arm moves its weights, where an equal budget makes that unequal."""
    updates = {arm.name: sum(one.training.n_steps for one in arm.run.stages) for arm in arms}
    notes = []
    for arm, against in compared_pairs(design):
        share = updates[arm] / updates[against] - 1
        if abs(share) > BUDGET_TOLERANCE:
            notes.append(f"{arm} against {against} {share:+.1%}")
    if notes:
        note = f"{'; '.join(notes)}: {budget} agree, so updates of the weights do not"
        yield ControlLine(path=UPDATES, mark=Mark.FOLLOWS, values=updates, note=note)


def _mark_stage_totals(
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
