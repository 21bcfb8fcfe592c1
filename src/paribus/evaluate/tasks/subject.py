"""Checkpoints that are asked tasks, and where their answers are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from paribus.corpus import TokenisedCorpus
from paribus.corpus.tasks.items import TaskItem, iterate_texts
from paribus.errors import SpecError
from paribus.evaluate.tasks.arms import TaskArm, task_arm
from paribus.evaluate.tasks.overlap import overlapping_items
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.record import (
    CHECKPOINTS,
    TaskAnswer,
    TaskEvaluation,
    latest_checkpoint,
    read_task_evaluation,
    require_unchanged_task_evaluation,
    task_evaluation_path,
    verify_checkpoint,
    write_task_evaluation,
)
from paribus.record.disk import file_sha256
from paribus.record.file_names import LABEL_HEAD_FILE, WEIGHTS_FILE
from paribus.spec.tasks import Task


@dataclass(frozen=True, eq=False)
class TaskSubject:
    """A checkpoint that is asked, and the text it was trained on, stage by stage, as far as it is
    known.
    """

    checkpoint: LoadedCheckpoint
    texts: tuple[TokenisedCorpus, ...] = ()

    @property
    def window(self) -> int:
        """Positions of a row: no more than it was trained on."""
        most = self.checkpoint.spec.max_length
        if self.checkpoint.stage is None:
            return most
        return min(self.checkpoint.stage.training.length, most)

    @property
    def has_head(self) -> bool:
        """Whether it was fine-tuned with a head."""
        return (self.checkpoint.folder / LABEL_HEAD_FILE).exists()

    def arm(self) -> TaskArm:
        """How the checkpoint is asked, known without its weights."""
        return task_arm(
            self.checkpoint.spec,
            self.checkpoint.objective(),
            self.checkpoint.tokenizer,
            self.checkpoint.vocabulary,
            self.window,
            self.checkpoint.chat_template is not None,
        )


@dataclass(frozen=True)
class AskedTask:
    """What answers are kept by: the task, how it is asked, the sha256 of its items and that of the
    weights.
    """

    task: dict[str, Any]
    protocol: dict[str, Any]
    items: str
    weights: str


def ask_once(
    subject: TaskSubject, asked_task: AskedTask, ask: Callable[[], TaskEvaluation]
) -> TaskEvaluation:
    """The answers that are kept, or those that are asked for now, which are kept then."""
    folder, step = _place_and_step(subject.checkpoint)
    previous = _read_answers(folder, asked_task)
    if previous is not None:
        return previous
    evaluation = ask()
    head = replace(evaluation.head, weights=asked_task.weights, step=step)
    evaluation = TaskEvaluation(head, evaluation.answers)
    if folder is not None:
        path = task_evaluation_path(folder, asked_task.task, asked_task.protocol, asked_task.items)
        write_task_evaluation(path, evaluation)
    return evaluation


def read_kept_answers(
    subject: TaskSubject, asked_tasks: Iterable[AskedTask]
) -> TaskEvaluation | None:
    """The answers that are kept to the first of some tasks that was asked; None if none was."""
    folder, _ = _place_and_step(subject.checkpoint)
    for asked_task in asked_tasks:
        answers = _read_answers(folder, asked_task)
        if answers is not None:
            return answers
    return None


def _read_answers(folder: Path | None, asked_task: AskedTask) -> TaskEvaluation | None:
    """The answers in a folder, if there are any of these weights."""
    if folder is None:
        return None
    path = task_evaluation_path(folder, asked_task.task, asked_task.protocol, asked_task.items)
    if not path.exists():
        return None
    require_unchanged_task_evaluation(path)
    previous = read_task_evaluation(path)
    if previous.head.weights != asked_task.weights:
        return None
    return previous


def weights_digest(subject: TaskSubject) -> str:
    """The sha256 of a checkpoint's weights."""
    return file_sha256(subject.checkpoint.folder / WEIGHTS_FILE)


def _place_and_step(checkpoint: LoadedCheckpoint) -> tuple[Path | None, int]:
    """Where answers are kept, None if they are not, and the step of the checkpoint."""
    if checkpoint.run is None:
        return checkpoint.folder, 0
    step = verify_checkpoint(checkpoint.folder).step
    newest = latest_checkpoint(checkpoint.run / CHECKPOINTS).checkpoint
    if newest is not None and newest.folder.samefile(checkpoint.folder):
        return checkpoint.run, step
    return None, step


def with_overlap(
    subject: TaskSubject, items: Sequence[TaskItem], answers: Sequence[TaskAnswer]
) -> tuple[TaskAnswer, ...]:
    """Answers that say whether their item shares 13 words in a row with the training text."""
    if not subject.texts:
        return tuple(answers)
    overlaps = overlapping_items(subject.texts, list(iterate_texts(items)))
    result: list[TaskAnswer] = []
    for answer, one in zip(answers, overlaps, strict=True):
        result.append(replace(answer, overlaps=one))
    return tuple(result)


def overlap_share(evaluation: TaskEvaluation) -> float | None:
    """The share of items that overlap with the training text; None where that is not known."""
    known = [answer.overlaps for answer in evaluation.answers if answer.overlaps is not None]
    if not known:
        return None
    return float(np.mean(known))


def text_of_all(task: Task, subjects: Sequence[TaskSubject]) -> TokenisedCorpus | None:
    """The text that a task without files takes its items from: all subjects must have read the
    same.
    """
    if task.paths is not None or task.language is not None:
        return None
    texts = [subject.texts[-1] for subject in subjects if subject.texts]
    if len(texts) < len(subjects):
        raise SpecError(
            f"task {task.name} takes its items from the text of a run, and a checkpoint has none;"
            " ask runs, or a task with files"
        )
    first = texts[0].spec
    for text in texts[1:]:
        other = (text.spec.sources, text.spec.valid, text.spec.test)
        if other != (first.sources, first.valid, first.test):
            raise SpecError(
                f"task {task.name} takes its items from the text of the runs, which read different"
                " texts; ask runs with one corpus together"
            )
    return texts[0]
