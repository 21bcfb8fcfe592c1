"""Checksums: the sha256 of every file that a verdict rests on, listed when it is written and
compared when it is read.

runs/3f9c0a1be2d47c58/checksums.jsonl
  {"before": null, "file": "state", "sha256": "9c1f…", "sum": "03ab…"}   about to be written
  {"file": "state", "sha256": "9c1f…", "sum": "77d0…"}                   written

A process killed between the two leaves a file that agrees with either. `sum` is the sha256 of its
line and of the sum before it: a line that was changed, or taken out of the middle, is known. What
was cut off the end shows in the files.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from paribus.canonical import canonical_json
from paribus.errors import RecordError
from paribus.files import MAX_RECORD_BYTES, open_regular_file, read_bytes
from paribus.record.disk import explained, file_sha256, replace
from paribus.record.file_names import CHECKSUMS_FILE

CONTENT_CHANGED = "is not what was written (sha256 differs)"
_ENTRY_KEYS = {"file", "sha256", "before"}
_RECENT_NS = 10**9  # a file that changed within this time may change again and show no other time
_RESTORE = "restore it, or remove that folder and start again"


@dataclass(frozen=True)
class Checksums:
    """What a folder lists: name → every sha256 that its file may have, None where it may be
    absent.
    """

    files: Mapping[str, frozenset[str | None]] = field(default_factory=dict)
    last_sum: str = ""

    def file_fault(self, folder: Path, name: str) -> str | None:
        """What is wrong with one file, in words; None where it holds what was written."""
        if name not in self.files:
            return f"{name} is not listed in {CHECKSUMS_FILE}"
        there = _file_sha256(folder / name)
        if there in self.files[name]:
            return None
        if there is None:
            return f"{name} is missing"
        return f"{name} {CONTENT_CHANGED}"


def read_checksums(folder: Path) -> Checksums | None:
    """What a folder lists; None where it has no list. RecordError where the list itself was
    changed.
    """
    path = folder / CHECKSUMS_FILE
    if not path.exists():
        return None
    with explained(path, "read", _RESTORE):
        return _parse(read_bytes(path, MAX_RECORD_BYTES), path)


def file_faults(
    folder: Path, required_files: Collection[str], growing_files: Collection[str] = ()
) -> tuple[str, ...]:
    """Every listed or required file that does not hold what was written, in words;
    `growing_files` ones are not judged.
    """
    try:
        with _locked_list(folder, fcntl.LOCK_SH):
            checksums = read_checksums(folder)
            if checksums is None:
                return (f"{CHECKSUMS_FILE} is missing",)
            names = dict.fromkeys((*required_files, *checksums.files))
            faults = []
            for name in names:
                if name not in growing_files:
                    faults.append(checksums.file_fault(folder, name))
    except RecordError as fault:
        return (str(fault).removeprefix(f"{folder}/").partition(";")[0],)
    return tuple(fault for fault in faults if fault is not None)


def is_listed(folder: Path, name: str) -> bool:
    """Was a file of this folder ever listed, and not removed by us since?"""
    checksums = read_checksums(folder)
    return checksums is not None and checksums.files.get(name, {None}) != {None}


def require_unchanged_file(folder: Path, name: str, remedy: str) -> None:
    """RecordError where a listed file does not hold what was written; one that is not listed is
    not judged.
    """
    checksums = read_checksums(folder)
    if checksums is None or name not in checksums.files:
        return
    fault = checksums.file_fault(folder, name)
    if fault is not None:
        raise RecordError(f"{folder / name}{fault.removeprefix(name)}; {remedy}")


def write_listed_file(folder: Path, name: str, content: bytes) -> None:
    """Make `content` all that a file of the folder holds, and list it."""
    sha256 = hashlib.sha256(content).hexdigest()
    with _locked_list(folder, fcntl.LOCK_EX) as file:
        _append(
            file, {"file": name, "sha256": sha256, "before": _file_sha256(folder / name)}, folder
        )
        replace(folder / name, content)
        _append(file, {"file": name, "sha256": sha256}, folder)


def checksum_lines(sha256_by_file: Mapping[str, str]) -> bytes:
    """A list of files as they are, each once and by name: what a folder holds, without how it came
    to hold it.
    """
    lines, total = list[str](), ""
    for name in sorted(sha256_by_file):
        entry = {"file": name, "sha256": sha256_by_file[name]}
        total = _chained_sum(total, entry)
        lines.append(canonical_json({**entry, "sum": total}) + "\n")
    return "".join(lines).encode()


def listed_files(folder: Path) -> set[str] | None:
    """The files that a folder lists and that we have not removed since; None where it has no
    list.
    """
    checksums = read_checksums(folder)
    if checksums is None:
        return None
    return {name for name, known in checksums.files.items() if known != {None}}


def list_file(folder: Path, name: str) -> None:
    """List a file as it is now, absent or not: one that was written bit by bit and is finished."""
    with _locked_list(folder, fcntl.LOCK_EX) as file:
        _append(file, {"file": name, "sha256": _file_sha256(folder / name)}, folder)


def remove_listed_file(folder: Path, name: str) -> None:
    """Remove a file, and list it as absent."""
    before = _file_sha256(folder / name)
    if before is None:
        return
    with _locked_list(folder, fcntl.LOCK_EX) as file:
        _append(file, {"file": name, "sha256": None, "before": before}, folder)
        (folder / name).unlink(missing_ok=True)
        _append(file, {"file": name, "sha256": None}, folder)


@contextmanager
def _locked_list(folder: Path, kind: int) -> Iterator[int]:
    """The list of a folder, open and locked: who reads it meets no half of a change."""
    path = folder / CHECKSUMS_FILE
    if kind == fcntl.LOCK_SH and not path.exists():
        yield -1
        return
    if path.exists():
        with explained(path, "read", _RESTORE):
            os.close(open_regular_file(path))  # a pipe would be waited for
    if kind == fcntl.LOCK_SH:
        flags = os.O_RDONLY
    else:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with explained(path, "opened", "give a folder you may write to"):
        descriptor = os.open(path, flags, 0o644)
    try:
        with suppress(
            OSError
        ):  # a disk without locks: its files are written by one process at a time
            fcntl.flock(descriptor, kind)
        yield descriptor
    finally:
        os.close(descriptor)


def _append(descriptor: int, entry: dict[str, Any], folder: Path) -> None:
    """One more line; half a line that a killed process left makes way."""
    path = folder / CHECKSUMS_FILE
    with explained(path, "written", "free some space or choose another folder"):
        content = read_bytes(path, MAX_RECORD_BYTES)
        whole = content.rfind(b"\n") + 1
        line = (
            canonical_json({**entry, "sum": _chained_sum(_parse(content, path).last_sum, entry)})
            + "\n"
        )
        os.ftruncate(descriptor, whole)
        os.pwrite(descriptor, line.encode(), whole)
        os.fsync(descriptor)


def _parse(content: bytes, path: Path) -> Checksums:
    files: dict[str, frozenset[str | None]] = {}
    total = ""
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        entry = _parse_entry(line, total)
        if entry is None:
            raise RecordError(f"{path} was changed in line {number}; {_RESTORE}")
        total = entry.pop("sum")
        files[entry["file"]] = frozenset({entry["sha256"], _previous_sha256(entry)})
    return Checksums(files, total)


def _parse_entry(line: bytes, previous_sum: str) -> dict[str, Any] | None:
    """A line of the list; None where it is none, or does not follow the sum of the one before
    it.
    """
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match entry:
        case {"file": str(), "sha256": None | str(), "sum": str(total)} if isinstance(
            entry.get("before"), str | None
        ):
            rest = dict(entry)
            del rest["sum"]
            if set(rest) <= _ENTRY_KEYS and total == _chained_sum(previous_sum, rest):
                return entry
            return None
    return None


def _previous_sha256(entry: Mapping[str, Any]) -> str | None:
    """What a file held that is about to be written; of one that is written, what it holds."""
    before = entry.get("before", entry["sha256"])
    if isinstance(before, str):
        return before
    return None


def _chained_sum(previous_sum: str, entry: Mapping[str, Any]) -> str:
    return hashlib.sha256((previous_sum + canonical_json(dict(entry))).encode()).hexdigest()


def _file_sha256(path: Path) -> str | None:
    """The sha256 of a file; None where there is none. One that has not changed since is not
    read again.
    """
    try:
        stat = path.stat()
        os.close(open_regular_file(path))  # a pipe would be waited for, and a device has no end
        if time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) < _RECENT_NS:
            return file_sha256(path)
        return _cached_sha256(str(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        raise RecordError(f"{path} cannot be read: {fault.strerror}; {_RESTORE}") from fault


@lru_cache(maxsize=1 << 14)
def _cached_sha256(path: str, n_bytes: int, changed_ns: int, entry_changed_ns: int) -> str:
    return file_sha256(Path(path))
