"""Choices: every option scored after its context, in four ways, of which one is primary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from paribus.corpus.tasks import ChoiceItem
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks.arms import TaskArm, asked_model_arm
from paribus.evaluate.tasks.floors import (
    choice_floors,
    choose_options,
    option_scores,
    padded_options,
)
from paribus.evaluate.tasks.target_scores import target_scores
from paribus.masks import looks_ahead
from paribus.model import Transformer
from paribus.objectives import require_no_leak
from paribus.objectives.framing import Ids, LaidItem, item_problems, lay_item
from paribus.record import TaskAnswer
from paribus.spec.tasks import Normalisation

T = TypeVar("T")
Options = Sequence[Sequence[float]]  # of each item, one value for each option
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
    own_nats = _by_item(nats.tolist(), bounds)
    own_alone = _by_item(nats_alone.tolist(), bounds)
    ways: tuple[Normalisation, ...] = NORMALISATIONS
    if not has_contexts:
        ways = NORMALISATIONS[:-1]
        own_alone = [()] * len(items)
    results = _choose(items, ways, (own_nats, tokens, n_bytes, own_alone))
    right, chosen = (values.tolist() for values in results[normalisation])
    answers: list[TaskAnswer] = []
    for number, (item, (first, _)) in enumerate(zip(items, bounds, strict=True)):
        answers.append(
            TaskAnswer(
                item=item.name,
                document=item.document,
                score=right[number],
                count=1.0,
                chosen=chosen[number],
                key=item.key,
                option_nats=own_nats[number],
                option_tokens=tokens[number],
                option_bytes=n_bytes[number],
                n_truncated_tokens=laid[first].n_truncated,
                option_unconditional_nats=own_alone[number],
            )
        )
    floors = choice_floors(items, tokens, n_bytes, normalisation)
    accuracy = {f"by {way}": float(results[way][0].mean()) for way in ways}
    return ChoiceAnswers(tuple(answers), accuracy, floors)


def _choose(
    items: Sequence[ChoiceItem],
    ways: Sequence[Normalisation],
    values: tuple[Options, Options, Options, Options],
) -> dict[Normalisation, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """By each normalisation, the score of every item and the option that is chosen; `values` are
    nats, tokens, bytes and unconditional nats of the options.
    """
    nats, tokens, n_bytes, alone = values
    keys = np.array([item.key for item in items])
    nats_NO = padded_options(nats, math.inf)  # an option that is not there is never chosen
    tokens_NO = padded_options(tokens, 1.0)
    bytes_NO = padded_options(n_bytes, 1.0)
    alone_NO = nats_NO
    if "unconditional" in ways:
        alone_NO = padded_options(alone, 0.0)
    results: dict[Normalisation, tuple[NDArray[np.float64], NDArray[np.int64]]] = {}
    for way in ways:
        scores = option_scores(nats_NO, tokens_NO, bytes_NO, alone_NO, way)
        results[way] = choose_options(scores, keys)
    return results


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


def _by_item(values: Sequence[T], bounds: Sequence[tuple[int, int]]) -> list[tuple[T, ...]]:
    return [tuple(values[first:last]) for first, last in bounds]
