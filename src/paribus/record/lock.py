"""One process at a time.

The operating system holds the lock and lets go of it however the process ends, kill -9 included;
the file itself only says who. On a network file system whose locks are kept per machine (NFS
mounted `nolock` or `local_lock`, Lustre with `localflock`), processes on two machines do not see
each other's lock: start a run there from one machine at a time.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paribus.errors import InUseError
from paribus.files import MAX_LINE_BYTES, read_bytes
from paribus.record.disk import explained

_TRIES, _PAUSE_SECONDS = 20, 0.01  # a reader asking `is_locked` has the lock for an instant


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock `path`; InUseError names the process and host that have it."""
    with explained(path, "locked", "give a folder you may write to"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    descriptors = [descriptor]

    def release() -> None:
        while descriptors:
            os.close(descriptors.pop())

    os.register_at_fork(
        after_in_child=release
    )  # or a worker that outlives a killed run would keep its lock
    try:
        _acquire(descriptor, path)
        _write_owner(descriptor)
        yield
    finally:
        release()


def is_locked(path: Path) -> bool:
    """Does a living process hold this lock?"""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not _try_acquire(descriptor, fcntl.LOCK_SH)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path) -> None:
    with explained(path, "locked", "put the runs on a disk that has file locks"):
        for _ in range(_TRIES):
            if _try_acquire(descriptor, fcntl.LOCK_EX):
                return
            time.sleep(_PAUSE_SECONDS)
    raise InUseError(
        f"{path.parent} is in use by {_describe_owner(path)}; wait for it, stop it, or choose"
        " another run"
    )


def _try_acquire(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_owner(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(
        descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0
    )


def _describe_owner(path: Path) -> str:
    try:
        owner = json.loads(read_bytes(path, MAX_LINE_BYTES))
        return f"process {owner['pid']} on {owner['host']}"
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ):  # it has taken the lock and not signed yet
        return "another process"
