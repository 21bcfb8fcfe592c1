"""Which answers of a run are those to a yardstick that a plan names, and what their column is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from paribus.analyse.run_scores import Answers
from paribus.record import Evaluation, TaskEvaluation, read_evaluations, read_task_evaluations
from paribus.spec.yardstick import TASK

YardstickTable = Mapping[str, Any]  # a yardstick as a record holds it


def column_of(yardstick: YardstickTable) -> str:
    """What a yardstick's column is called: its kind, or the name of its task, and its split."""
    if yardstick["kind"] == TASK:
        return f"{yardstick['task']['name']}.{yardstick['split']}"
    return f"{yardstick['kind']}.{yardstick['split']}"


def read_answers(
    folder: Path, yardsticks: Sequence[YardstickTable], text: str, n_steps: int
) -> dict[str, Answers]:
    """What a finished run answered to each of some yardsticks, by column; nothing of one that it
    was not asked.
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
        found = _find(yardstick, evaluations, tasks, text, n_steps)
        if found is not None:
            answers[column_of(yardstick)] = found
    return answers


def _find(
    yardstick: YardstickTable,
    evaluations: Iterable[Evaluation],
    tasks: Iterable[TaskEvaluation],
    text: str,
    n_steps: int,
) -> Answers | None:
    if yardstick["kind"] != TASK:
        for one in evaluations:
            if is_evaluation_of(one, yardstick, text, n_steps):
                return one
        return None
    for one in tasks:
        if is_task_evaluation_of(one, yardstick, text, n_steps):
            return _in_measure(one, yardstick["measure"])
    return None


def is_evaluation_of(
    evaluation: Evaluation, yardstick: YardstickTable, text: str, n_steps: int
) -> bool:
    """Are these a finished run's answers to this yardstick on this text? Others may lie beside
    them.
    """
    head = evaluation.head
    return head.yardstick == yardstick and head.text == text and head.step == n_steps - 1


def is_task_evaluation_of(
    evaluation: TaskEvaluation, yardstick: YardstickTable, text: str, n_steps: int
) -> bool:
    """Are these a finished run's answers to this task, asked by this protocol?"""
    head = evaluation.head
    is_same_question = head.task == yardstick["task"] and head.protocol == yardstick["protocol"]
    return is_same_question and head.text in ("", text) and head.step == n_steps - 1


def _in_measure(evaluation: TaskEvaluation, measure: str) -> TaskEvaluation:
    """Answers whose score is by the measure that a design names."""
    if measure == evaluation.head.measure:
        return evaluation
    return replace(evaluation, head=replace(evaluation.head, measure=measure))
