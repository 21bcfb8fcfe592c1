"""How much text packed files may come to: a few kilobytes can hold a terabyte of zeros."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import dataclass, field
from typing import IO, Any, cast

from paribus.errors import RecordError

# bytes that any source may come to; times its size on disk. Text packs to a fifth or so
MIN_LIMIT, MAX_RATIO = (
    2**28,
    32,
)
MAX_HEADER = 2**20  # bytes of a name, or of other facts about one file, in a tar
BUFFER_BYTES = 2**17
_EXTENDED_HEADERS = (  # what the library reads whole into memory
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
# Which the library takes for the end of a tar.
_BROKEN_HEADER_ERRORS = (
    tarfile.InvalidHeaderError,  # pyright: ignore[reportAttributeAccessIssue]
    tarfile.TruncatedHeaderError,  # pyright: ignore[reportAttributeAccessIssue]
)


def size_on_disk(status: os.stat_result) -> int:
    """Bytes that a file takes up: a file with holes has fewer than it claims."""
    return min(status.st_size, status.st_blocks * 512)


@dataclass
class DecompressionLimit:
    """What the files of one source may still come to; `max_unpacked` is what the source allows."""

    max_unpacked: int | None
    n_bytes_on_disk: int
    n_read: int = field(default=0, init=False)

    @property
    def max_bytes(self) -> int:
        if self.max_unpacked is None:
            return max(MIN_LIMIT, MAX_RATIO * self.n_bytes_on_disk)
        return self.max_unpacked

    def count(self, n_bytes: int, where: str) -> None:
        """RecordError where that is more than was left."""
        self.n_read += n_bytes
        if self.n_read <= self.max_bytes:
            return
        raise RecordError(
            f"{where} brings its source to more than {self.max_bytes:,} bytes of unpacked text,"
            f" from {self.n_bytes_on_disk:,} on disk; look whether it is what you want, and set"
            " max_unpacked of the source to a larger number of bytes"
        )


def limited_stream(stream: IO[bytes], limit: DecompressionLimit, where: str) -> IO[bytes]:
    """A stream of which whatever is read counts against a limit."""
    return cast(IO[bytes], io.BufferedReader(_LimitedStream(stream, limit, where), BUFFER_BYTES))


class _LimitedStream(io.RawIOBase):
    def __init__(self, stream: IO[bytes], limit: DecompressionLimit, where: str):
        self._stream, self._limit, self._where = cast(io.BufferedReader, stream), limit, where

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        size = self._stream.readinto(buffer)
        self._limit.count(size, self._where)
        return size


class DamagedHeaderError(tarfile.TarError):
    """A header of a tar that no program writes."""


class TarEntry(tarfile.TarInfo):
    """A file in a tar, whose header may not claim more than headers hold."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> TarEntry:
        entry = super().frombuf(buf, encoding, errors)
        if entry.type in _EXTENDED_HEADERS and entry.size > MAX_HEADER:
            raise DamagedHeaderError(
                f"it has a header of {entry.size:,} bytes, where {MAX_HEADER:,} are enough"
            )
        return entry

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> TarEntry:
        try:
            return super().fromtarfile(tarfile)
        except (
            ValueError,
            LookupError,
            ArithmeticError,
            RecursionError,
        ) as fault:  # which the library lets through
            raise DamagedHeaderError(f"it has a header that makes no sense ({fault})") from fault
        except _BROKEN_HEADER_ERRORS as fault:
            if tarfile.offset == 0:  # which the library tells
                raise
            raise DamagedHeaderError(
                f"it has no header at byte {tarfile.offset:,} ({fault})"
            ) from fault

    def _proc_gnusparse_10(
        self,
        next: tarfile.TarInfo,  # noqa: A002
        pax_headers: Any,
        tarfile: tarfile.TarFile,
    ) -> None:
        """Only that it has holes: the library would read a list of them that may have no end."""
        next.sparse = []  # type: ignore[attr-defined]
