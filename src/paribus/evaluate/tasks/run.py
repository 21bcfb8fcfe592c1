"""Tasks asked of checkpoints: all of them the same items, one record each, kept beside the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from paribus.analyse.task_scores import (
    CONFUSION_MEASURES,
    confusion_matrix,
)
from paribus.canonical import canonical_hash
from paribus.corpus import TokenisedCorpus
from paribus.corpus.tasks import (
    ChoiceItem,
    GenerationItem,
    choice_items,
    generation_items,
)
from paribus.corpus.tasks.items import iterate_texts
from paribus.errors import SpecError
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks.arms import TaskArm, task_arm
from paribus.evaluate.tasks.choices import ChoiceAnswers, ask_choices
from paribus.evaluate.tasks.floors import label_floors
from paribus.evaluate.tasks.generation import ask_generation
from paribus.evaluate.tasks.overlap import overlapping_items
from paribus.evaluate.tasks.protocols import AskedItem, PreparedItems, prepare_items
from paribus.interop.loaded_checkpoint import LoadedCheckpoint
from paribus.record import (
    CHECKPOINTS,
    TaskAnswer,
    TaskEvaluation,
    TaskHead,
    current_environment,
    latest_checkpoint,
    read_task_evaluation,
    require_unchanged_task_evaluation,
    task_evaluation_path,
    verify_checkpoint,
    write_task_evaluation,
)
from paribus.record.disk import file_sha256
from paribus.record.file_names import WEIGHTS_FILE
from paribus.runtime import cudnn_version
from paribus.spec.tasks import (
    ChoicesTask,
    FewShot,
    GenerationTask,
    LabelsTask,
    Protocol,
    TagsTask,
    Task,
    TaskSplit,
    ZeroShot,
)

GENERATION = "generation"  # the label of what is no likelihood


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


@dataclass(frozen=True, eq=False)
class PreparedTask:
    """A task with its items as every subject is asked them."""

    task: Task
    protocol: Protocol
    originals: tuple[AskedItem, ...]  # without demonstrations, those that are asked
    prepared: PreparedItems

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of the items as they are asked: arms with equal ones answered the same."""
        return canonical_hash([vars(item) for item in self.prepared.items])


def prepare_task(task: Task, protocol: Protocol, subjects: Sequence[TaskSubject]) -> PreparedTask:
    """The items of a task, such that each fits every subject."""
    arms = [subject.arm() for subject in subjects]
    return prepare_for_arms(task, protocol, arms, _text_of_all(task, subjects))


def prepare_for_arms(
    task: Task,
    protocol: Protocol,
    arms: Sequence[TaskArm],
    dataset: TokenisedCorpus | None = None,
    split: TaskSplit = "test",
) -> PreparedTask:
    """The items of a split, such that each fits every arm, known before any of them is trained.

    `dataset` is the text that a task without files takes its items from.
    """
    items = task_items(task, split, dataset)
    demonstrations: tuple[AskedItem, ...] = ()
    if isinstance(protocol, FewShot):
        demonstrations = task_items(task, "train", dataset)
    prepared = prepare_items(task, items, demonstrations, arms, protocol)
    asked = {item.name for item in prepared.items}
    originals = tuple(item for item in items if item.name in asked)
    return PreparedTask(task=task, protocol=protocol, originals=originals, prepared=prepared)


def task_items(
    task: Task, split: TaskSplit, dataset: TokenisedCorpus | None = None
) -> tuple[AskedItem, ...]:
    """The items of a split as they are asked in words; tags cannot be."""
    match task:
        case ChoicesTask() | LabelsTask():
            return choice_items(task, split, dataset)
        case GenerationTask():
            return generation_items(task, split, dataset)
        case TagsTask():
            raise SpecError(
                f"task {task.name} is of kind 'tags', which only a trained head answers; fine-tune"
                " a model for it, or ask another kind of task"
            )


def evaluate_task(
    subjects: Sequence[TaskSubject],
    task: Task,
    protocol: Protocol | None = None,
    *,
    device: torch.device,
    max_positions: int | None = None,
) -> tuple[TaskEvaluation, ...]:
    """The answers of each subject to the same items; those there are already are read.

    Those of a run's newest checkpoint are kept with the run, those of one that lies by itself
    beside it. Those of an earlier checkpoint of a run are not kept.
    """
    prepared = prepare_task(task, protocol or ZeroShot(), subjects)
    evaluations: list[TaskEvaluation] = []
    for subject in subjects:
        evaluations.append(evaluate_prepared(subject, prepared, device, max_positions))
    return tuple(evaluations)


def evaluate_prepared(
    subject: TaskSubject,
    prepared: PreparedTask,
    device: torch.device,
    max_positions: int | None = None,
) -> TaskEvaluation:
    """The answers of one subject to items that were made to fit others too."""
    weights = weights_digest(subject)
    folder, step = _place_and_step(subject.checkpoint)
    path = None
    if folder is not None:
        path = task_evaluation_path(
            folder,
            prepared.task.model_dump(mode="json"),
            prepared.protocol.model_dump(mode="json"),
            prepared.fingerprint,
        )
        if path.exists():
            require_unchanged_task_evaluation(path)
            previous = read_task_evaluation(path)
            if previous.head.weights == weights:
                return previous
    evaluation = ask_prepared(subject, prepared, device, max_positions)
    head = replace(evaluation.head, weights=weights, step=step)
    evaluation = TaskEvaluation(head, evaluation.answers)
    if path is not None:
        write_task_evaluation(path, evaluation)
    return evaluation


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


def ask_prepared(
    subject: TaskSubject,
    prepared: PreparedTask,
    device: torch.device,
    max_positions: int | None = None,
) -> TaskEvaluation:
    """The answers of one subject, which are not kept; the head does not say whose they are."""
    checkpoint, task, items = subject.checkpoint, prepared.task, prepared.prepared.items
    # Batches differ in length: what would have to be compiled anew for each is not used.
    kernel = "masked" if device.type == "cuda" else "auto"
    asked_model = AskedModel(
        model=checkpoint.restore(device, kernel=kernel),
        objective=checkpoint.objective(),
        tokenizer=checkpoint.tokenizer,
        vocabulary=checkpoint.vocabulary,
        window=subject.window,
        in_turns=checkpoint.chat_template is not None,
    )
    arm = subject.arm()
    if isinstance(task, GenerationTask):
        generated = [item for item in items if isinstance(item, GenerationItem)]
        result = ask_generation(asked_model, task, generated)
        measure, label, summary = task.measure, GENERATION, result.summary
        floors = result.floors
    else:
        assert isinstance(task, ChoicesTask | LabelsTask)
        choices = [item for item in items if isinstance(item, ChoiceItem)]
        result = ask_choices(
            asked_model,
            choices,
            task.normalisation,
            task.unconditional,
            max_positions=max_positions,
        )
        measure, label, summary = "accuracy", arm.label, dict(result.accuracy)
        floors = result.floors
        if isinstance(task, LabelsTask):
            measure = task.measure
            summary |= _label_measures(result.answers, len(task.labels))
            floors = _label_floors(task, choices, result)
    answers = _with_overlap(subject, prepared, _with_truncation(arm, prepared, result.answers))
    head = TaskHead(
        task=task.model_dump(mode="json"),
        name=task.name,
        measure=measure,
        label=label,
        protocol=_protocol_table(prepared),
        component=arm.layout.component.model_dump(mode="json"),
        step=0,
        weights="",
        window=subject.window,
        items=prepared.fingerprint,
        n_items=len(answers),
        n_truncated=sum(n > 0 for n in prepared.prepared.n_truncated_bytes),
        n_left_out=prepared.prepared.n_left_out,
        text=subject.texts[-1].fingerprint if subject.texts else "",
        floors=floors,
        summary=summary,
        environment=current_environment(
            torch.get_num_threads(), device.type, cudnn_version(device)
        ),
    )
    return TaskEvaluation(head, answers)


def _protocol_table(prepared: PreparedTask) -> dict[str, object]:
    """The protocol, and how many demonstrations an item had."""
    table = prepared.protocol.model_dump(mode="json")
    if isinstance(prepared.protocol, FewShot):
        counts = prepared.prepared.n_demonstrations
        table["fewest"], table["most"] = min(counts), max(counts)
    return table


def _label_measures(answers: Sequence[TaskAnswer], n_labels: int) -> dict[str, float]:
    confusion = confusion_matrix(answers, n_labels)
    return {name: float(measure(confusion)) for name, measure in CONFUSION_MEASURES.items()}


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


def _with_truncation(
    arm: TaskArm, prepared: PreparedTask, answers: Sequence[TaskAnswer]
) -> list[TaskAnswer]:
    """Answers with the tokens that a context lost before it was laid."""
    result: list[TaskAnswer] = []
    lost = prepared.prepared.n_truncated_bytes
    for answer, n_bytes, item in zip(answers, lost, prepared.originals, strict=True):
        if not n_bytes:
            result.append(answer)
            continue
        context = item.context if isinstance(item, ChoiceItem) else item.source
        cut = context.encode()[:n_bytes].decode(errors="ignore")
        n_tokens = answer.n_truncated_tokens + len(arm.encode([cut])[0])
        result.append(replace(answer, n_truncated_tokens=n_tokens))
    return result


def _with_overlap(
    subject: TaskSubject, prepared: PreparedTask, answers: Sequence[TaskAnswer]
) -> tuple[TaskAnswer, ...]:
    """Answers that say whether their item shares 13 words in a row with the training text."""
    if not subject.texts:
        return tuple(answers)
    overlaps = overlapping_items(subject.texts, list(iterate_texts(prepared.originals)))
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


def _text_of_all(task: Task, subjects: Sequence[TaskSubject]) -> TokenisedCorpus | None:
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
