"""Every kind of source as a stream of documents, and how to tell cheaply whether it has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paribus.corpus.archives import found, members, torn
from paribus.corpus.documents import Document, Notes
from paribus.corpus.formats import KEYED, WHOLE
from paribus.corpus.formats import documents as filed
from paribus.corpus.installation import documents as installed
from paribus.corpus.installation import identity as installation
from paribus.corpus.languages import documents as invented
from paribus.corpus.progress import Progress
from paribus.corpus.unpacking import Allowance, size_on_disk
from paribus.record.disk import told
from paribus.spec.corpus import Files, Language, Pairs, PythonCode, PythonDocs, PythonSummaries, Source


def documents(source: Source, notes: Notes, progress: Progress, n_workers: int) -> Iterator[Document]:
    """All documents in an order that is always the same."""
    match source:
        case PythonDocs() | PythonCode() | PythonSummaries():
            return installed(source, progress, n_workers)
        case Files() | Pairs():
            return _filed(source, notes, progress)
        case Language():
            return invented(source, progress)


def identity(source: Source) -> Any:
    """What changes when the text may have: sizes and times of files, versions of what is installed."""
    match source:
        case PythonDocs() | PythonCode() | PythonSummaries():
            return installation(source)
        case Files() | Pairs():
            stated = [(path, _stat(path)) for path in found(source.paths, _suffixes(source), Notes())]
            return [[str(path.resolve()), stat.st_size, stat.st_mtime_ns] for path, stat in stated]
        case Language():
            return None


def _stat(path: Path) -> os.stat_result:
    with told(path, "read", "restore it, or leave it out of the paths"):
        return path.stat()


def _suffixes(source: Files | Pairs) -> tuple[str, ...]:
    return (*WHOLE, *KEYED) if isinstance(source, Files) else KEYED


def _filed(source: Files | Pairs, notes: Notes, progress: Progress) -> Iterator[Document]:
    suffixes = _suffixes(source)
    paths = found(source.paths, suffixes, notes)
    stats = [_stat(path) for path in paths]
    allowance = Allowance(source.max_unpacked, sum(map(size_on_disk, stats)))
    with progress.stage(f"reading {source.kind}", sum(stat.st_size for stat in stats)):
        for path in paths:
            for member in members(path, suffixes, notes, progress, allowance):
                with torn(member.where):
                    yield from filed(member, source, notes)
