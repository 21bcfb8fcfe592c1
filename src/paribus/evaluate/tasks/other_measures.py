"""One task asked by several measures: a model answers it once, and its answers are scored by each.

Answers are kept with all that any measure of their kind needs. So a task that differs from one that
was asked in its measure alone has the answers that it would have if it were asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from paribus.analyse.task_scores import CONFUSION_MEASURES, label_measures
from paribus.corpus.tasks import ChoiceItem, GenerationItem
from paribus.evaluate.tasks.choices import ChoiceAnswers, remeasure_choices
from paribus.evaluate.tasks.floors import label_floors
from paribus.evaluate.tasks.generation import (
    BITS_PER_BYTE,
    GenerationAnswers,
    remeasure_generation,
)
from paribus.evaluate.tasks.protocols import AskedItem
from paribus.record import TaskAnswer, TaskEvaluation
from paribus.spec.tasks import (
    CHOICE_ACCURACY,
    ChoiceMeasure,
    ChoicesTask,
    GenerationMeasure,
    GenerationTask,
    LabelMeasure,
    LabelsTask,
    TagsTask,
    Task,
)


@dataclass(frozen=True)
class MeasuredAnswers:
    """Answers to all items by the measure of their task, other scores of them, and the floors."""

    answers: tuple[TaskAnswer, ...]
    measure: str
    summary: dict[str, float]
    floors: dict[str, float]


def measured_generation(task: GenerationTask, result: GenerationAnswers) -> MeasuredAnswers:
    """What generation scores by the measure of a task."""
    return MeasuredAnswers(result.answers, task.measure, result.summary, result.floors)


def measured_choices(
    task: ChoicesTask | LabelsTask, items: Sequence[ChoiceItem], result: ChoiceAnswers
) -> MeasuredAnswers:
    """What choices score by the measure of a task; labels have measures of all answers at once."""
    summary, floors = dict(result.accuracy), result.floors
    if isinstance(task, LabelsTask):
        summary |= label_measures(result.answers, len(task.labels))
        floors = _label_floors(task, items, result)
    return MeasuredAnswers(result.answers, task.measure, summary, floors)


def answer_measure(task: ChoicesTask | LabelsTask) -> ChoiceMeasure:
    """What a single answer to a task is scored by; labels are right or wrong."""
    return task.measure if isinstance(task, ChoicesTask) else CHOICE_ACCURACY


def tasks_by_other_measures(task: Task) -> Iterator[Task]:
    """The tasks that differ from this one in their measure alone, and whose answers have all that
    its own measure needs.
    """
    measures: tuple[str, ...] = ()
    match task:
        case ChoicesTask():
            measures = get_args(ChoiceMeasure)
        case LabelsTask():
            measures = get_args(LabelMeasure)
        case GenerationTask():
            measures = get_args(GenerationMeasure)
        case TagsTask():
            pass  # tags have one measure
    for measure in measures:
        has_texts = not isinstance(task, GenerationTask) or measure != BITS_PER_BYTE
        if measure != task.measure and has_texts:
            yield task.model_copy(update={"measure": measure})


def score_again(previous: TaskEvaluation, task: Task, items: Sequence[AskedItem]) -> TaskEvaluation:
    """The answers to a task by another measure, scored by that of this one. What is known of an
    item besides its scores stays.
    """
    if isinstance(task, GenerationTask):
        generated = [item for item in items if isinstance(item, GenerationItem)]
        result = measured_generation(task, remeasure_generation(task, generated, previous.answers))
    else:
        assert isinstance(task, ChoicesTask | LabelsTask)
        choices = [item for item in items if isinstance(item, ChoiceItem)]
        choice_answers = remeasure_choices(
            choices, previous.answers, task.normalisation, answer_measure(task)
        )
        result = measured_choices(task, choices, choice_answers)
    answers: list[TaskAnswer] = []
    for own, before in zip(result.answers, previous.answers, strict=True):
        answers.append(replace(before, score=own.score, count=own.count, chosen=own.chosen))
    head = replace(
        previous.head,
        task=task.model_dump(mode="json"),
        measure=result.measure,
        floors=result.floors,
        summary=result.summary,
    )
    return TaskEvaluation(head, tuple(answers))


def _label_floors(
    task: LabelsTask, items: Sequence[ChoiceItem], result: ChoiceAnswers
) -> dict[str, float]:
    """The floors by the task's own measure."""
    if task.measure not in CONFUSION_MEASURES:
        return result.floors
    tokens = [answer.option_tokens for answer in result.answers]
    n_bytes = [answer.option_bytes for answer in result.answers]
    measure = CONFUSION_MEASURES[task.measure]
    return label_floors(items, tokens, n_bytes, task.normalisation, measure)
