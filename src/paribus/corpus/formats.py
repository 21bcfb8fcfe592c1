"""The documents of one open file: whole text, lines of JSON, rows of a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import IO, Any

from paribus.corpus.archives import ArchiveMember
from paribus.corpus.documents import Document, SourceNotes, decode_text, encode_text
from paribus.errors import RecordError, SpecError
from paribus.spec.corpus import DecodeErrors, Files, PairFiles

PLAIN_TEXT_SUFFIXES = (".txt", ".md")
KEYED_SUFFIXES = (".jsonl", ".csv", ".tsv")
CHUNK_BYTES = 2**20
MAX_LINE_BYTES = 2**28
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # the byte order mark some editors put first


def file_documents(
    member: ArchiveMember, source: Files | PairFiles, notes: SourceNotes
) -> Iterator[Document]:
    """One by one, as the file is read."""
    if isinstance(source, Files) and member.suffix in PLAIN_TEXT_SUFFIXES:
        yield from _plain_text_documents(member, source, notes)
        return
    if isinstance(source, Files):
        keys = (source.text,)
    else:
        keys = (source.source, source.target)
    for place, values in _keyed_rows(member, keys, source.errors, notes):
        yield Document(*(encode_text(value, place, source.errors, notes) for value in values))


def _plain_text_documents(
    member: ArchiveMember, source: Files, notes: SourceNotes
) -> Iterator[Document]:
    """A file in documents of at most `max_document` bytes; put together they are the file again."""
    offset, held = 0, _next_bytes(member.stream, source.max_document)
    if held.startswith(BYTE_ORDER_MARK):
        offset, held = len(BYTE_ORDER_MARK), held[len(BYTE_ORDER_MARK) :]
    while held:
        begin = 0
        while len(held) - begin > source.max_document:
            end = cut_position(held, begin, begin + source.max_document)
            yield _document(held[begin:end], member, offset + begin, source.errors, notes)
            begin = end
        more = _next_bytes(member.stream, source.max_document)
        if not more:
            yield _document(held[begin:], member, offset + begin, source.errors, notes)
            return
        offset, held = offset + begin, held[begin:] + more


def _next_bytes(stream: IO[bytes], max_document: int) -> bytes:
    """As much as a document may have or some more, so that none is put together of many; all at
    the end.
    """
    first = stream.read(CHUNK_BYTES)
    if len(first) < CHUNK_BYTES or max_document <= CHUNK_BYTES:
        return first
    parts, n_left = [first], max_document - CHUNK_BYTES
    while n_left > 0 and (part := stream.read(min(CHUNK_BYTES, n_left))):
        parts.append(part)
        n_left -= len(part)
    return b"".join(parts)


def _document(
    data: bytes, member: ArchiveMember, offset: int, errors: DecodeErrors, notes: SourceNotes
) -> Document:
    return Document(decode_text(data, member.where, offset, errors, notes).encode())


def cut_position(text: bytes, begin: int, end: int) -> int:
    """A good place to cut in the second half: after an empty line, a line, a word, or anywhere
    between characters.
    """
    half = (begin + end) // 2
    for sign in (b"\n\n", b"\n", b" "):
        place = text.rfind(sign, half, end)
        if place >= 0:
            return place + len(sign)
    while end > half and text[end] & 0xC0 == 0x80:
        end -= 1
    return end


def _keyed_rows(
    member: ArchiveMember, keys: Sequence[str], errors: DecodeErrors, notes: SourceNotes
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The values of some keys, row by row, and where each row lies."""
    lines = _decoded_lines(member, errors, notes)
    if member.suffix == ".jsonl":
        for number, line in lines:
            if line.strip():
                place = f"{member.where} line {number}"
                yield place, _row_values(_parse_object(line, place), keys, place, "key")
    else:
        yield from _table_rows(lines, member, keys)


def _decoded_lines(
    member: ArchiveMember, errors: DecodeErrors, notes: SourceNotes
) -> Iterator[tuple[int, str]]:
    """Each line with its number from 1."""
    where = member.where
    for number, offset, line in _numbered_lines(member.stream, where):
        yield number, decode_text(line, where, offset, errors, notes)


def _numbered_lines(stream: IO[bytes], where: str) -> Iterator[tuple[int, int, bytes]]:
    """Each line with its number from 1 and its first byte's place."""
    number, offset = 1, 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise RecordError(
                f"{where} line {number} is longer than {MAX_LINE_BYTES} bytes; cut it into several"
            )
        if number == 1 and line.startswith(BYTE_ORDER_MARK):
            mark = len(BYTE_ORDER_MARK)
        else:
            mark = 0
        yield number, offset + mark, line[mark:]
        number, offset = number + 1, offset + len(line)


class _RepeatedKey(ValueError):
    """A key that one object of JSON has more than once."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, each of whose keys stands there once."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise _RepeatedKey(first_duplicate(map(itemgetter(0), pairs)))
    return table


def first_duplicate(names: Iterable[str]) -> str | None:
    """The first name that stands there a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


# Made once: json.loads would make one for each line, which takes longer than the line.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)


def _parse_object(line: str, place: str) -> dict[str, Any]:
    try:
        given = _DECODER.decode(line)
    except _RepeatedKey as fault:
        raise RecordError(
            f"{place} has the key {fault.args[0]!r} twice; give each key once"
        ) from None
    except (ValueError, RecursionError) as fault:
        raise RecordError(f"{place} is not JSON: {fault}; write one object a line") from None
    if not isinstance(given, dict):
        raise RecordError(
            f"{place} is a {type(given).__name__}, not an object; write one object a line"
        )
    return given


def _row_values(row: dict[str, Any], keys: Sequence[str], place: str, kind: str) -> tuple[str, ...]:
    for key in keys:
        if key not in row:
            there = ", ".join(map(repr, row)) or "none"
            raise SpecError(f"{place} has no {kind} {key!r}; its {kind}s are {there}")
        if not isinstance(row[key], str):
            raise RecordError(
                f"{place} has {key!r} = {row[key]!r} ({type(row[key]).__name__}); give it as text"
            )
    return tuple(row[key] for key in keys)


def _require_unique_columns(header: Sequence[str], keys: Sequence[str], place: str) -> None:
    """RecordError where two columns have one name; columns without a name that nobody reads may
    be many.
    """
    repeated = first_duplicate([name for name in header if name.strip() or name in keys])
    if repeated is not None:
        raise RecordError(
            f"{place} has the column {repeated!r} twice; give each column a name of its own"
        )


def _table_rows(
    lines: Iterator[tuple[int, str]], member: ArchiveMember, keys: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Rows under a header; in .tsv a quote is a letter like any other."""
    texts = map(itemgetter(1), lines)
    tabs = member.suffix == ".tsv"
    if tabs:
        rows = csv.reader(texts, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        rows = csv.reader(texts, strict=True)
    try:
        header = next(rows, [])
        _require_unique_columns(header, keys, f"{member.where} line {rows.line_num}")
        _row_values(dict.fromkeys(header, ""), keys, member.where, "column")
        for row in rows:
            place = f"{member.where} line {rows.line_num}"
            if row and len(row) != len(header):
                raise RecordError(
                    f"{place} has {len(row)} columns, the header {len(header)}; give each row as"
                    " many"
                )
            if row:
                yield place, _row_values(dict(zip(header, row, strict=True)), keys, place, "column")
    except csv.Error as fault:
        raise RecordError(
            f"{member.where} line {rows.line_num}: {fault}; correct it, or use .jsonl"
        ) from None
