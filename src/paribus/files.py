"""Files that others wrote, read with care: regular ones alone, and never more of one than its
kind may have.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from paribus.errors import SpecError

MAX_SPEC_BYTES = 2**24  # bytes of a file that a person or a config writes
MAX_TOKENIZER_BYTES = 2**28
MAX_RECORD_BYTES = 2**28
MAX_ROWS_BYTES = 2**31
MAX_LINE_BYTES = 2**16  # of a file that holds one line

_FILE_TYPES = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular_file(path: str | Path) -> int:
    """A descriptor to read a regular file from; OSError says what else it is, and nothing is
    waited for.
    """
    _require_regular(os.stat(path), path)  # before it is opened: to open a device may do something
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(path: str | Path, max_bytes: int) -> bytes:
    """All that a regular file holds; OSError where that is more than `max_bytes`."""
    with open(open_regular_file(path), "rb", buffering=0) as file:
        n_there = os.fstat(file.fileno()).st_size
        content = bytearray()
        while len(content) <= max_bytes and n_there <= max_bytes:
            more = file.read(max(n_there - len(content), 0) + 1)
            if not more:
                return bytes(content)
            content += more
    raise OSError(
        errno.EFBIG, f"it has more than {max_bytes:,} bytes, which no such file needs", str(path)
    )


def read_text(path: str | Path, max_bytes: int) -> str:
    """All that a regular file holds, as UTF-8."""
    return read_bytes(path, max_bytes).decode("utf-8")


def expand_home(field: str, path: str) -> Path:
    """A path with `~` laid open; SpecError where nobody has such a home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise SpecError(
            f"{field} {path!r} begins with the home folder of an unknown user; write a path that"
            " begins with /"
        ) from None


def looked_for(path: str | Path) -> str:
    """` (looked for /home/me/notes.txt)` behind a complaint about a relative path; nothing
    where it is whole.
    """
    if os.path.isabs(path):
        return ""
    return f" (looked for {os.path.abspath(path)})"


def _require_regular(status: os.stat_result, path: str | Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        kind = _FILE_TYPES.get(stat.S_IFMT(status.st_mode), "no file")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
