"""Every kind of source as a stream of documents, and how to tell cheaply whether it has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paribus.corpus.archives import (
    ArchiveMember,
    explain_read_errors,
    find_files,
    open_members,
)
from paribus.corpus.conversation_files import turn_documents
from paribus.corpus.decompression_limit import DecompressionLimit, size_on_disk
from paribus.corpus.documents import Document, SourceNotes
from paribus.corpus.formats import JSON_SUFFIXES, KEYED_SUFFIXES, PLAIN_TEXT_SUFFIXES
from paribus.corpus.formats import file_documents as filed
from paribus.corpus.languages.inventors import invented_documents
from paribus.corpus.python_files import installation_identity
from paribus.corpus.python_files import python_documents as installed
from paribus.corpus.tagged_sentences import COLUMN_SUFFIXES
from paribus.record.disk import explained
from paribus.spec.corpus import (
    ConversationFiles,
    Files,
    FileSource,
    LabelledFiles,
    PairFiles,
    PreferenceFiles,
    Source,
    TaggedFiles,
)
from paribus.spec.languages import Language
from paribus.watcher import Watcher


def source_documents(
    source: Source, notes: SourceNotes, progress: Watcher, n_workers: int
) -> Iterator[Document]:
    """All documents in an order that is always the same."""
    match source:
        case Files() | PairFiles() | LabelledFiles() | TaggedFiles():
            return _read_files(source, notes, progress)
        case ConversationFiles() | PreferenceFiles():
            return _read_files(source, notes, progress)
        case Language():
            return invented_documents(source, progress, n_workers)
        case _:
            return installed(source, progress, n_workers)


def source_identity(source: Source) -> Any:
    """What changes when the text may have: sizes and times of files, versions of what is
    installed.
    """
    match source:
        case (
            Files()
            | PairFiles()
            | LabelledFiles()
            | TaggedFiles()
            | ConversationFiles()
            | PreferenceFiles()
        ):
            stamps = []
            for path in find_files(source.paths, _readable_suffixes(source), SourceNotes()):
                stat = _stat(path)
                stamps.append([str(path.resolve()), stat.st_size, stat.st_mtime_ns])
            return stamps
        case Language():
            return None
        case _:
            return installation_identity(source)


def _stat(path: Path) -> os.stat_result:
    with explained(path, "read", "restore it, or leave it out of the paths"):
        return path.stat()


def _readable_suffixes(source: FileSource) -> tuple[str, ...]:
    match source:
        case Files():
            return (*PLAIN_TEXT_SUFFIXES, *KEYED_SUFFIXES)
        case TaggedFiles():
            return COLUMN_SUFFIXES
        case ConversationFiles() | PreferenceFiles():
            return JSON_SUFFIXES
        case _:
            return KEYED_SUFFIXES


def source_members(
    source: FileSource, notes: SourceNotes, progress: Watcher
) -> Iterator[ArchiveMember]:
    """Every file of a source, open, in an order that is always the same."""
    suffixes = _readable_suffixes(source)
    paths = find_files(source.paths, suffixes, notes)
    stats = list(map(_stat, paths))
    allowance = DecompressionLimit(source.max_unpacked, sum(map(size_on_disk, stats)))
    with progress.stage(f"reading {source.kind}", sum(stat.st_size for stat in stats)):
        for path in paths:
            yield from open_members(path, suffixes, notes, progress, allowance)


def _read_files(source: FileSource, notes: SourceNotes, progress: Watcher) -> Iterator[Document]:
    for member in source_members(source, notes, progress):
        with explain_read_errors(member.where):
            if isinstance(source, ConversationFiles | PreferenceFiles):
                yield from turn_documents(member, source, notes)
            else:
                yield from filed(member, source, notes)
