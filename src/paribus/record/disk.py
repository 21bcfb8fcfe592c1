"""Files that are there whole or not at all.

What is still being written is called `.tmp-…`, what is being removed `.old-…`; both take that name,
or lose it, by one rename. A process killed at any moment leaves at most such leftovers, and `sweep`
removes them.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.files import MAX_RECORD_BYTES, open_regular_file, read_bytes

TEMPORARY_PREFIX, REMOVED_PREFIX = ".tmp-", ".old-"


def file_sha256(path: Path) -> str:
    """The sha256 of what a file holds, read a little at a time."""
    with open(open_regular_file(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_sha256(content: bytes) -> str:
    """The sha256 of bytes."""
    return hashlib.sha256(content).hexdigest()


def temporary_path(path: Path) -> Path:
    """A name beside `path` that nobody else uses and no reader takes for the thing itself."""
    return path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{secrets.token_hex(4)}")


def replace(path: Path, content: bytes) -> None:
    """Make `content` all that `path` holds; RecordError where that fails, and it holds what it
    held.
    """
    with explained(path, "written", "free some space or choose another folder"):
        write_atomically(path, content)


def write_atomically(path: Path, content: bytes) -> None:
    """Make `content` all that `path` holds; after a kill or a full disk it holds either that or
    what it held before.
    """
    new = temporary_path(path)
    try:
        new.write_bytes(content)
        sync(new)
        new.rename(path)
        sync(path.parent)
    finally:
        _remove(new)


@contextmanager
def folder_draft(folder: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the name of `folder` at once if all goes well, and
    vanishes if not.
    """
    new = temporary_path(folder)
    try:
        new.mkdir(parents=True)
        yield new
        new.rename(folder)
        sync(folder.parent)
    finally:
        _remove(new)


@contextmanager
def scratch_folder(place: Path) -> Iterator[Path]:
    """A new folder beside `place`, which vanishes in the end, whatever happens."""
    new = temporary_path(place)
    try:
        new.mkdir(parents=True)
        yield new
    finally:
        _remove(new)


def sync(path: Path) -> None:
    """Bring a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(folder: Path) -> None:
    """Remove a folder such that a kill leaves it whole or under another name, never half."""
    waste = folder.with_name(f"{REMOVED_PREFIX}{folder.name}-{secrets.token_hex(4)}")
    with explained(folder, "removed", "make its folder writable"):
        folder.rename(waste)
    _remove(waste)


def remove_leftovers(folder: Path) -> tuple[str, ...]:
    """Remove what killed processes left in `folder`; the names of what was found."""
    if not folder.is_dir():
        return ()
    names = []
    for path in list(folder.iterdir()):
        if path.name.startswith((TEMPORARY_PREFIX, REMOVED_PREFIX)):
            _remove(path)
            names.append(path.name)
    return tuple(sorted(names))


def _remove(path: Path) -> None:
    """Remove what has no name of its own any more; what cannot be removed now is swept later."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by a value as JSON, its keys in order."""
    replace(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """JSON for people to read, its keys in order."""
    return (json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def read_json(path: Path, remedy: str = "restore it, or remove the folder and start again") -> Any:
    """The value a JSON file holds; `remedy` says what to do about one that cannot be read."""
    try:
        with explained(path, "read", remedy):
            return json.loads(read_bytes(path, MAX_RECORD_BYTES))
    except (ValueError, RecursionError) as fault:
        raise RecordError(f"{path} is not JSON: {fault}; {remedy}") from fault


@contextmanager
def explained(path: Path, what: str, remedy: str | Callable[[OSError], str]) -> Iterator[None]:
    """Any OSError inside becomes a RecordError: `path` cannot be `what`, why, and the `remedy`
    for it.
    """
    try:
        yield
    except OSError as fault:
        cure = remedy if isinstance(remedy, str) else remedy(fault)
        raise RecordError(f"{path} cannot be {what}: {fault.strerror or fault}; {cure}") from fault
