"""Is a text in the cache still what was written there? Every byte once, and later by what the disk says of its files.

A file's size and times of change are those of the moment before its bytes were read. Who sets the time of a file back
changes when its entry changed: such a file is read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paribus.corpus.built import Built, built
from paribus.corpus.cache import INDEX, Index, fingerprint, read_index
from paribus.errors import RecordError
from paribus.record.disk import digest, told
from paribus.spec.corpus import Corpus

REMEDY = "remove that folder of the cache, and the same command builds the text again"


class FileStamp(NamedTuple):
    """What the disk says of a file without reading it, and the sha256 of what it held."""

    n_bytes: int
    changed_ns: int
    entry_changed_ns: int
    sha256: str


@dataclass(frozen=True)
class VerifiedText:
    """A text whose every byte was compared with its index."""

    folder: str
    fingerprint: str
    files: dict[str, FileStamp]


def verify(text: Built) -> VerifiedText:
    """Read every file of a text; RecordError where one is not what was written."""
    index = _index(text.folder)
    _require_all_listed(text.folder, index)
    files = {name: _stamp(text.folder / name, one.sha256) for name, one in index.files.items()}
    files[INDEX] = _stamp(text.folder / INDEX, None)
    return VerifiedText(str(text.folder), text.fingerprint, files)


def verify_again(text: VerifiedText) -> VerifiedText:
    """Read what may have changed since; RecordError where it has."""
    return VerifiedText(text.folder, text.fingerprint, {name: _again(text, name) for name in text.files})


def reopen(corpus: Corpus, text: VerifiedText) -> Built:
    """The very text that was verified, wherever its sources are by now."""
    folder = Path(verify_again(text).folder)
    index = _index(folder)
    found = fingerprint(corpus, index.fingerprint)
    if found != text.fingerprint:
        raise RecordError(f"{folder} holds the text {found[:16]}, not {text.fingerprint[:16]} of the plan; {REMEDY}")
    return built(corpus, folder, index, found)


def _index(folder: Path) -> Index:
    index = read_index(folder)
    if index is None or index.fingerprint != folder.name:
        raise RecordError(f"{folder / INDEX} is missing or not what was written; {REMEDY}")
    return index


def _require_all_listed(folder: Path, index: Index) -> None:
    """RecordError where a file lies there that its index does not speak of: an index that lists less proves less."""
    there = {path.name for path in folder.iterdir() if not path.name.startswith(".")}  # systems leave such files
    unknown = there - {*index.files, INDEX}
    if unknown:
        raise RecordError(f"{folder / INDEX} does not list {min(unknown)!r}, which lies beside it; {REMEDY}")


def _again(text: VerifiedText, name: str) -> FileStamp:
    path, before = Path(text.folder) / name, text.files[name]
    with told(path, "read", REMEDY):
        stat = path.stat()
    now = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return before if now == before[:3] else _stamp(path, before.sha256)


def _stamp(path: Path, wanted: str | None) -> FileStamp:
    """A file read now; `wanted` is what its sha256 must be."""
    with told(path, "read", REMEDY):
        stat, sha256 = path.stat(), digest(path)
    if wanted not in (None, sha256):
        raise RecordError(f"{path} is not what was written (sha256 differs); {REMEDY}")
    return FileStamp(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, sha256)
