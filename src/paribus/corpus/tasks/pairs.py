"""Items of a task as pairs to train on: a question as it is asked, its right answer, and the task
that it is from.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from paribus.corpus.documents import SourceNotes
from paribus.corpus.formats import JSON_SUFFIXES, json_objects
from paribus.corpus.sources import source_members
from paribus.corpus.tasks.items import choice_items, generation_items
from paribus.corpus.tasks.splits import has_split
from paribus.errors import SpecError
from paribus.record.disk import explained, replace
from paribus.spec.corpus import PairFiles
from paribus.spec.task_readers import READERS
from paribus.spec.tasks import GenerationTask, TagsTask, Task, TaskSplit
from paribus.watcher import Watcher

TASK_KEY = "task"  # of a line: which task its pair is from


@dataclass(frozen=True)
class TaskPair:
    """A question and its right answer, as scoring puts them, and the name of their task."""

    source: str
    target: str
    task: str


def task_pairs(task: Task, split: TaskSplit = "train") -> tuple[TaskPair, ...]:
    """The items of a split as pairs; SpecError for a task that is not asked in words after a
    context.
    """
    if isinstance(task, TagsTask):
        raise SpecError(
            f"task {task.name} is of kind 'tags', whose answers are no text, so it makes no pairs;"
            " fine-tune a head on its files (source 'tagged')"
        )
    if not has_split(task, split):
        raise SpecError(
            f"task {task.name} has no {split} split; name the {split} file as its path and use"
            f" --split test, or give files as {split} = …, or a share such as {split}_share = 0.5"
        )
    name = trained_task_name(task)
    pairs: list[TaskPair] = []
    if isinstance(task, GenerationTask):
        for item in generation_items(task, split):
            references = [text for text in item.references if text.strip()]
            pairs.append(TaskPair(item.source, references[0], name))
    else:
        for item in choice_items(task, split):
            pairs.append(TaskPair(item.context, item.options[item.key], name))
    if not all(pair.source for pair in pairs):
        raise SpecError(
            f"task {task.name} has items without a context, which are no questions to learn the"
            " answers of; give it a context, or tune on another task"
        )
    return tuple(pairs)


def trained_task_name(task: Task) -> str:
    """What pairs of a task are marked with: its reader, or its own name where the reader knows a
    format that many tasks have.
    """
    if task.reader is None or READERS[task.reader].has_many_tasks:
        return task.name
    return task.reader


def write_task_pairs(path: Path, pairs: tuple[TaskPair, ...], overwrite: bool = False) -> None:
    """Write a JSON line for each pair, all of them or nothing."""
    if path.suffix not in JSON_SUFFIXES:
        raise SpecError(f"{path} does not end in .jsonl; pairs are written as JSON lines")
    if path.exists() and not overwrite:
        raise SpecError(f"{path} exists; choose another file, or overwrite it with --force")
    lines = [json.dumps(asdict(pair), ensure_ascii=False) + "\n" for pair in pairs]
    with explained(path, "written", "choose another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, "".join(lines).encode())


def marked_tasks(source: PairFiles) -> dict[str, str]:
    """By the task that lines of .jsonl are marked with: where the first of them stands."""
    places: dict[str, str] = {}
    notes = SourceNotes()
    for member in source_members(source, notes, Watcher()):
        if member.suffix not in JSON_SUFFIXES:
            continue
        for where, row in json_objects(member, source.errors, notes):
            name = row.get(TASK_KEY)
            if isinstance(name, str):
                places.setdefault(name, where)
    return places
