"""What the last stage of a run has changed: its scores minus those of its parent, item by item."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from paribus.errors import RecordError
from paribus.evaluate.tasks.run import PreparedTask, ask_prepared
from paribus.evaluate.tasks.subject import TaskSubject, weights_digest
from paribus.record import (
    TaskAnswer,
    TaskEvaluation,
    read_task_evaluation,
    require_unchanged_task_evaluation,
    task_evaluation_path,
    write_task_evaluation,
)
from paribus.record.task_answers import PARENT
from paribus.spec.measure import TASK_MEASURES, minus_parent

OWN = "own"  # in the summary: the score of the run itself


def evaluate_minus_parent(
    folder: Path,
    evaluation: TaskEvaluation,
    parent: TaskSubject,
    prepared: PreparedTask,
    device: torch.device,
) -> TaskEvaluation:
    """A run's answers with the scores of its parent taken off, kept with the run; those there are
    already are read.

    The parent's own answers are not kept: runs that share a parent may be measured at once.
    """
    protocol = prepared.protocol.model_dump(mode="json")
    path = task_evaluation_path(
        folder,
        prepared.task.model_dump(mode="json"),
        {**protocol, "minus": PARENT},
        prepared.fingerprint,
    )
    weights = weights_digest(parent)
    if path.exists():
        require_unchanged_task_evaluation(path)
        previous = read_task_evaluation(path).head
        if (previous.weights, previous.protocol.get(PARENT)) == (evaluation.head.weights, weights):
            return read_task_evaluation(path)
    difference = difference_of(evaluation, ask_prepared(parent, prepared, device), weights)
    write_task_evaluation(path, difference)
    return difference


def difference_of(
    evaluation: TaskEvaluation, parent: TaskEvaluation, parent_weights: str
) -> TaskEvaluation:
    """Each answer's score minus that of the parent's answer to the same item.

    The floor is the parent itself, whose difference is 0. Both scores are in the summary.
    """
    before = {answer.item: answer for answer in parent.answers}
    answers: list[TaskAnswer] = []
    for answer in evaluation.answers:
        other = before.pop(answer.item, None)
        if other is None or other.count != answer.count:
            raise RecordError(
                f"the parent was not asked {answer.item!r} as the run was; remove the answers of"
                " both, and the same command asks again"
            )
        answers.append(replace(answer, score=answer.score - other.score))
    head = evaluation.head
    head = replace(
        head,
        measure=minus_parent(TASK_MEASURES[head.measure]).kind,
        protocol={**head.protocol, PARENT: parent_weights},
        floors={PARENT: 0.0},
        summary={OWN: evaluation.score, PARENT: parent.score},
    )
    return TaskEvaluation(head, tuple(answers))
