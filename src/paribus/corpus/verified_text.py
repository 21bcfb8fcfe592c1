"""Is a text in the cache still what was written there? Every byte once, and later by what the
disk says of its files.

A file's size and times of change are those of the moment before its bytes were read. Who sets the
time of a file back changes when its entry changed: such a file is read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paribus.corpus.cache import INDEX_FILE, Index, corpus_fingerprint, read_index
from paribus.corpus.dataset import TokenisedCorpus, open_corpus
from paribus.errors import RecordError
from paribus.record.disk import explained, file_sha256
from paribus.spec.corpus import Corpus

REMEDY = "remove that folder of the cache, and the same command builds the text again"


class FileStamp(NamedTuple):
    """What the disk says of a file without reading it, and the sha256 of what it held."""

    n_bytes: int
    mtime_ns: int
    ctime_ns: int
    sha256: str


@dataclass(frozen=True)
class VerifiedText:
    """A text whose every byte was compared with its index."""

    folder: str
    fingerprint: str
    files: dict[str, FileStamp]


def verify_text(text: TokenisedCorpus) -> VerifiedText:
    """Read every file of a text; RecordError where one is not what was written."""
    index = _require_index(text.folder)
    _require_all_listed(text.folder, index)
    files = {name: _stamp_file(text.folder / name, one.sha256) for name, one in index.files.items()}
    files[INDEX_FILE] = _stamp_file(text.folder / INDEX_FILE, None)
    return VerifiedText(str(text.folder), text.fingerprint, files)


def reverify_text(text: VerifiedText) -> VerifiedText:
    """Read what may have changed since; RecordError where it has."""
    files = {name: _restamp_file(text, name) for name in text.files}
    return VerifiedText(text.folder, text.fingerprint, files)


def reopen_text(corpus: Corpus, text: VerifiedText) -> TokenisedCorpus:
    """The very text that was verified, wherever its sources are by now."""
    folder = Path(reverify_text(text).folder)
    index = _require_index(folder)
    fingerprint = corpus_fingerprint(corpus, index.fingerprint)
    if fingerprint != text.fingerprint:
        raise RecordError(
            f"{folder} holds the text {fingerprint[:16]}, not {text.fingerprint[:16]} of the plan;"
            f" {REMEDY}"
        )
    return open_corpus(corpus, folder, index, fingerprint)


def _require_index(folder: Path) -> Index:
    index = read_index(folder)
    if index is None or index.fingerprint != folder.name:
        raise RecordError(f"{folder / INDEX_FILE} is missing or not what was written; {REMEDY}")
    return index


def _require_all_listed(folder: Path, index: Index) -> None:
    """RecordError where a file lies there that its index does not speak of: an index that lists
    less proves less.
    """
    unknown = set[str]()
    for path in folder.iterdir():
        if not path.name.startswith("."):  # systems leave such files
            unknown.add(path.name)
    unknown -= {*index.files, INDEX_FILE}
    if unknown:
        raise RecordError(
            f"{folder / INDEX_FILE} does not list {min(unknown)!r}, which lies beside it; {REMEDY}"
        )


def _restamp_file(text: VerifiedText, name: str) -> FileStamp:
    path, before = Path(text.folder) / name, text.files[name]
    with explained(path, "read", REMEDY):
        stat = path.stat()
    now = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    if now == before[:3]:
        return before
    return _stamp_file(path, before.sha256)


def _stamp_file(path: Path, expected_sha256: str | None) -> FileStamp:
    """A file read now; `expected_sha256` is what its sha256 must be."""
    with explained(path, "read", REMEDY):
        stat, sha256 = path.stat(), file_sha256(path)
    if expected_sha256 not in (None, sha256):
        raise RecordError(f"{path} is not what was written (sha256 differs); {REMEDY}")
    return FileStamp(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, sha256)
