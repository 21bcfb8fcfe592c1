"""The rows of one split of a task: from the files of that split, or a share of those that are
asked, by a hash of the row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from paribus.canonical import canonical_json
from paribus.corpus.archives import (
    ArchiveMember,
    explain_read_errors,
    find_files,
    open_members,
    suffix_of,
)
from paribus.corpus.dataset import TokenisedCorpus
from paribus.corpus.decompression_limit import DecompressionLimit, size_on_disk
from paribus.corpus.documents import SourceNotes
from paribus.corpus.tasks.corpus_rows import corpus_rows
from paribus.corpus.tasks.language_rows import language_rows
from paribus.corpus.tasks.readers import READER_FUNCTIONS
from paribus.corpus.tasks.rows import ROW_SUFFIXES, TaskRow, file_rows, text_lines
from paribus.errors import SpecError
from paribus.files import expand_home
from paribus.spec.task_readers import READERS
from paribus.spec.tasks import Task, TaskSplit
from paribus.watcher import Watcher

PARALLEL = "parallel-lines"


def task_rows(
    task: Task, split: TaskSplit = "test", dataset: TokenisedCorpus | None = None
) -> Iterator[TaskRow]:
    """The rows of a split, in an order that is always the same.

    `dataset` is the text of a run, which tasks without files of their own take items from.
    """
    if task.language is not None:
        return chain.from_iterable(language_rows(one, split) for one in task.language)
    if task.reader is not None and not READERS[task.reader].suffixes:
        return corpus_rows(task.reader, split, dataset)
    return _file_split(task, split)


def has_split(task: Task, split: TaskSplit) -> bool:
    """Whether a task has a split: files of its own, or a share of those that are asked. One without
    files has every split.
    """
    if split == "test" or task.paths is None:
        return True
    if split == "train":
        return task.train is not None or task.train_share > 0
    return task.valid is not None or task.valid_share > 0


def _file_split(task: Task, split: TaskSplit) -> Iterator[TaskRow]:
    assert task.paths is not None
    files = {"train": task.train, "valid": task.valid, "test": None}[split]
    if files is not None:
        yield from _read_files(task, files)
        return
    shares = {"train": task.train_share, "valid": task.valid_share}
    if not has_split(task, split):
        raise SpecError(
            f"task {task.name} has no {split} split; give files as {split} = …, or a share such as"
            f" {split}_share = 0.5"
        )
    for row in _read_files(task, task.paths):
        if _shared_split(row, shares) == split:
            yield row


def _shared_split(row: TaskRow, shares: dict[str, float]) -> TaskSplit:
    if not shares["train"] and not shares["valid"]:
        return "test"
    digest = hashlib.sha256(canonical_json(dict(row.values)).encode()).digest()
    fraction = int.from_bytes(digest[:8]) / 2**64
    if fraction < shares["train"]:
        return "train"
    if fraction < shares["train"] + shares["valid"]:
        return "valid"
    return "test"


def _read_files(task: Task, paths: Sequence[str]) -> Iterator[TaskRow]:
    if task.reader == PARALLEL:
        yield from _parallel_rows(task, paths)
        return
    read = file_rows if task.reader is None else READER_FUNCTIONS[task.reader]
    for member in _open_files(task, paths):
        with explain_read_errors(member.where):
            yield from read(member)


def task_members(task: Task) -> Iterator[ArchiveMember]:
    """Every file of a task, open: of the items that are asked, and of its other splits."""
    for paths in (task.paths, task.train, task.valid):
        yield from _open_files(task, paths or ())


def _open_files(task: Task, paths: Sequence[str]) -> Iterator[ArchiveMember]:
    if task.reader == PARALLEL:
        suffixes = tuple(suffix_of(expand_home("paths", path).name) for path in paths)
    elif task.reader is None:
        suffixes = ROW_SUFFIXES
    else:
        suffixes = READERS[task.reader].suffixes
    files = find_files(paths, suffixes, SourceNotes())
    n_bytes = sum(size_on_disk(path.stat()) for path in files)
    limit = DecompressionLimit(task.max_unpacked, n_bytes)
    for path in files:
        yield from open_members(path, suffixes, SourceNotes(), Watcher(), limit)


def _parallel_rows(task: Task, paths: Sequence[str]) -> Iterator[TaskRow]:
    """Line n of a file of sources beside line n of the file of its targets."""
    if len(paths) % 2:
        raise SpecError(
            f"task {task.name} has {len(paths)} paths, but reader {PARALLEL!r} takes them in twos:"
            " a file of sources, then the file of its targets"
        )
    for source, target in zip(paths[::2], paths[1::2], strict=True):
        sources, targets = _lines(task, source), _lines(task, target)
        if len(sources) != len(targets):
            raise SpecError(
                f"{source} has {len(sources)} lines and {target} {len(targets)}; give files whose"
                " lines belong together"
            )
        stem = Path(source).name.partition(".")[0]
        for number, (one, other) in enumerate(zip(sources, targets, strict=True), 1):
            name = f"{stem}-{number}"
            yield TaskRow(f"{source} line {number}", {"source": one, "target": other, "id": name})


def _lines(task: Task, path: str) -> list[str]:
    lines: list[str] = []
    for member in _open_files(task, [path]):
        with explain_read_errors(member.where):
            lines.extend(text for _, text in text_lines(member))
    return lines
