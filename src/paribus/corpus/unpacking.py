"""How much text packed files may come to: a few kilobytes can hold a terabyte of zeros."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import dataclass, field
from typing import IO, Any, cast

from paribus.errors import RecordError

LEAST, TIMES = 2**28, 32  # bytes that any source may come to; times its size on disk. Text packs to a fifth or so
MAX_HEADER = 2**20  # bytes of a name, or of other facts about one file, in a tar
BUFFER = 2**17
_FACTS = (  # what the library reads whole into memory
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip
# Which the library takes for the end of a tar.
_BROKEN = (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError)  # pyright: ignore[reportAttributeAccessIssue]


def size_on_disk(seen: os.stat_result) -> int:
    """Bytes that a file takes up: a file with holes has fewer than it claims."""
    return min(seen.st_size, seen.st_blocks * 512)


@dataclass
class Allowance:
    """What the files of one source may still come to; `asked` is its max_unpacked."""

    asked: int | None
    on_disk: int
    n_read: int = field(default=0, init=False)

    @property
    def most(self) -> int:
        return max(LEAST, TIMES * self.on_disk) if self.asked is None else self.asked

    def take(self, n_bytes: int, where: str) -> None:
        """RecordError where that is more than was left."""
        self.n_read += n_bytes
        if self.n_read <= self.most:
            return
        raise RecordError(
            f"{where} brings its source to more than {self.most:,} bytes of unpacked text, from {self.on_disk:,} on "
            f"disk; look whether it is what you want, and set max_unpacked of the source to a larger number of bytes"
        )


def counted(stream: IO[bytes], allowance: Allowance, where: str) -> IO[bytes]:
    """The same stream; whatever is read of it is taken from an allowance."""
    return cast(IO[bytes], io.BufferedReader(_Counted(stream, allowance, where), BUFFER))


class _Counted(io.RawIOBase):
    def __init__(self, stream: IO[bytes], allowance: Allowance, where: str):
        self._stream, self._allowance, self._where = cast(io.BufferedReader, stream), allowance, where

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        size = self._stream.readinto(buffer)
        self._allowance.take(size, self._where)
        return size


class DamagedHeaderError(tarfile.TarError):
    """A header of a tar that no program writes."""


class TarEntry(tarfile.TarInfo):
    """A file in a tar, whose header may not claim more than headers hold."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> TarEntry:
        entry = super().frombuf(buf, encoding, errors)
        if entry.type in _FACTS and entry.size > MAX_HEADER:
            raise DamagedHeaderError(f"it has a header of {entry.size:,} bytes, where {MAX_HEADER:,} are enough")
        return entry

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> TarEntry:
        try:
            return super().fromtarfile(tarfile)
        except (ValueError, LookupError, ArithmeticError, RecursionError) as fault:  # which the library lets through
            raise DamagedHeaderError(f"it has a header that makes no sense ({fault})") from fault
        except _BROKEN as fault:
            if tarfile.offset == 0:  # which the library tells
                raise
            raise DamagedHeaderError(f"it has no header at byte {tarfile.offset:,} ({fault})") from fault

    def _proc_gnusparse_10(self, next: tarfile.TarInfo, pax_headers: Any, tarfile: tarfile.TarFile) -> None:  # noqa: A002
        """Only that it has holes: the library would read a list of them that may have no end."""
        next.sparse = []  # type: ignore[attr-defined]
