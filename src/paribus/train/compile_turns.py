"""Turns at compiling: of several processes that would compile the same code at once, one does it,
and the others wait and read what it kept.

Side by side they would all compile, and take as many times as long: on an H200's machine with 16
cores, 16 runs that began together needed 65 to 320 seconds for their first steps. No number depends
on turns.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import torch

from paribus.canonical import canonical_hash

COMPILED_FOLDER_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"  # the folder of what torch compiles
TURNS = "turns"  # a folder there


class CompileTurns:
    """The turns of one model, which is told from others by its key; none where what is compiled
    has no folder that processes share.
    """

    def __init__(self, key: str):
        self.key = key
        folder = os.environ.get(COMPILED_FOLDER_VARIABLE)
        self.folder = Path(folder) / TURNS if folder else None
        self._taken: set[Hashable] = set()

    @contextmanager
    def take(self, code: Hashable) -> Iterator[None]:
        """While this code is compiled for the first time. Once one process has done so, nobody
        waits any more.
        """
        if self.folder is None or code in self._taken:
            yield
            return
        self._taken.add(code)
        name = canonical_hash([self.key, repr(code), torch.__version__])
        done = self.folder / f"{name}.done"
        with ExitStack() as turn:
            if not done.exists():
                file = _wait_for(self.folder / f"{name}.lock")
                if file is not None and not done.exists():
                    turn.enter_context(file)
                    # and not by closing it alone: what the compiler has forked may hold it too
                    turn.callback(fcntl.flock, file, fcntl.LOCK_UN)
                elif file is not None:
                    file.close()
            yield
        with suppress(OSError):
            done.touch()


def _wait_for(lock: Path) -> IO[str] | None:
    """A locked file; None where the folder has no locks, and everybody compiles. A process that
    ends unlocks its file.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        file.close()
        return None
    return file
