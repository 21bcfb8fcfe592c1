"""How each arm is asked and tuned, and what is said beside a pair whose arms are not so alike.

A yardstick asks every arm the same items, each in the form that the arm was trained for: as which
objective, as a turn or bare, minus the score of which parent. These follow from the training, and
so may differ with it. An arm is not asked in a form that it was hardly trained for beside one that
is asked in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paribus.design.budget_groups import BudgetGroups
from paribus.design.quantities import PlannedArm
from paribus.errors import SpecError
from paribus.evaluate import answering_component
from paribus.evaluate.tasks.arms import likelihood_kind
from paribus.spec.design import Design, compared_pairs, sweep_yardstick
from paribus.spec.measure import LikelihoodKind
from paribus.spec.objectives import MixtureComponent, Objective, Preference, components_of
from paribus.spec.stages import reads_conversations
from paribus.spec.tasks import GenerationTask
from paribus.spec.yardstick import DesignYardstick, HeadYardstick, TaskYardstick
from paribus.train.parent import name_of_run

LEAST_SHARE = 0.01  # of a stage, for a component that answers


@dataclass(frozen=True)
class AskedForm:
    """As which objective an arm is asked, and how much of its training that was."""

    kind: str
    mode: str | None
    share: float  # of the tokens that all stages read
    stage_share: float  # of the stage that drew it most

    @property
    def name(self) -> str:
        return self.kind if self.mode is None else f"{self.kind} under {self.mode}"

    @property
    def description(self) -> str:
        return (
            self.name
            if self.share == 1
            else f"{self.name} ({100 * self.share:.3g} % of its training)"
        )

    @property
    def is_hardly_trained(self) -> bool:
        return self.stage_share < LEAST_SHARE


def asked_form(measure: DesignYardstick, arm: PlannedArm) -> AskedForm | None:
    """In which form a yardstick asks an arm; None where a head answers."""
    if isinstance(measure, HeadYardstick):
        return None
    component = answering_component(arm.run.last.objective, _label(measure, arm))
    drawn = [_drawn_share(stage.objective, component) for stage in arm.run.stages]
    read = []
    for stage, cost in zip(arm.run.stages, arm.step_costs, strict=True):
        read.append(cost.tokens_read * stage.training.n_steps)
    share = sum(own * n for own, n in zip(drawn, read, strict=True)) / sum(read)
    return AskedForm(component.objective.kind, component.mode, share, max(drawn))


def _label(measure: DesignYardstick, arm: PlannedArm) -> LikelihoodKind:
    if isinstance(measure, TaskYardstick):
        return likelihood_kind(arm.run.last.objective)
    assert not isinstance(measure, HeadYardstick)
    return measure.label


def _drawn_share(objective: Objective, component: MixtureComponent) -> float:
    """How often an objective draws what is asked like a component."""
    parts = components_of(objective)
    alike = [one for one in parts if _is_alike(one, component)]
    return sum(one.weight for one in alike) / sum(one.weight for one in parts)


def _is_alike(one: MixtureComponent, other: MixtureComponent) -> bool:
    return (one.objective.kind, one.mode) == (other.objective.kind, other.mode)


def require_trained_forms(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where arms that are compared are asked in two forms, and one of them was hardly
    trained for its own.
    """
    by_name = {arm.name: arm for arm in arms}
    problems = dict[str, None]()
    for pair in compared_pairs(design):
        forms = [asked_form(design.primary.measure, by_name[name]) for name in pair]
        for name, other, own, its in zip(pair, pair[::-1], forms, forms[::-1], strict=True):
            if own and its and own.name != its.name and own.is_hardly_trained:
                problems[
                    f"arms.{name}: it would be asked as {own.name}, which is"
                    f" {100 * own.stage_share:.3g} % of its objective's weight, and {other} as"
                    f" {its.name}; give that component a weight of {LEAST_SHARE:.0%} of all or"
                    " more, or leave it out"
                ] = None
    if problems:
        raise SpecError(list(problems))


def require_like_parents(design: Design, arms: Sequence[PlannedArm], groups: BudgetGroups) -> None:
    """SpecError where arms that are judged against each other have scores minus their parents',
    and their parents end with other stages.
    """
    measure = design.primary.measure
    if not isinstance(measure, TaskYardstick) or not measure.minus_parent:
        return
    firsts: dict[int, PlannedArm] = {}
    for arm in arms:
        first = firsts.setdefault(groups[arm.name], arm)
        numbers = [len(one.run.stages) - 1 for one in (first, arm)]
        if numbers[0] != numbers[1]:
            raise SpecError(
                f"primary.measure: minus_parent is true, and {first.name} would be judged by stage"
                f" {numbers[0]} minus stage {numbers[0] - 1}, {arm.name} by stage {numbers[1]}"
                f" minus stage {numbers[1] - 1}; leave minus_parent out, or judge arms of as many"
                " stages"
            )


def asking_notes(
    design: Design, arms: Sequence[PlannedArm], first: PlannedArm, second: PlannedArm
) -> Iterator[str]:
    """What is not alike in how two arms are asked and tuned: clauses without a subject, of the
    first.
    """
    measure = design.primary.measure
    own, other = asked_form(measure, first), asked_form(measure, second)
    if own is not None and other is not None:
        is_written = own.share == other.share == 1  # then the objectives themselves say it
        is_hardly_trained = own.is_hardly_trained or other.is_hardly_trained
        if (own.name != other.name and not is_written) or is_hardly_trained:
            yield f"is asked as {own.description}, {second.name} as {other.description}"
    if isinstance(measure, TaskYardstick):
        yield from _task_notes(measure, first, second)
    yield from _sample_notes(first, second)
    yield from _tuning_notes(design, arms, first, second)


def _task_notes(measure: TaskYardstick, first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    turns = [reads_conversations(arm.run) for arm in (first, second)]
    if turns[0] != turns[1]:
        words = ("in the turn of a user", "bare")
        own, other = words if turns[0] else words[::-1]
        yield f"is asked {own}, {second.name} {other}"
    labels = [_label(measure, arm) for arm in (first, second)]
    if labels[0] != labels[1] and isinstance(measure.task, GenerationTask):
        words = ("under masks that are filled one by one", "from left to right")
        own, other = words if labels[0] == "pseudo-likelihood" else words[::-1]
        yield f"answers {own}, {second.name} {other}"
    if measure.minus_parent and _has_other_stages(first, second, len(first.run.stages) - 1):
        yield f"is scored minus its own parent, which is not that of {second.name}"


def _sample_notes(first: PlannedArm, second: PlannedArm) -> Iterator[str]:
    """That arms learn from responses of their own, and of parents that are not the same."""
    stages = zip(first.run.stages, second.run.stages, strict=False)
    for number, objectives in enumerate(
        [(one.objective, other.objective) for one, other in stages]
    ):
        are_own = [isinstance(one, Preference) and one.own_samples for one in objectives]
        if all(are_own) and _has_other_stages(first, second, number):
            yield f"learns in stage {number} from other pairs, those that its own parent wrote"


def _has_other_stages(first: PlannedArm, second: PlannedArm, n_stages: int) -> bool:
    """Do two arms have other runs before a stage?"""
    names = []
    for arm in (first, second):
        before = arm.first_stages(n_stages)
        names.append(name_of_run(before.run, before.texts))
    return names[0] != names[1]


def _tuning_notes(
    design: Design, arms: Sequence[PlannedArm], first: PlannedArm, second: PlannedArm
) -> Iterator[str]:
    """That the rates of last stages are found on two criteria."""
    n_stages = max(len(arm.run.stages) for arm in arms)
    found = []
    for arm in (first, second):
        found.append(tuning_criterion(design, is_last=len(arm.run.stages) == n_stages))
    if design.tune is not None and not design.tune.rates and found[0] != found[1]:
        yield f"has the rate of its last stage tuned on {found[0]}, {second.name} on {found[1]}"


def tuning_criterion(design: Design, *, is_last: bool) -> str:
    """What decides the rate of a stage, in words; an earlier stage is tuned before items are
    asked.
    """
    swept = sweep_yardstick(design)
    if swept is None or not is_last:
        return "the held-out loss of its own objective"
    return f"{swept.split} {'items' if isinstance(swept, TaskYardstick) else 'text'}"
