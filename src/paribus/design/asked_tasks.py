"""The tasks of a plan: the same items for every arm, frozen before the first run.

What fits depends on all arms together, so items are made once, when the plan is. A study keeps
them, and every run of it is asked these and no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from paribus.analyse import column_of
from paribus.canonical import canonical_json
from paribus.corpus import TokenisedCorpus
from paribus.corpus.tasks import ChoiceItem, GenerationItem
from paribus.design.quantities import PlannedArm
from paribus.errors import RecordError, SpecError
from paribus.evaluate.tasks.arms import TaskArm, task_arm
from paribus.evaluate.tasks.generation import BITS_PER_BYTE
from paribus.evaluate.tasks.protocols import AskedItem, PreparedItems
from paribus.evaluate.tasks.run import PreparedTask, prepare_for_arms, task_items
from paribus.files import MAX_ROWS_BYTES, read_text
from paribus.record.disk import write_atomically
from paribus.record.file_names import asked_items_name
from paribus.spec import resolve
from paribus.spec.design import Design, sweep_yardstick
from paribus.spec.stages import reads_conversations
from paribus.spec.tasks import GenerationTask, Task
from paribus.spec.yardstick import TaskYardstick, read_design_yardstick

# by column: where a study keeps the items of a task, and their fingerprint
AskedTasks = Mapping[str, tuple[Path, str]]
REMEDY = "remove it, and `paribus run` writes it anew"


def plan_tasks(design: Design, arms: Sequence[PlannedArm]) -> dict[str, PreparedTask]:
    """Every task of a design, by its column; SpecError where arms cannot be asked alike."""
    tasks: dict[str, PreparedTask] = {}
    for where, yardstick in _task_yardsticks(design):
        try:
            prepared = _prepare(yardstick, arms, is_judged=not where.startswith("others"))
        except SpecError as fault:
            raise SpecError([f"{where}: {problem}" for problem in fault.problems]) from None
        tasks[column_of(yardstick.model_dump(mode="json"))] = prepared
    return tasks


def _task_yardsticks(design: Design) -> Iterator[tuple[str, TaskYardstick]]:
    primary = design.primary.measure
    if isinstance(primary, TaskYardstick):
        yield "primary.measure", primary
        swept = sweep_yardstick(design)
        if isinstance(swept, TaskYardstick):
            yield "primary.measure, on which rates are tuned,", swept
    for place, measure in enumerate(design.others):
        if isinstance(measure, TaskYardstick):
            yield f"others.{place}", measure


def _prepare(yardstick: TaskYardstick, arms: Sequence[PlannedArm], is_judged: bool) -> PreparedTask:
    task_arms = [planned_task_arm(arm) for arm in arms]
    parents: list[TaskArm] = []
    if yardstick.minus_parent:  # which are asked the same items
        parents = [planned_task_arm(arm.first_stages(len(arm.run.stages) - 1)) for arm in arms]
    labels = {arm.name: own.label for arm, own in zip(arms, task_arms, strict=True)}
    task = yardstick.task
    gives_texts = isinstance(task, GenerationTask) and task.measure != BITS_PER_BYTE
    if is_judged and not gives_texts and len(set(labels.values())) > 1:
        each = ", ".join(f"{label} in {name}" for name, label in labels.items())
        raise SpecError(
            f"items would be scored by {each}, which no verdict may compare; ask it under others"
        )
    dataset = _common_text(yardstick, arms)
    prepared = prepare_for_arms(
        yardstick.task, yardstick.protocol, [*task_arms, *parents], dataset, yardstick.split
    )
    _require_equal_tokens(prepared, arms)
    _require_equal_answers(yardstick.task, arms)
    return prepared


def _require_equal_tokens(prepared: PreparedTask, arms: Sequence[PlannedArm]) -> None:
    """SpecError where options are scored per token, and arms have other tokens for them: the same
    probabilities would come to other scores.
    """
    if getattr(prepared.task, "normalisation", None) != "token":
        return
    texts = {arm.dataset.fingerprint: arm.dataset for arm in arms}
    counts: dict[str, list[int]] = {}
    for fingerprint, dataset in texts.items():
        counts[fingerprint] = []
        for item in prepared.prepared.items:
            assert isinstance(item, ChoiceItem)  # what has options
            counts[fingerprint] += [len(dataset.encode(option)) for option in item.options]
    first = arms[0]
    for arm in arms:
        own, other = counts[arm.dataset.fingerprint], counts[first.dataset.fingerprint]
        if own != other:
            raise SpecError(
                f"task.normalisation is 'token', and the options are {sum(own)} tokens in"
                f" {arm.name} and {sum(other)} in {first.name}, so equal probabilities would give"
                " unequal scores; use 'byte', which no tokenizer moves, or one tokenizer"
            )


def _require_equal_answers(task: Task, arms: Sequence[PlannedArm]) -> None:
    """SpecError where answers end after a number of tokens, and arms have other tokens: one may
    write a longer text than another.
    """
    if not isinstance(task, GenerationTask) or task.max_tokens is None:
        return
    arms_by_tokenizer: dict[str, list[str]] = {}
    for arm in arms:
        arms_by_tokenizer.setdefault(arm.dataset.tokenizer.json, []).append(arm.name)
    if len(arms_by_tokenizer) > 1:
        groups = " and ".join(", ".join(names) for names in arms_by_tokenizer.values())
        raise SpecError(
            f"task.max_tokens is {task.max_tokens}, and {groups} have tokenizers of their own, so"
            " that as many tokens are texts of other lengths; leave it out: each arm then has as"
            " many as its longest reference"
        )


def planned_task_arm(arm: PlannedArm) -> TaskArm:
    """How an arm will be asked, as `TaskSubject.arm` says it of its checkpoint."""
    stage = arm.run.last
    return task_arm(
        resolve(arm.run.last_architecture),
        stage.objective,
        arm.dataset.tokenizer,
        arm.dataset.vocabulary,
        stage.training.length,
        reads_conversations(arm.run),
    )


def _common_text(yardstick: TaskYardstick, arms: Sequence[PlannedArm]) -> TokenisedCorpus | None:
    """The text that a task without files takes its items from; SpecError where arms would have
    other items.
    """
    task = yardstick.task
    if task.paths is not None or task.language is not None:
        return None
    texts = {arm.dataset.fingerprint: arm.dataset for arm in arms}
    first, *others = texts.values()
    items = task_items(task, yardstick.split, first)
    for text in others:
        if task_items(task, yardstick.split, text) != items:
            names = [arm.name for arm in arms if arm.dataset is text]
            raise SpecError(
                f"{', '.join(names)} would be asked other items of {task.name} than {arms[0].name},"
                " because the held-out text differs; hold out the same text in every arm"
            )
    return first


def task_fingerprints(tasks: Mapping[str, PreparedTask]) -> dict[str, str]:
    """The fingerprint of the items of each task, by its column."""
    return {column: prepared.fingerprint for column, prepared in tasks.items()}


def write_tasks(folder: Path, tasks: Mapping[str, PreparedTask]) -> None:
    """Keep the items of each task with a study, where they are not there yet."""
    for prepared in tasks.values():
        path = folder / asked_items_name(prepared.fingerprint)
        if not path.exists():
            write_atomically(path, _written_task(prepared).encode())


def _written_task(prepared: PreparedTask) -> str:
    """One line of the task, then one an item: as it is asked, and its context alone."""
    own = prepared.prepared
    head = {
        "task": prepared.task.model_dump(mode="json"),
        "protocol": prepared.protocol.model_dump(mode="json"),
        "n_left_out": own.n_left_out,
    }
    lines = [canonical_json(head)]
    columns = (own.items, prepared.originals, own.n_truncated_bytes, own.n_demonstrations)
    for item, original, n_truncated, n_shown in zip(*columns, strict=True):
        line = {
            "asked": asdict(item),
            "original": asdict(original),
            "n_truncated_bytes": n_truncated,
            "n_demonstrations": n_shown,
        }
        lines.append(canonical_json(line))
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=8)
def read_asked_task(path: Path, fingerprint: str) -> PreparedTask:
    """The items of a task as a study keeps them; RecordError where they are others."""
    lines = read_text(path, MAX_ROWS_BYTES).rstrip("\n").split("\n")
    try:
        prepared = _parse_task(list(map(json.loads, lines)))
    except (KeyError, TypeError, ValueError) as fault:
        raise RecordError(f"{path} holds no items of a task: {fault}; {REMEDY}") from fault
    if prepared.fingerprint != fingerprint:
        raise RecordError(f"{path} does not hold the items that the plan has frozen; {REMEDY}")
    return prepared


def _parse_task(lines: list[dict[str, Any]]) -> PreparedTask:
    head, *rows = lines
    table = {"kind": "task", "task": head["task"], "protocol": head["protocol"]}
    yardstick = read_design_yardstick(table)
    assert isinstance(yardstick, TaskYardstick)
    prepared = PreparedItems(
        items=tuple(_parse_item(row["asked"]) for row in rows),
        n_left_out=head["n_left_out"],
        n_truncated_bytes=tuple(row["n_truncated_bytes"] for row in rows),
        n_demonstrations=tuple(row["n_demonstrations"] for row in rows),
    )
    originals = tuple(_parse_item(row["original"]) for row in rows)
    return PreparedTask(
        task=yardstick.task, protocol=yardstick.protocol, originals=originals, prepared=prepared
    )


def _parse_item(table: Mapping[str, Any]) -> AskedItem:
    if "options" in table:
        return ChoiceItem(**{**table, "options": tuple(table["options"])})
    return GenerationItem(**{**table, "references": tuple(table["references"])})


def asked_tasks(items: Mapping[str, str], folder: Path) -> AskedTasks:
    """Where a study keeps the items of each task, by the fingerprints of a cell."""
    tasks = {}
    for column, fingerprint in items.items():
        tasks[column] = (folder / asked_items_name(fingerprint), fingerprint)
    return tasks
