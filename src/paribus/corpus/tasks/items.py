"""Items of a task: its templates filled in with the values of each row, each item under a name of
its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from paribus.corpus.dataset import TokenisedCorpus
from paribus.corpus.tasks.rows import TaskRow
from paribus.corpus.tasks.splits import task_rows
from paribus.errors import SpecError
from paribus.spec.tasks import (
    ChoicesTask,
    GenerationTask,
    LabelsTask,
    TagsTask,
    Task,
    TaskSplit,
)
from paribus.spec.templates import render, render_each, template_columns

N_NAME_DIGITS = 16
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
T = TypeVar("T")


@dataclass(frozen=True)
class TaskItem:
    """The base of items; those of one document are no independent evidence."""

    name: str
    document: str


@dataclass(frozen=True)
class ChoiceItem(TaskItem):
    """A context and the options that may follow it; `key` is the index of the right one."""

    context: str
    options: tuple[str, ...]
    key: int


@dataclass(frozen=True)
class LabelItem(TaskItem):
    """A text, or a pair of texts, and the index of its label."""

    text: str
    second: str | None
    label: int


@dataclass(frozen=True)
class TagItem(TaskItem):
    """Words, and the index of each one's tag."""

    words: tuple[str, ...]
    tags: tuple[int, ...]


@dataclass(frozen=True)
class GenerationItem(TaskItem):
    """A source, and the texts that are right answers to it."""

    source: str
    references: tuple[str, ...]


def choice_items(
    task: ChoicesTask | LabelsTask,
    split: TaskSplit = "test",
    dataset: TokenisedCorpus | None = None,
) -> tuple[ChoiceItem, ...]:
    """The items of a split as choices; labels are asked in words."""
    if isinstance(task, LabelsTask):
        return _items(task, split, dataset, lambda row: _worded_label(task, row))
    return _items(task, split, dataset, lambda row: _choice(task, row))


def labelled_items(
    task: LabelsTask, split: TaskSplit = "test", dataset: TokenisedCorpus | None = None
) -> tuple[LabelItem, ...]:
    """The items of a split, each with the index of its label in `task.labels`."""
    return _items(task, split, dataset, lambda row: _label(task, row))


def tagged_items(
    task: TagsTask, split: TaskSplit = "test", dataset: TokenisedCorpus | None = None
) -> tuple[TagItem, ...]:
    """The sentences of a split, each word with the index of its tag in `task.labels`."""
    return _items(task, split, dataset, lambda row: _tags(task, row))


def generation_items(
    task: GenerationTask, split: TaskSplit = "test", dataset: TokenisedCorpus | None = None
) -> tuple[GenerationItem, ...]:
    """The items of a split; where the task says so, rows with one source are one item."""
    items = _items(task, split, dataset, lambda row: _generation(task, row))
    if not task.merge_sources:
        return items
    merged: dict[str, GenerationItem] = {}
    for item in items:
        first = merged.setdefault(item.source, replace(item, references=()))
        references = tuple(dict.fromkeys((*first.references, *item.references)))
        merged[item.source] = replace(first, references=references)
    return tuple(merged.values())


AnyItem = TypeVar("AnyItem", bound=TaskItem)


def _items(
    task: Task,
    split: TaskSplit,
    dataset: TokenisedCorpus | None,
    make: Callable[[TaskRow], AnyItem],
) -> tuple[AnyItem, ...]:
    """All items of a split, or the `n_items` of the test split whose names have the least hashes,
    in their order.
    """
    items: list[AnyItem] = []
    places: dict[str, str] = {}
    for row in task_rows(task, split, dataset):
        item = make(row)
        if task.id is None:
            item = replace(item, name=_free_name(item.name, places))
        elif item.name in places:
            raise SpecError(
                f"{row.where} has the id {item.name!r}, which {places[item.name]} has too; give"
                " each item its own"
            )
        places[item.name] = row.where
        items.append(replace(item, document=item.document or item.name))
    if not items:
        raise SpecError(
            f"task {task.name} has no item in its {split} split; give files with rows, or another"
            " share"
        )
    if split == "test" and task.n_items is not None:
        chosen = set(sorted(places, key=_name_hash)[: task.n_items])
        items = [item for item in items if item.name in chosen]
    return tuple(items)


def _name_hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _free_name(name: str, places: dict[str, str]) -> str:
    """The name, or with a number where an item of the same text has it."""
    free, number = name, 1
    while free in places:
        number += 1
        free = f"{name}-{number}"
    return free


def _names(task: Task, row: TaskRow, *texts: str) -> tuple[str, str]:
    """The name and the document of an item; without an id, the name is a hash of its texts."""
    document = ""
    if task.document is not None:
        document = _fill(task.document, row, "document")
    if task.id is not None:
        return _fill(task.id, row, "id"), document
    total = hashlib.sha256()
    for text in texts:
        data = text.encode()
        total.update(len(data).to_bytes(8) + data)
    return total.hexdigest()[:N_NAME_DIGITS], document


def _choice(task: ChoicesTask, row: TaskRow) -> ChoiceItem:
    context = _fill(task.context, row, "context")
    options = _fill_all(task.options, row, "options")
    if len(options) < 2:
        raise SpecError(f"{row.where} has {len(options)} options; give two or more")
    for number, option in enumerate(options, 1):
        if not option.strip():
            raise SpecError(f"{row.where} has no text in option {number}; give every option one")
    key = _key_index(task, _fill(task.key, row, "key"), options, row.where)
    name, document = _names(task, row, context, *options)
    return ChoiceItem(name=name, document=document, context=context, options=options, key=key)


def _key_index(task: ChoicesTask, key: str, options: Sequence[str], where: str) -> int:
    """The index of the right option; SpecError where the key names none."""
    match task.key_form:
        case "text":
            names = [option.strip() for option in options]
        case "letter":
            names = list(LETTERS[: len(options)])
        case "number":
            names = [str(number) for number in range(1, len(options) + 1)]
        case "index":
            names = [str(number) for number in range(len(options))]
    if key.strip() not in names:
        raise SpecError(
            f"{where} has the key {key[:40]!r}, and key_form is {task.key_form!r}; use one of"
            f" {', '.join(repr(name[:40]) for name in names)}"
        )
    return names.index(key.strip())


def _label(task: LabelsTask, row: TaskRow) -> LabelItem:
    text = _fill(task.text, row, "text")
    second = None
    if task.second is not None:
        second = _fill(task.second, row, "second")
    label = _fill(task.label, row, "label").strip()
    if label not in task.labels:
        raise SpecError(
            f"{row.where} has the label {label!r}; use one of {', '.join(task.labels)}, or add it"
            " to labels"
        )
    if not text.strip():
        raise SpecError(f"{row.where} has no text; leave the row out")
    name, document = _names(task, row, text, second or "")
    return LabelItem(
        name=name, document=document, text=text, second=second, label=task.labels.index(label)
    )


def _worded_label(task: LabelsTask, row: TaskRow) -> ChoiceItem:
    item = _label(task, row)
    if task.context is not None:
        context = _fill(task.context, row, "context")
    elif item.second is None:
        context = f"{item.text}\n{task.unconditional}"
    else:
        context = f"{item.text}\n{item.second}\n{task.unconditional}"
    options = task.options or tuple(f" {label}" for label in task.labels)
    return ChoiceItem(
        name=item.name, document=item.document, context=context, options=options, key=item.label
    )


def _tags(task: TagsTask, row: TaskRow) -> TagItem:
    words = _fill_all(task.words, row, "words")
    tags = _fill_all(task.tags, row, "tags")
    if len(words) != len(tags) or not words:
        raise SpecError(f"{row.where} has {len(words)} words and {len(tags)} tags; give one each")
    for tag in tags:
        if tag not in task.labels:
            raise SpecError(
                f"{row.where} has the tag {tag!r}; use one of {', '.join(task.labels)}, or add it"
                " to labels"
            )
    name, document = _names(task, row, *words)
    numbers = tuple(map(task.labels.index, tags))
    return TagItem(name=name, document=document, words=words, tags=numbers)


def _generation(task: GenerationTask, row: TaskRow) -> GenerationItem:
    source = _fill(task.source, row, "source")
    references = _fill_all(task.references, row, "references")
    if not any(reference.strip() for reference in references):
        raise SpecError(f"{row.where} has no reference with text; give one")
    name, document = _names(task, row, source, *references)
    return GenerationItem(name=name, document=document, source=source, references=references)


def _fill(template: str, row: TaskRow, field: str) -> str:
    _require_columns(template, row, field)
    try:
        return render(template, row.values)
    except ValueError as fault:
        raise SpecError(f"{row.where}: {field}: {fault}; name another column") from None


def _fill_all(templates: str | tuple[str, ...], row: TaskRow, field: str) -> tuple[str, ...]:
    """One text for each template; of one template alone, one for each value of its list."""
    if not isinstance(templates, str):
        return tuple(_fill(template, row, field) for template in templates)
    _require_columns(templates, row, field)
    values = row.values
    if all(isinstance(values[name], str) for name in template_columns(templates)):
        return (render(templates, values),)
    try:
        return render_each(templates, values)
    except ValueError as fault:
        raise SpecError(f"{row.where}: {field}: {fault}; name another column") from None


def _require_columns(template: str, row: TaskRow, field: str) -> None:
    for column in template_columns(template):
        if column not in row.values:
            there = ", ".join(map(repr, row.values)) or "none"
            raise SpecError(
                f"{row.where} has no column {column!r}, which {field} names; its columns are"
                f" {there}"
            )


def iterate_texts(items: Sequence[TaskItem]) -> Iterator[tuple[str, ...]]:
    """The texts of each item, for whoever looks for them elsewhere."""
    for texts in iterate_parts(items):
        yield tuple(map("".join, texts))


def iterate_parts(items: Sequence[TaskItem]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """The texts of each item, each in its parts: what is asked, and what is answered."""
    for item in items:
        match item:
            case ChoiceItem():
                yield ((item.context, item.options[item.key]),)
            case LabelItem():
                yield (item.text,), (item.second or "",)
            case TagItem():
                yield ((" ".join(item.words),),)
            case GenerationItem():
                yield tuple((item.source, reference) for reference in item.references)
            case _:
                raise AssertionError(f"a {type(item).__name__} has texts that nobody looks for")
