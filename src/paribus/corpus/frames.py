"""Zstandard frame by frame: the library's own stream takes a file that was cut short for a whole one."""

from __future__ import annotations

import io
from importlib import import_module
from typing import IO, Any

from paribus.errors import UnsupportedError

CHUNK = 2**12  # packed bytes taken at once; each may become some ten thousand


def unpacked(packed: IO[bytes], where: str) -> IO[bytes]:
    """What the frames of a stream hold, one after another; EOFError where the last is not whole."""
    try:
        library = import_module("zstandard")
    except ImportError:
        raise UnsupportedError(f"{where} is packed with Zstandard and needs zstandard; install paribus[data]") from None
    return io.BufferedReader(_Frames(packed, library))


class _Frames(io.RawIOBase):
    def __init__(self, packed: IO[bytes], library: Any):
        self._packed, self._library = packed, library
        self._frame: Any = self._opened()  # None between frames
        self._left = b""  # packed bytes after the end of a frame
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._held:
            given = self._left or self._packed.read(CHUNK)
            if not given and self._frame is not None:
                raise EOFError("it ends inside a frame")
            if not given:
                return 0
            self._take(given)
        size = min(len(buffer), len(self._held))
        buffer[:size], self._held = self._held[:size], self._held[size:]
        return size

    def _take(self, given: bytes) -> None:
        frame = self._frame or self._opened()
        try:
            self._held = memoryview(frame.decompress(given))
        except self._library.ZstdError as fault:  # neither an OSError nor an EOFError, as other packings have
            raise OSError(str(fault)) from fault
        self._left, self._frame = frame.unused_data, None if frame.eof else frame

    def _opened(self) -> Any:
        return self._library.ZstdDecompressor().decompressobj()
