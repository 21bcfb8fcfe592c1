"""Choices: every option scored after its context, in four ways, of which one is primary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np

from paribus.corpus.tasks import ChoiceItem
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks.arms import TaskArm, asked_model_arm
from paribus.evaluate.tasks.floors import choice_floors, option_scores, tie_score
from paribus.evaluate.tasks.target_scores import target_scores
from paribus.masks import looks_ahead
from paribus.model import Transformer
from paribus.objectives import require_no_leak
from paribus.objectives.framing import Ids, LaidItem, item_problems, lay_item
from paribus.record import TaskAnswer
from paribus.spec.tasks import Normalisation

NORMALISATIONS: tuple[Normalisation, ...] = ("sum", "token", "byte", "unconditional")


@dataclass(frozen=True)
class ChoiceAnswers:
    """The answers to all items by the primary score, the accuracy by each, and the floors."""

    answers: tuple[TaskAnswer, ...]
    accuracy: dict[str, float]  # by normalisation
    floors: dict[str, float]


def ask_choices(
    asked_model: AskedModel,
    items: Sequence[ChoiceItem],
    normalisation: Normalisation = "byte",
    unconditional: str = "Answer:",
    *,
    max_positions: int | None = None,
) -> ChoiceAnswers:
    """Which option a model chooses for each item, and every option's nats.

    Where no item has a context, there is no unconditional score beside it.
    """
    assert items
    arm = asked_model_arm(asked_model)
    options = list(chain.from_iterable(item.options for item in items))
    n_options = [len(item.options) for item in items]
    targets = arm.encode_targets(options)
    contexts = arm.encode_contexts([item.context for item in items])
    names = list(chain.from_iterable([item.name] * len(item.options) for item in items))
    context_of = np.repeat(np.arange(len(items)), n_options).tolist()
    laid = _lay(arm, names, [contexts[number] for number in context_of], targets)
    laid_alone: list[LaidItem] = []
    has_contexts = any(item.context for item in items)
    if has_contexts:
        before = arm.encode_contexts([unconditional])[0]
        laid_alone = _lay(arm, names, [before] * len(options), targets)
    _require_unseen(asked_model.model, arm, [*laid, *laid_alone])
    # Both at once: options that many items share are read once after the unconditional context.
    scores = target_scores(asked_model.model, arm.layout, [*laid, *laid_alone], max_positions)
    nats, nats_alone = np.split(scores.nats, [len(laid)])
    bounds = list(pairwise(np.cumsum([0, *n_options]).tolist()))
    tokens = _by_item([len(target) for target in targets], bounds)
    n_bytes = _by_item([len(option.encode()) for option in options], bounds)
    answers: list[TaskAnswer] = []
    ways: tuple[Normalisation, ...] = NORMALISATIONS
    if not has_contexts:
        ways = NORMALISATIONS[:-1]
    right: dict[Normalisation, float] = dict.fromkeys(ways, 0.0)
    for number, (item, (first, last)) in enumerate(zip(items, bounds, strict=True)):
        own, own_alone = nats[first:last], nats_alone[first:last]
        results: dict[Normalisation, tuple[float, int]] = {}
        for way in ways:
            values = option_scores(own, tokens[number], n_bytes[number], own_alone, way)
            results[way] = tie_score(values, item.key)
            right[way] += results[way][0]
        score, chosen = results[normalisation]
        answers.append(
            TaskAnswer(
                item=item.name,
                document=item.document,
                score=score,
                count=1.0,
                chosen=chosen,
                key=item.key,
                option_nats=tuple(own.tolist()),
                option_tokens=tokens[number],
                option_bytes=n_bytes[number],
                n_truncated_tokens=laid[first].n_truncated,
                option_unconditional_nats=tuple(own_alone.tolist()),
            )
        )
    floors = choice_floors(items, tokens, n_bytes, normalisation)
    accuracy = {f"by {way}": total / len(items) for way, total in right.items()}
    return ChoiceAnswers(tuple(answers), accuracy, floors)


def _lay(
    arm: TaskArm, names: Sequence[str], contexts: Sequence[Ids], targets: Sequence[Ids]
) -> list[LaidItem]:
    laid: list[LaidItem] = []
    for name, context, target in zip(names, contexts, targets, strict=True):
        laid.append(lay_item(arm.layout, name, context, target))
    return laid


def _require_unseen(model: Transformer, arm: TaskArm, laid_items: Sequence[LaidItem]) -> None:
    """SpecError where an answer is seen; one item stands for all of its lengths."""
    if arm.layout.framing == "in place" or not looks_ahead(model.spec.stack.masks):
        return
    for one in {(len(one.inputs), len(one.target)): one for one in laid_items}.values():
        for problem in item_problems(arm.layout, one):
            require_no_leak(arm.layout.component.objective, problem, model.spec)


def _by_item(values: Sequence[int], bounds: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    return [tuple(values[first:last]) for first, last in bounds]
