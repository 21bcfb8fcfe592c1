"""Tasks asked of checkpoints: all of them the same items, one record each, kept beside the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from paribus.canonical import canonical_hash
from paribus.corpus import TokenisedCorpus
from paribus.corpus.tasks import (
    ChoiceItem,
    GenerationItem,
    choice_items,
    generation_items,
)
from paribus.errors import SpecError
from paribus.evaluate.likelihood import AskedModel
from paribus.evaluate.tasks.arms import TaskArm
from paribus.evaluate.tasks.by_head import evaluate_by_head, is_asked_by_head
from paribus.evaluate.tasks.choices import ask_choices
from paribus.evaluate.tasks.generation import ask_generation
from paribus.evaluate.tasks.other_measures import (
    answer_measure,
    measured_choices,
    measured_generation,
    score_again,
    tasks_by_other_measures,
)
from paribus.evaluate.tasks.protocols import AskedItem, PreparedItems, prepare_items
from paribus.evaluate.tasks.subject import (
    AskedTask,
    TaskSubject,
    ask_once,
    read_kept_answers,
    text_of_all,
    weights_digest,
    with_overlap,
)
from paribus.record import (
    TaskAnswer,
    TaskEvaluation,
    TaskHead,
    current_environment,
)
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
    return prepare_for_arms(task, protocol, arms, text_of_all(task, subjects))


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

    Labels and tags are asked of a trained head where a subject has one. Answers of
    a run's newest checkpoint are kept with the run, those of one that lies by itself beside it.
    Those of an earlier checkpoint of a run are not kept.
    """
    protocol = protocol or ZeroShot()
    by_head = [subject for subject in subjects if is_asked_by_head(subject, task, protocol)]
    in_words = [subject for subject in subjects if subject not in by_head]
    prepared = prepare_task(task, protocol, in_words) if in_words else None
    evaluations: list[TaskEvaluation] = []
    for subject in subjects:
        if subject in by_head:
            assert isinstance(task, LabelsTask | TagsTask)
            evaluations.append(evaluate_by_head(subject, task, device))
        else:
            assert prepared is not None
            evaluations.append(evaluate_prepared(subject, prepared, device, max_positions))
    return tuple(evaluations)


def evaluate_prepared(
    subject: TaskSubject,
    prepared: PreparedTask,
    device: torch.device,
    max_positions: int | None = None,
) -> TaskEvaluation:
    """The answers of one subject to items that were made to fit others too. Where it has answered
    them by another measure, it is not asked again.
    """
    asked = AskedTask(
        task=prepared.task.model_dump(mode="json"),
        protocol=prepared.protocol.model_dump(mode="json"),
        items=prepared.fingerprint,
        weights=weights_digest(subject),
    )

    def ask() -> TaskEvaluation:
        others: list[AskedTask] = []
        for other in tasks_by_other_measures(prepared.task):
            others.append(replace(asked, task=other.model_dump(mode="json")))
        previous = read_kept_answers(subject, others)
        if previous is not None:
            return score_again(previous, prepared.task, prepared.prepared.items)
        return ask_prepared(subject, prepared, device, max_positions)

    return ask_once(subject, asked, ask)


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
        label = GENERATION
        result = measured_generation(task, ask_generation(asked_model, task, generated))
    else:
        assert isinstance(task, ChoicesTask | LabelsTask)
        choices = [item for item in items if isinstance(item, ChoiceItem)]
        label = arm.label
        choice_answers = ask_choices(
            asked_model,
            choices,
            task.normalisation,
            task.unconditional,
            measure=answer_measure(task),
            max_positions=max_positions,
        )
        result = measured_choices(task, choices, choice_answers)
    answers = with_overlap(
        subject, prepared.originals, _with_truncation(arm, prepared, result.answers)
    )
    head = TaskHead(
        task=task.model_dump(mode="json"),
        name=task.name,
        measure=result.measure,
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
        floors=result.floors,
        summary=result.summary,
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
