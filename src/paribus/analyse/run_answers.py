"""Which answers of a run are those to a yardstick that a plan names, and what their column is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from paribus.analyse.run_scores import Answers
from paribus.record import Evaluation, TaskEvaluation, read_evaluations, read_task_evaluations
from paribus.record.address import without_places
from paribus.record.task_answers import PARENT
from paribus.spec.yardstick import HEAD, PROBE, TASK
from paribus.spec.yardstick import column_of as column_of

YardstickTable = Mapping[str, Any]  # a yardstick as a record holds it


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
    are_tasks = {yardstick["kind"] in (TASK, HEAD, PROBE) for yardstick in yardsticks}
    evaluations: list[Evaluation] = []
    tasks: list[TaskEvaluation] = []
    if False in are_tasks:
        evaluations.extend(read_evaluations(folder))
    if True in are_tasks:
        tasks.extend(read_task_evaluations(folder))
    answers: dict[str, Answers] = {}
    for yardstick in yardsticks:
        column = column_of(yardstick)
        if yardstick["kind"] == TASK:
            found = _find_task(tasks, yardstick, (items or {}).get(column), n_steps)
        elif yardstick["kind"] == HEAD:
            found = _find_head(tasks, yardstick, text, n_steps)
        elif yardstick["kind"] == PROBE:
            found = _find_probe(tasks, yardstick, text, n_steps)
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
    """The answers to the items that the plan has frozen, asked by the protocol of the yardstick."""
    for one in evaluations:
        head = one.head
        is_same_task = without_places({"task": head.task}) == without_places(
            {"task": yardstick["task"]}
        )
        # a record also has what the protocol came to
        is_same_protocol = yardstick["protocol"].items() <= head.protocol.items()
        is_difference = PARENT in head.protocol
        is_same_score = is_difference == bool(yardstick.get("minus_parent"))
        is_asked = head.items == items and is_same_task and is_same_protocol and is_same_score
        if is_asked and head.step == n_steps - 1:
            return one
    return None


def _find_head(
    evaluations: Iterable[TaskEvaluation], yardstick: YardstickTable, text: str, n_steps: int
) -> TaskEvaluation | None:
    """The answers of a fine-tuned head to held-out texts of its own corpus."""
    for one in evaluations:
        head = one.head
        is_head = head.protocol.get("kind") == HEAD and head.task.get("split") == yardstick["split"]
        if is_head and head.text == text and head.step == n_steps - 1:
            return replace(one, head=replace(head, measure=yardstick["measure"]))
    return None


def _find_probe(
    evaluations: Iterable[TaskEvaluation], yardstick: YardstickTable, text: str, n_steps: int
) -> TaskEvaluation | None:
    """What a probe found on held-out documents of the run's own corpus."""
    for one in evaluations:
        is_probe = one.head.protocol.get("kind") == PROBE and one.head.task == yardstick
        if is_probe and one.head.text == text and one.head.step == n_steps - 1:
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
