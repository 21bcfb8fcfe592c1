"""Numbered lines of an open file, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from paribus.corpus.archives import ArchiveMember
from paribus.corpus.documents import SourceNotes, decode_text
from paribus.errors import RecordError
from paribus.spec.corpus import DecodeErrors

MAX_LINE_BYTES = 2**28
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # UTF-8 BOM, which some editors write first


def decoded_lines(
    member: ArchiveMember, errors: DecodeErrors, notes: SourceNotes
) -> Iterator[tuple[int, str]]:
    """Each line with its number from 1."""
    file_location = member.where
    for number, offset, line in numbered_lines(member.stream, file_location):
        yield number, decode_text(line, file_location, offset, errors, notes)


def numbered_lines(stream: IO[bytes], file_location: str) -> Iterator[tuple[int, int, bytes]]:
    """Each line with its number from 1 and the offset of its first byte."""
    number = 1
    offset = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise RecordError(
                f"{file_location} line {number} is longer than {MAX_LINE_BYTES} bytes; cut it into"
                " several"
            )
        if number == 1 and line.startswith(BYTE_ORDER_MARK):
            n_skipped = len(BYTE_ORDER_MARK)
        else:
            n_skipped = 0
        yield number, offset + n_skipped, line[n_skipped:]
        number += 1
        offset += len(line)
