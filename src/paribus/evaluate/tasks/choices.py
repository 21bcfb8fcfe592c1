"""Choices: every option scored after its context, in four ways, of which one is primary."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np

from paribus.corpus.tasks import ChoiceItem
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks.arms import asked_model_arm
from paribus.evaluate.tasks.choice_measures import (
    Options,
    ScoredOptions,
    measure_choices,
    measure_floors,
)
from paribus.evaluate.tasks.floors import (
    Counts,
    choice_floors,
    choose_options,
    option_scores,
    padded_options,
)
from paribus.evaluate.tasks.target_scores import QueuedScores, queue_scores
from paribus.masks import looks_ahead
from paribus.objectives import require_no_leak
from paribus.objectives.framing import Ids, LaidItem, item_problems, lay_item
from paribus.record import TaskAnswer
from paribus.spec.tasks import CHOICE_ACCURACY, ChoiceMeasure, Normalisation

T = TypeVar("T")
NORMALISATIONS: tuple[Normalisation, ...] = ("sum", "token", "byte", "unconditional")
CHUNK_ITEMS = 2**13  # laid out at a time


@dataclass(frozen=True, eq=False)
class _OptionValues:
    """What choices are measured by: of each item, values of its options."""

    nats: Options
    n_tokens: Counts
    n_bytes: Counts
    unconditional_nats: Options  # empty where no item has a context
    n_truncated: Sequence[int]  # tokens of the context, one number for each item


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
    measure: ChoiceMeasure = CHOICE_ACCURACY,
    max_positions: int | None = None,
    chunk_size: int = CHUNK_ITEMS,
) -> ChoiceAnswers:
    """Which option a model chooses for each item, what it scores by a measure, and every option's
    nats, whatever the size of a batch or a chunk.

    Where no item has a context, there is no unconditional score beside it.
    """
    assert items
    if not any(item.context for item in items):
        queue = _OptionQueue(asked_model, None, max_positions)
    else:
        queue = _OptionQueue(asked_model, unconditional, max_positions)
    order: list[int] = []
    for numbers in chunk_items(items, chunk_size):
        queue.add([items[number] for number in numbers])
        order.extend(numbers)
    # The device is still at work; what needs no scores is done meanwhile.
    bounds = _bounds(items, order)
    tokens = _by_item(queue.n_tokens, bounds)
    n_truncated = [queue.n_truncated[first] for first, _ in bounds]
    n_bytes = [tuple([len(option.encode()) for option in item.options]) for item in items]
    floors = measure_floors(measure, items, choice_floors(items, tokens, n_bytes, normalisation))
    nats, nats_alone = queue.nats()
    values = _OptionValues(
        nats=_by_item(nats, bounds),
        n_tokens=tokens,
        n_bytes=n_bytes,
        unconditional_nats=_by_item(nats_alone, bounds),
        n_truncated=n_truncated,
    )
    return _measure_values(items, values, normalisation, measure, floors)


def remeasure_choices(
    items: Sequence[ChoiceItem],
    answers: Sequence[TaskAnswer],
    normalisation: Normalisation,
    measure: ChoiceMeasure,
) -> ChoiceAnswers:
    """Answers that a model gave to these items, scored by another measure: what it would answer if
    it were asked again.
    """
    values = _OptionValues(
        nats=[answer.option_nats for answer in answers],
        n_tokens=[answer.option_tokens for answer in answers],
        n_bytes=[answer.option_bytes for answer in answers],
        unconditional_nats=[answer.option_unconditional_nats for answer in answers],
        n_truncated=[answer.n_truncated_tokens for answer in answers],
    )
    accuracy_floors = choice_floors(items, values.n_tokens, values.n_bytes, normalisation)
    floors = measure_floors(measure, items, accuracy_floors)
    return _measure_values(items, values, normalisation, measure, floors)


def _measure_values(
    items: Sequence[ChoiceItem],
    values: _OptionValues,
    normalisation: Normalisation,
    measure: ChoiceMeasure,
    floors: dict[str, float],
) -> ChoiceAnswers:
    results = _choose(items, values)
    primary = results[normalisation]
    sums, counts = measure_choices(measure, primary, items, values.nats, values.n_bytes)
    chosen = primary.chosen_N.tolist()
    answers: list[TaskAnswer] = []
    for number, item in enumerate(items):
        answers.append(
            TaskAnswer(
                item=item.name,
                document=item.document,
                score=sums[number],
                count=counts[number],
                chosen=chosen[number],
                key=item.key,
                option_nats=tuple(values.nats[number]),
                option_tokens=values.n_tokens[number],
                option_bytes=values.n_bytes[number],
                n_truncated_tokens=values.n_truncated[number],
                option_unconditional_nats=tuple(values.unconditional_nats[number]),
            )
        )
    accuracy = {f"by {way}": float(own.right_N.mean()) for way, own in results.items()}
    return ChoiceAnswers(tuple(answers), accuracy, floors)


def chunk_items(items: Sequence[ChoiceItem], size: int) -> Iterator[list[int]]:
    """The numbers of items, about so many at a time; those of one context stay together, so that
    what they share is read once.
    """
    together: dict[str | int, list[int]] = {}
    for number, item in enumerate(items):
        together.setdefault(item.context or number, []).append(number)  # an empty one is not shared
    chunk: list[int] = []
    for numbers in together.values():
        if chunk and len(chunk) + len(numbers) > size:
            yield chunk
            chunk = []
        chunk.extend(numbers)
    yield chunk


class _OptionQueue:
    """Options that are scored chunk by chunk: those of one are laid out while the device is at
    work on those before it.
    """

    def __init__(
        self, asked_model: AskedModel, unconditional: str | None, max_positions: int | None
    ):
        self.n_tokens: list[int] = []  # of each option, in the order of adding
        self.n_truncated: list[int] = []  # tokens of its context
        self._model = asked_model.model
        self._arm = asked_model_arm(asked_model)
        self._max_positions = max_positions
        self._unconditional: Ids | None = None
        if unconditional is not None:
            self._unconditional = self._arm.encode_contexts([unconditional])[0]
        self._alone: dict[Ids, int] = {}  # what many items share is read once after that context
        self._alone_numbers: list[int] = []  # of each option, its number among them
        self._lengths: set[tuple[int, int]] = set()  # those where no answer is seen
        self._scores: list[tuple[int, QueuedScores]] = []  # and how many of them have a context

    def add(self, items: Sequence[ChoiceItem]) -> None:
        """Queue all options of some items."""
        targets = self._arm.encode_targets([option for item in items for option in item.options])
        contexts = self._arm.encode_contexts([item.context for item in items])
        laid: list[LaidItem] = []
        laid_alone: list[LaidItem] = []
        remaining = iter(targets)
        for item, context in zip(items, contexts, strict=True):
            for target in islice(remaining, len(item.options)):
                laid.append(lay_item(self._arm.layout, item.name, context, target))
                if self._unconditional is not None:
                    laid_alone.extend(self._lay_alone(item.name, self._unconditional, target))
        self.n_tokens.extend(map(len, targets))
        self.n_truncated.extend([one.n_truncated for one in laid])
        both = [*laid, *laid_alone]
        self._require_unseen(both)
        scores = queue_scores(self._model, self._arm.layout, both, self._max_positions)
        self._scores.append((len(laid), scores))

    def nats(self) -> tuple[list[float], list[float]]:
        """The nats of each option after its context and after the unconditional one, if there is
        one; the device is waited for.
        """
        nats: list[float] = []
        distinct: list[float] = []
        for n_laid, scores in self._scores:
            values = scores.result().nats.tolist()
            nats.extend(values[:n_laid])
            distinct.extend(values[n_laid:])
        return nats, [distinct[number] for number in self._alone_numbers]

    def _lay_alone(self, name: str, context: Ids, target: Ids) -> Iterator[LaidItem]:
        """A target after the unconditional context, unless it was laid before."""
        if target not in self._alone:
            self._alone[target] = len(self._alone)
            yield lay_item(self._arm.layout, name, context, target)
        self._alone_numbers.append(self._alone[target])

    def _require_unseen(self, laid_items: Sequence[LaidItem]) -> None:
        """SpecError where an answer is seen; one item stands for all of its lengths."""
        layout = self._arm.layout
        if layout.framing == "in place" or not looks_ahead(self._model.spec.stack.masks):
            return
        for one in laid_items:
            lengths = (len(one.inputs), len(one.target))
            if lengths in self._lengths:
                continue
            self._lengths.add(lengths)
            for problem in item_problems(layout, one):
                require_no_leak(layout.component.objective, problem, self._model.spec)


def _choose(
    items: Sequence[ChoiceItem], values: _OptionValues
) -> dict[Normalisation, ScoredOptions]:
    """By each normalisation, the scores of all options and the one that is chosen; where no item
    has a context, there is no unconditional one.
    """
    keys = np.array([item.key for item in items])
    nats_NO = padded_options(values.nats, math.inf)  # an option that is not there is never chosen
    tokens_NO = padded_options(values.n_tokens, 1.0)
    bytes_NO = padded_options(values.n_bytes, 1.0)
    ways, alone_NO = NORMALISATIONS[:-1], nats_NO
    if any(values.unconditional_nats):
        ways, alone_NO = NORMALISATIONS, padded_options(values.unconditional_nats, 0.0)
    results: dict[Normalisation, ScoredOptions] = {}
    for way in ways:
        scores = option_scores(nats_NO, tokens_NO, bytes_NO, alone_NO, way)
        right, chosen = choose_options(scores, keys)
        results[way] = ScoredOptions(scores, right, chosen)
    return results


def _bounds(items: Sequence[ChoiceItem], order: Sequence[int]) -> list[tuple[int, int]]:
    """Of each item, where its options lie among those of all items in some order."""
    bounds = [(0, 0)] * len(items)
    end = 0
    for number in order:
        first, end = end, end + len(items[number].options)
        bounds[number] = (first, end)
    return bounds


def _by_item(values: Sequence[T], bounds: Sequence[tuple[int, int]]) -> list[tuple[T, ...]]:
    return [tuple(values[first:last]) for first, last in bounds]
