"""The same question for every arm: demonstrations as many as fit all, and contexts that are cut or
left out for all.

What fits depends on the windows and tokenizers of all arms that are asked together, and on nothing
else: an encoder's window of its own is no excuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from paribus.corpus.tasks import ChoiceItem, GenerationItem
from paribus.errors import SpecError
from paribus.evaluate.tasks.arms import TaskArm
from paribus.runtime import derive_seed
from paribus.spec.tasks import FewShot, GenerationTask, Protocol, Task

AskedItem = ChoiceItem | GenerationItem


@dataclass(frozen=True)
class PreparedItems:
    """Items as they are put to every arm, and what it took."""

    items: tuple[AskedItem, ...]
    n_left_out: int
    n_truncated_bytes: tuple[int, ...]  # of the context of each item
    n_demonstrations: tuple[int, ...]  # of each item


def prepare_items(
    task: Task,
    items: Sequence[AskedItem],
    demonstrations: Sequence[AskedItem],
    arms: Sequence[TaskArm],
    protocol: Protocol,
) -> PreparedItems:
    """Items with their demonstrations in the context, such that each fits every arm."""
    n_wanted, seed = 0, 0
    if isinstance(protocol, FewShot):
        n_wanted, seed = protocol.n_demonstrations, protocol.seed
        if not demonstrations:
            raise SpecError(f"task {task.name} has no demonstrations; give it a train split")
    prepared: list[AskedItem] = []
    truncated: list[int] = []
    counts: list[int] = []
    rooms = _common_rooms(task, items, arms)
    for item, room in zip(items, rooms, strict=True):
        shown = _draw(demonstrations, item, n_wanted, seed)
        n_shown = demonstrations_that_fit(arms, task, item, shown, room)
        if n_shown is not None:
            prepared.append(_with_context(item, _context(task, item, shown[:n_shown])))
            truncated.append(0)
            counts.append(n_shown)
        elif task.too_long == "cut" and min(room) > 0:
            context = _cut_context(item_context(item), arms, room)
            prepared.append(_with_context(item, context))
            truncated.append(len(item_context(item).encode()) - len(context.encode()))
            counts.append(0)
    if not prepared:
        raise SpecError(
            f"task {task.name} has no item that fits every model; the windows are"
            f" {', '.join(str(arm.layout.window) for arm in arms)} tokens: use models with longer"
            " windows, or too_long = 'cut'"
        )
    return PreparedItems(
        items=tuple(prepared),
        n_left_out=len(items) - len(prepared),
        n_truncated_bytes=tuple(truncated),
        n_demonstrations=tuple(counts),
    )


def demonstrations_that_fit(
    arms: Sequence[TaskArm],
    task: Task,
    item: AskedItem,
    demonstrations: Sequence[AskedItem],
    rooms: Sequence[int],
) -> int | None:
    """The largest number of whole demonstrations that fits with the item in every arm; None where
    the item alone does not fit.

    `rooms` are tokens of the context that each arm has room for.
    """
    for number in range(len(demonstrations), -1, -1):
        context = _context(task, item, demonstrations[:number])
        if all(_fits(arm, context, room) for arm, room in zip(arms, rooms, strict=True)):
            return number
    return None


def item_context(item: AskedItem) -> str:
    """What stands before the answer of an item."""
    if isinstance(item, ChoiceItem):
        return item.context
    return item.source


def demonstration_text(item: AskedItem) -> str:
    """An item with its right answer."""
    if isinstance(item, ChoiceItem):
        return item.context + item.options[item.key]
    return item.source + item.references[0]


def _context(task: Task, item: AskedItem, demonstrations: Sequence[AskedItem]) -> str:
    texts = [demonstration_text(one) for one in demonstrations]
    return task.separator.join([*texts, item_context(item)])


def _with_context(item: AskedItem, context: str) -> AskedItem:
    if isinstance(item, ChoiceItem):
        return replace(item, context=context)
    return replace(item, source=context)


def _draw(
    demonstrations: Sequence[AskedItem], item: AskedItem, n_wanted: int, seed: int
) -> list[AskedItem]:
    """Demonstrations for one item, by its name: the same in every arm, in any order of items."""
    if not n_wanted:
        return []
    rng = Random(derive_seed(seed, "task", "demonstrations", item.name))
    return rng.sample(list(demonstrations), min(n_wanted, len(demonstrations)))


def longest_answer(arm: TaskArm, task: GenerationTask, items: Sequence[GenerationItem]) -> int:
    """Tokens that an answer may have: what the task says, or those of the longest reference."""
    if task.max_tokens is not None:
        return task.max_tokens
    texts = [reference for item in items for reference in item.references]
    return max(map(len, arm.encode(texts)))


def _common_rooms(
    task: Task, items: Sequence[AskedItem], arms: Sequence[TaskArm]
) -> list[tuple[int, ...]]:
    """Of each item, tokens of the context that each arm has room for beside the longest answer."""
    by_arm: list[list[int]] = []
    for arm in arms:
        rooms: list[int] = []
        for n_target in _answer_lengths(task, items, arm):
            rooms.append(arm.layout.context_room(n_target))
        by_arm.append(rooms)
    return list(zip(*by_arm, strict=True))


def _answer_lengths(task: Task, items: Sequence[AskedItem], arm: TaskArm) -> list[int]:
    """Tokens of each item's longest answer; of one that is generated, of the longest of all."""
    lengths: list[int] = []
    if isinstance(task, GenerationTask):
        generated = [item for item in items if isinstance(item, GenerationItem)]
        references = [item.references[0] for item in generated]
        longest = longest_answer(arm, task, generated)
        for ids in arm.encode(references):
            lengths.append(max(longest, len(ids)))
        return lengths
    choices = [item for item in items if isinstance(item, ChoiceItem)]
    options = [option for item in choices for option in item.options]
    option_lengths = iter(map(len, arm.encode(options)))
    for item in choices:
        lengths.append(max(next(option_lengths) for _ in item.options))
    return lengths


def _fits(arm: TaskArm, context: str, room: int) -> bool:
    n_prefix = len(arm.layout.document_prefix)
    n_around = n_prefix + sum(map(len, arm.turn_frame))
    if len(context.encode()) + n_around <= room and arm.tokenizer.writes_every_byte:
        return True  # no token has less than a byte
    return len(arm.encode_contexts([context])[0]) + n_prefix <= room


def _cut_context(context: str, arms: Sequence[TaskArm], rooms: Sequence[int]) -> str:
    """The longest end of a context that fits every arm, found by halving."""
    shortest, longest = 0, len(context)
    while shortest < longest:
        middle = (shortest + longest + 1) // 2
        end = context[len(context) - middle :]
        if all(_fits(arm, end, room) for arm, room in zip(arms, rooms, strict=True)):
            shortest = middle
        else:
            longest = middle - 1
    return context[len(context) - shortest :]
