"""Do the items of a yardstick reach what two arms differ in?

Arms may differ in a window, or in how far apart their positions tell tokens, and all items may be
shorter than that. Then what is measured never meets the difference, though the training does. So
items are laid as they will be asked, and it is looked at what each arm sees of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from paribus.analyse import column_of
from paribus.corpus.tasks import ChoiceItem, GenerationItem
from paribus.design.asked_tasks import planned_task_arm
from paribus.design.item_checks import (
    item_window,
    labelled_tokens,
    layout_of_items,
    tokens_of_items,
)
from paribus.design.quantities import PlannedArm
from paribus.design.seen_pairs import Reading, is_read_alike
from paribus.evaluate import select_items
from paribus.evaluate.tasks.protocols import item_context, longest_answer
from paribus.evaluate.tasks.run import PreparedTask
from paribus.masks import SequenceLayout
from paribus.objectives.framing import ItemLayout, LaidItem, item_problems, lay_item
from paribus.spec import ResolvedArchitecture, resolve
from paribus.spec.objectives import LastToken
from paribus.spec.tasks import GenerationTask
from paribus.spec.yardstick import DesignYardstick, HeadYardstick, TaskYardstick


class ItemShape(NamedTuple):
    """How many tokens an item is laid with: what is read first, and what is to be told."""

    n_input: int
    n_target: int

    @property
    def n_tokens(self) -> int:
        return self.n_input + self.n_target

    def fits_in(self, other: ItemShape) -> bool:
        """Is it in neither part longer than another?"""
        return self.n_input <= other.n_input and self.n_target <= other.n_target


@dataclass(frozen=True)
class ItemReach:
    """How far the items of a yardstick reach what two arms differ in."""

    n_items: int
    n_reaching: int
    longest: int  # tokens of the longest item as it is laid
    needed: int | None  # from how many on an item reaches it; None where none does in its window


def item_reach(
    measure: DesignYardstick,
    one: PlannedArm,
    other: PlannedArm,
    tasks: Mapping[str, PreparedTask],
) -> ItemReach:
    """How many items show what two arms differ in, and from which length on an item would."""
    shapes = _item_shapes(measure, one, tasks)
    pair = _AskedPair(measure, one, other)
    longest = max(shapes, key=lambda shape: shape.n_tokens)
    return ItemReach(
        n_items=len(shapes),
        n_reaching=_n_reaching(pair, shapes),
        longest=longest.n_tokens,
        needed=_needed_tokens(pair, longest, item_window(one)),
    )


def n_items_that_reach(
    measure: DesignYardstick,
    one: PlannedArm,
    other: PlannedArm,
    tasks: Mapping[str, PreparedTask],
) -> int:
    """How many items of a yardstick show what two arms differ in."""
    return _n_reaching(_AskedPair(measure, one, other), _item_shapes(measure, one, tasks))


def can_be_compared(one: PlannedArm, other: PlannedArm) -> bool:
    """Are two arms asked in one way, of stacks whose layers stand beside each other?"""
    objectives = one.run.last.objective, other.run.last.objective
    return objectives[0] == objectives[1] and _outline(one) == _outline(other)


def _outline(arm: PlannedArm) -> list[tuple[int, bool, int]]:
    spec = resolve(arm.run.last_architecture)
    stacks = [spec.stack, *([] if spec.encoder is None else [spec.encoder])]
    outlines = []
    for stack in stacks:
        has_cross = stack.layers[0].cross is not None
        outlines.append((len(stack.layers), has_cross, stack.layers[0].attention.n_heads))
    return outlines


class _AskedPair:
    """Two arms that are asked the items of one yardstick."""

    def __init__(self, measure: DesignYardstick, one: PlannedArm, other: PlannedArm):
        self.one: ResolvedArchitecture = resolve(one.run.last_architecture)
        self.other: ResolvedArchitecture = resolve(other.run.last_architecture)
        self.layout = _layout(measure, one)

    def is_reached(self, shape: ItemShape) -> bool:
        """Do the arms read an item of this shape differently?"""
        if self.layout is None:
            read = SequenceLayout(shape.n_tokens, shape.n_tokens)
            reading = Reading(read, None, np.ones(shape.n_tokens, bool))
        else:
            reading = _reading(self.layout, shape)
        return not is_read_alike(reading, self.one, self.other, self.layout is None)


def _layout(measure: DesignYardstick, arm: PlannedArm) -> ItemLayout | None:
    """How a yardstick lays its items; None where a head reads whole texts."""
    if isinstance(measure, HeadYardstick):
        return None
    if isinstance(measure, TaskYardstick):
        return planned_task_arm(arm).layout
    return layout_of_items(arm, measure)


def _reading(layout: ItemLayout, shape: ItemShape) -> Reading:
    """How an item lies before a model; where each token is asked by itself, with all of them
    counted.
    """
    item = LaidItem((0,) * shape.n_input, (0,) * shape.n_target, 0)
    *_, problem = item_problems(layout, item)  # the last of several reads the most
    reading = Reading.of(problem)
    if layout.framing == "in place" and not isinstance(layout.component.objective, LastToken):
        is_scored = reading.is_scored.copy()
        is_scored[shape.n_input : shape.n_tokens] = True
        return replace(reading, is_scored=is_scored)
    return reading


def _item_shapes(
    measure: DesignYardstick, arm: PlannedArm, tasks: Mapping[str, PreparedTask]
) -> list[ItemShape]:
    """The shape of each item as an arm is asked it; of several options the longest."""
    if isinstance(measure, HeadYardstick):
        room = item_window(arm) - 1
        return [ItemShape(min(len(ids), room) + 1, 0) for ids in labelled_tokens(measure, arm)]
    if isinstance(measure, TaskYardstick):
        return _task_shapes(tasks[column_of(measure.model_dump(mode="json"))], arm)
    layout = layout_of_items(arm, measure)
    items = tokens_of_items(arm.dataset, select_items(arm.dataset, measure))
    assert not isinstance(items, str)  # was refused
    shapes = []
    for name, context, target in items:
        laid = lay_item(layout, name, context, target)
        shapes.append(ItemShape(len(laid.inputs), len(laid.target)))
    return shapes


def _task_shapes(asked: PreparedTask, arm: PlannedArm) -> list[ItemShape]:
    task_arm, items = planned_task_arm(arm), asked.prepared.items
    contexts = task_arm.encode_contexts([item_context(item) for item in items])
    n_answer = 0
    if isinstance(asked.task, GenerationTask):
        generated = [item for item in items if isinstance(item, GenerationItem)]
        n_answer = longest_answer(task_arm, asked.task, generated)
    shapes = []
    for item, context in zip(items, contexts, strict=True):
        n_target = n_answer
        if isinstance(item, ChoiceItem):
            n_target = max(map(len, task_arm.encode(item.options)))
        laid = lay_item(task_arm.layout, item.name, context, (0,) * n_target)
        shapes.append(ItemShape(len(laid.inputs), n_target))
    return shapes


def _n_reaching(pair: _AskedPair, shapes: Sequence[ItemShape]) -> int:
    """How many items reach a difference: what a shorter one shows, one shows that is longer in both
    parts, so few need to be looked at.
    """
    undecided = sorted(set(shapes), key=lambda shape: shape.n_tokens)
    reaching: list[ItemShape] = []
    while undecided:
        shape = undecided[len(undecided) // 2]
        if pair.is_reached(shape):
            reaching.append(shape)
            undecided = [own for own in undecided if not shape.fits_in(own)]
        else:
            undecided = [own for own in undecided if not own.fits_in(shape)]
    return sum(_is_longer_than_any(own, reaching) for own in shapes)


def _is_longer_than_any(shape: ItemShape, others: Iterable[ItemShape]) -> bool:
    return any(other.fits_in(shape) for other in others)


def _needed_tokens(pair: _AskedPair, longest: ItemShape, window: int) -> int | None:
    """The tokens of the shortest item that reaches a difference, of those that are parted as the
    longest one is; None where it would not fit the window.
    """
    share, least = longest.n_target / longest.n_tokens, min(longest.n_target, 1)

    def shape_of(n_tokens: int) -> ItemShape:
        n_target = max(int(n_tokens * share), least)
        return ItemShape(n_tokens - n_target, n_target)

    short, enough = 1, window
    if pair.layout is not None and pair.layout.framing == "apart":
        enough = int(window / max(share, 1 - share))  # each part has the window to itself
    enough = max(enough, longest.n_tokens)
    if not pair.is_reached(shape_of(enough)):
        return None
    while enough - short > 1:
        middle = (short + enough) // 2
        if pair.is_reached(shape_of(middle)):
            enough = middle
        else:
            short = middle
    return enough
