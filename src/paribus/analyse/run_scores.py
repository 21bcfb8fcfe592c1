"""What a run scored, from its answers to a yardstick or task: sums over items, then one number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from paribus.analyse.judgement import score_if_trained
from paribus.analyse.score_bounds import Floor
from paribus.analyse.task_scores import CONFUSION_MEASURES, confusion_floors
from paribus.errors import RecordError
from paribus.record import Evaluation, TaskEvaluation
from paribus.record.task_answers import PARENT
from paribus.spec.measure import LIKELIHOOD, POINTS, TASK_MEASURES, Measure
from paribus.spec.yardstick import HEAD, MEASURES

Answers = Evaluation | TaskEvaluation


@dataclass(frozen=True)
class ItemTotal:
    """The answer to one item: what it adds to the sum of a score, and to its count."""

    item: str
    document: str
    total: float
    count: float


def measure_of(answers: Answers) -> Measure:
    """What the score of some answers is."""
    if isinstance(answers, Evaluation):
        return MEASURES[answers.head.yardstick["kind"]]
    return _measure_by_name(answers.head.measure)


def _measure_by_name(name: str) -> Measure:
    if name not in TASK_MEASURES:
        raise RecordError(
            f"a task was measured in {name!r}, which is not known here; known are"
            f" {', '.join(TASK_MEASURES)}"
        )
    return TASK_MEASURES[name]


def item_totals(answers: Answers) -> list[ItemTotal]:
    """Every answer as what it adds: bits and bytes of a likelihood, score and count of a task."""
    if isinstance(answers, Evaluation):
        return [
            ItemTotal(one.item, one.document or one.item, one.nats / math.log(2), one.n_bytes)
            for one in answers.answers
        ]
    scale = measure_of(answers).scale
    return [
        ItemTotal(one.item, one.document or one.item, scale * one.score, one.count)
        for one in answers.answers
    ]


def score_of(answers: Answers) -> float | None:
    """The score of a run in the unit of its measure; None where it is not a number, or a
    likelihood worse than the unigram model's: the run has learnt nothing.

    Every token of a target costs the unigram model the same whatever is in sight, so the rule holds
    of a pseudo-likelihood as of a likelihood. Older records do not say what it would have cost. A
    task has floors instead: a run at the floor is a result.
    """
    if isinstance(answers, TaskEvaluation):
        score = _task_score(answers)
        if math.isfinite(score):
            return score
        return None
    if answers.head.unigram_nats is None:
        unigram = math.inf
    else:
        unigram = answers.head.unigram_nats
    nats = score_if_trained(_nats_sum(answers), unigram, LIKELIHOOD)  # answers are in nats
    if nats is None:
        return None
    return bits_per_byte_of(answers)


def raw_score(answers: Answers) -> float:
    """The score of all answers, whatever it is worth."""
    if isinstance(answers, TaskEvaluation):
        return _task_score(answers)
    return bits_per_byte_of(answers)


def unigram_bits(answers: Answers) -> float | None:
    """Bits per byte of the unigram model on the same targets; None of a task, and in older
    records, which do not say it.
    """
    if isinstance(answers, TaskEvaluation) or answers.head.unigram_nats is None:
        return None
    return answers.head.unigram_nats / math.log(2) / _byte_count(answers)


def bits_per_byte_of(evaluation: Evaluation) -> float:
    """Bits per byte of all answers, whatever they are worth."""
    return _nats_sum(evaluation) / math.log(2) / _byte_count(evaluation)


def floor_of(answers: Answers) -> Floor | None:
    """The highest floor of a task, in the unit of its measure; None where it has none."""
    if isinstance(answers, Evaluation):
        return None
    name, floors = answers.head.measure, answers.head.floors
    if answers.head.protocol.get("kind") == HEAD and name in CONFUSION_MEASURES:
        # the floors of a head are recorded for its accuracy; those of tags are not known
        floors = {}
        if isinstance(answers.answers[0].key, int):
            floors = confusion_floors(answers.answers, name, _n_labels(answers))
    return highest_floor(measure_of(answers), floors.items())


def _n_labels(answers: TaskEvaluation) -> int:
    labels = answers.head.task.get("labels")
    if labels:
        return len(labels)
    return 1 + max(int(answer.key) for answer in answers.answers)


def highest_floor(measure: Measure, floors: Iterable[tuple[str, float]]) -> Floor | None:
    """The best of some floors as they are recorded, in the unit of the measure."""
    highest: Floor | None = None
    for name, value in floors:
        floor = Floor(name, measure.scale * value)
        if highest is None or measure.gain(highest.value, floor.value) > 0:
            highest = floor
    return highest


def parent_score(answers: Answers) -> float | None:
    """What the parent scored, in the unit of the measure; None where it was not taken off."""
    if isinstance(answers, Evaluation) or not measure_of(answers).is_difference:
        return None
    return measure_of(answers).scale * answers.head.summary[PARENT]


def reference_score(answers: Answers) -> float | None:
    """The score that needs no model: the unigram model's, or the highest floor of a task."""
    floor = floor_of(answers)
    if floor is not None:
        return floor.value
    return unigram_bits(answers)


def resolution_of(answers: Answers) -> float:
    """The smallest step of a score that counts items: what one item is worth; 0 of a likelihood."""
    measure = measure_of(answers)
    if measure.unit != POINTS:
        return 0.0
    return measure.scale / _count(answers)


def _task_score(answers: TaskEvaluation) -> float:
    """Of all answers; one that does not add up over items is in the summary of the head."""
    measure, name = measure_of(answers), answers.head.measure
    if not measure.adds_up and name not in answers.head.summary:
        raise RecordError(
            f"the answers to {answers.head.name!r} have no {name}; remove them, and the same"
            " command asks again"
        )
    return measure.scale * answers.head.summary.get(name, answers.score)


def _nats_sum(evaluation: Evaluation) -> float:
    return math.fsum(answer.nats for answer in evaluation.answers)


def _byte_count(evaluation: Evaluation) -> int:
    return sum(answer.n_bytes for answer in evaluation.answers)


def _count(answers: Answers) -> float:
    return math.fsum(one.count for one in item_totals(answers))
