"""Which answers of a run are those to a yardstick that a plan names, and what their column is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paribus.analyse.run_scores import Answers
from paribus.record import Evaluation, TaskEvaluation, read_evaluations, read_task_evaluations
from paribus.spec.yardstick import TASK, table_measure

YardstickTable = Mapping[str, Any]  # a yardstick as a record holds it


def column_of(yardstick: YardstickTable) -> str:
    """What a yardstick's column is called: its kind, or the name of its task, and its split."""
    if yardstick["kind"] == TASK:
        return f"{yardstick['task']['name']}.{yardstick['split']}"
    return f"{yardstick['kind']}.{yardstick['split']}"


def read_answers(
    folder: Path,
    yardsticks: Sequence[YardstickTable],
    text: str,
    n_steps: int,
    items: Mapping[str, str] | None = None,
) -> dict[str, Answers]:
    """What a finished run answered to each of some yardsticks, by column; nothing of one that it
    was not asked.

    `items` are the fingerprints of the items of each task, by column, as the plan has frozen them:
    answers to others are no answers to it.
    """
    kinds = {yardstick["kind"] == TASK for yardstick in yardsticks}
    evaluations: list[Evaluation] = []
    tasks: list[TaskEvaluation] = []
    if False in kinds:
        evaluations.extend(read_evaluations(folder))
    if True in kinds:
        tasks.extend(read_task_evaluations(folder))
    answers: dict[str, Answers] = {}
    for yardstick in yardsticks:
        column = column_of(yardstick)
        if yardstick["kind"] == TASK:
            found = _find_task(tasks, yardstick, (items or {}).get(column), n_steps)
        else:
            found = _find_evaluation(evaluations, yardstick, text, n_steps)
        if found is not None:
            answers[column] = found
    return answers


def _find_evaluation(
    evaluations: Iterable[Evaluation], yardstick: YardstickTable, text: str, n_steps: int
) -> Evaluation | None:
    for one in evaluations:
        if is_evaluation_of(one, yardstick, text, n_steps):
            return one
    return None


def _find_task(
    evaluations: Iterable[TaskEvaluation],
    yardstick: YardstickTable,
    items: str | None,
    n_steps: int,
) -> TaskEvaluation | None:
    for one in evaluations:
        head = one.head
        is_same_question = head.items == items and head.protocol == yardstick["protocol"]
        is_same_measure = head.measure == table_measure(yardstick).kind
        if is_same_question and is_same_measure and head.step == n_steps - 1:
            return one
    return None


def is_evaluation_of(
    evaluation: Evaluation, yardstick: YardstickTable, text: str, n_steps: int
) -> bool:
    """Are these a finished run's answers to this yardstick on this text? Others may lie beside
    them.
    """
    head = evaluation.head
    return head.yardstick == yardstick and head.text == text and head.step == n_steps - 1
