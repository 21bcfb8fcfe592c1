"""Tasks that a fine-tuned head answers: the labels of texts, and the tags of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace

import torch

from paribus.analyse.tag_spans import document_span_counts, span_f1
from paribus.analyse.task_scores import (
    CONFUSION_MEASURES,
    SPAN_F1,
    confusion_floors,
    label_measures,
)
from paribus.canonical import canonical_hash
from paribus.corpus.tasks import LabelItem, TagItem, labelled_items, tagged_items
from paribus.errors import SpecError
from paribus.evaluate.head_answers import (
    HEAD_PROTOCOL,
    answer_items,
    head_floors,
    head_weights,
    load_labeller,
)
from paribus.evaluate.label_answers import label_scores
from paribus.evaluate.tasks.subject import AskedTask, TaskSubject, ask_once, with_overlap
from paribus.record import TaskAnswer, TaskEvaluation, TaskHead, current_environment
from paribus.record.task_answers import TAG_SEPARATOR
from paribus.runtime import cudnn_version
from paribus.spec.tasks import LabelsTask, Protocol, TagsTask, Task, ZeroShot

HEAD_LABEL = "fine-tuned head"


def is_asked_by_head(subject: TaskSubject, task: Task, protocol: Protocol) -> bool:
    """Whether a trained head answers: labels where the subject has one, tags always.

    SpecError where it is asked for and cannot be.
    """
    if isinstance(task, TagsTask) and not subject.has_head:
        raise SpecError(
            f"task {task.name} is of kind 'tags', which only a trained head answers, and"
            f" {subject.checkpoint.folder} has none; fine-tune a model for it, or ask another kind"
            " of task"
        )
    if not subject.has_head or not isinstance(task, LabelsTask | TagsTask):
        return False
    if not isinstance(protocol, ZeroShot):
        raise SpecError(
            f"task {task.name} is answered by a trained head, which reads no demonstrations; leave"
            " them out"
        )
    return True


def evaluate_by_head(
    subject: TaskSubject, task: LabelsTask | TagsTask, device: torch.device
) -> TaskEvaluation:
    """The answers of a subject's head; those there are already are read.

    What does not fit its window is cut, and counted.
    """
    items = _items(task)
    asked = AskedTask(
        task=task.model_dump(mode="json"),
        protocol=dict(HEAD_PROTOCOL),
        items=canonical_hash([asdict(item) for item in items]),
        weights=head_weights(subject.checkpoint.folder),
    )
    return ask_once(subject, asked, lambda: _ask(subject, task, items, asked, device))


def _items(task: LabelsTask | TagsTask) -> tuple[LabelItem, ...] | tuple[TagItem, ...]:
    if isinstance(task, TagsTask):
        return tagged_items(task)
    return labelled_items(task)


def _ask(
    subject: TaskSubject,
    task: LabelsTask | TagsTask,
    items: tuple[LabelItem, ...] | tuple[TagItem, ...],
    asked: AskedTask,
    device: torch.device,
) -> TaskEvaluation:
    labeller = load_labeller(subject.checkpoint, device)
    answers = with_overlap(subject, items, answer_items(labeller, items, task.labels))
    head = TaskHead(
        task=asked.task,
        name=task.name,
        measure=task.measure,
        label=HEAD_LABEL,
        protocol=asked.protocol,
        component={},
        step=0,
        weights="",
        window=labeller.asked_model.window or 0,
        items=asked.items,
        n_items=len(answers),
        n_truncated=sum(answer.n_truncated_tokens > 0 for answer in answers),
        n_left_out=0,
        text=subject.texts[-1].fingerprint if subject.texts else "",
        floors=_floors(task, answers),
        summary=_summary(task, answers),
        environment=current_environment(
            torch.get_num_threads(), device.type, cudnn_version(device)
        ),
    )
    return TaskEvaluation(head, answers)


def _summary(task: LabelsTask | TagsTask, answers: Sequence[TaskAnswer]) -> dict[str, float]:
    """What does not add up over items; accuracy does. Labels are measured as they are in words."""
    if isinstance(task, LabelsTask):
        return label_measures(answers, len(task.labels))
    scores = label_scores(answers)
    summary = {"matthews": scores.matthews, "macro f1": scores.macro_f1}
    if task.measure == SPAN_F1:
        summary[SPAN_F1] = _span_f1(answers)
    return summary


def _floors(task: LabelsTask | TagsTask, answers: Sequence[TaskAnswer]) -> dict[str, float]:
    """What needs no model, by the measure of the task; a guess has no F1 of spans here."""
    if task.measure in CONFUSION_MEASURES:
        return confusion_floors(answers, task.measure, len(task.labels))
    if task.measure == SPAN_F1:
        return {"majority": _span_f1(_always_most_frequent(answers))}
    return head_floors(answers, len(task.labels))


def _always_most_frequent(answers: Sequence[TaskAnswer]) -> list[TaskAnswer]:
    counts = Counter[str]()
    for answer in answers:
        counts.update(str(answer.key).split(TAG_SEPARATOR))
    ((most_frequent, _),) = counts.most_common(1)
    result: list[TaskAnswer] = []
    for answer in answers:
        n_words = len(str(answer.key).split(TAG_SEPARATOR))
        result.append(replace(answer, chosen=TAG_SEPARATOR.join([most_frequent] * n_words)))
    return result


def _span_f1(answers: Sequence[TaskAnswer]) -> float:
    return float(span_f1(document_span_counts(answers).sum(0)))
