"""Zstandard frame by frame: the library's own stream takes a file that was cut short for a
whole one.
"""

from __future__ import annotations

import io
from importlib import import_module
from typing import IO, Any

from paribus.errors import UnsupportedError

CHUNK_BYTES = 2**12  # packed bytes taken at once; each may become some ten thousand


def open_zstandard(compressed: IO[bytes], where: str) -> IO[bytes]:
    """What the frames of a stream hold, one after another; EOFError where the last is not whole."""
    try:
        library = import_module("zstandard")
    except ImportError:
        raise UnsupportedError(
            f"{where} is packed with Zstandard and needs zstandard; install paribus[data]"
        ) from None
    return io.BufferedReader(_ZstandardStream(compressed, library))


class _ZstandardStream(io.RawIOBase):
    def __init__(self, compressed: IO[bytes], library: Any):
        self._compressed, self._library = compressed, library
        self._frame: Any = self._new_frame()  # None between frames
        self._unused = b""  # packed bytes after the end of a frame
        self._buffer = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._buffer:
            chunk = self._unused or self._compressed.read(CHUNK_BYTES)
            if not chunk and self._frame is not None:
                raise EOFError("it ends inside a frame")
            if not chunk:
                return 0
            self._decompress(chunk)
        size = min(len(buffer), len(self._buffer))
        buffer[:size], self._buffer = self._buffer[:size], self._buffer[size:]
        return size

    def _decompress(self, data: bytes) -> None:
        frame = self._frame or self._new_frame()
        try:
            self._buffer = memoryview(frame.decompress(data))
        except (
            self._library.ZstdError
        ) as fault:  # neither an OSError nor an EOFError, as other packings have
            raise OSError(str(fault)) from fault
        self._unused, self._frame = frame.unused_data, None if frame.eof else frame

    def _new_frame(self) -> Any:
        return self._library.ZstdDecompressor().decompressobj()
