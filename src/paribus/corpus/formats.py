"""The documents of one open file: whole text, lines of JSON, rows of a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import IO, Any, Literal

from paribus.corpus.archives import ArchiveMember
from paribus.corpus.documents import Document, SourceNotes, decode_text, encode_text
from paribus.corpus.lines import BYTE_ORDER_MARK, decoded_lines, numbered_lines
from paribus.corpus.tagged_sentences import tagged_documents
from paribus.errors import RecordError, SpecError
from paribus.spec.corpus import (
    TEXT_SEPARATOR,
    DecodeErrors,
    Files,
    LabelledFiles,
    PairFiles,
    TaggedFiles,
    TextFiles,
)

PLAIN_TEXT_SUFFIXES = (".txt", ".md")
JSON_SUFFIXES = (".jsonl",)
KEYED_SUFFIXES = (*JSON_SUFFIXES, ".csv", ".tsv")
CHUNK_BYTES = 2**20


def file_documents(
    member: ArchiveMember, source: TextFiles, notes: SourceNotes
) -> Iterator[Document]:
    """Yields the documents of a file while it is read; `notes` counts the faults of UTF-8 that
    are replaced.
    """
    match source:
        case Files() if member.suffix in PLAIN_TEXT_SUFFIXES:
            yield from _plain_text_documents(member, source, notes)
        case LabelledFiles():
            yield from _labelled_documents(member, source, notes)
        case TaggedFiles():
            yield from tagged_documents(member, source, notes)
        case _:
            yield from _keyed_documents(member, source, notes)


def _keyed_documents(
    member: ArchiveMember, source: Files | PairFiles, notes: SourceNotes
) -> Iterator[Document]:
    """A document for each row: its text, or its source and target."""
    if isinstance(source, Files):
        keys = (source.text,)
    else:
        keys = (source.source, source.target)
    for location, values in _keyed_rows(member, keys, source.errors, notes):
        yield Document(*(encode_text(value, location, source.errors, notes) for value in values))


def _labelled_documents(
    member: ArchiveMember, source: LabelledFiles, notes: SourceNotes
) -> Iterator[Document]:
    """A document for each row: its text, or both texts on a line each, and its label."""
    keys = (source.text, source.label)
    if source.second is not None:
        keys = (source.text, source.second, source.label)
    rows = _keyed_rows(member, keys, source.errors, notes, numbers=(source.label,))
    for location, (*texts, label) in rows:
        if not label.strip() or label != label.strip():
            raise RecordError(
                f"{location} has the label {label!r}; give one without spaces around it"
            )
        text = TEXT_SEPARATOR.join(texts)
        yield Document(
            encode_text(text, location, source.errors, notes),
            encode_text(label, location, source.errors, notes),
        )


def _plain_text_documents(
    member: ArchiveMember, source: Files, notes: SourceNotes
) -> Iterator[Document]:
    """Cuts a file into documents of at most `max_document` bytes; nothing between them is
    dropped.
    """
    offset = 0  # of the buffer, in the file
    buffer = _read_chunk(member.stream, source.max_document)
    if buffer.startswith(BYTE_ORDER_MARK):
        offset = len(BYTE_ORDER_MARK)
        buffer = buffer[offset:]
    while buffer:
        begin = 0
        while len(buffer) - begin > source.max_document:
            end = cut_position(buffer, begin, begin + source.max_document)
            yield _document(buffer[begin:end], member, offset + begin, source.errors, notes)
            begin = end
        next_chunk = _read_chunk(member.stream, source.max_document)
        if not next_chunk:
            yield _document(buffer[begin:], member, offset + begin, source.errors, notes)
            return
        offset += begin
        buffer = buffer[begin:] + next_chunk


def _read_chunk(stream: IO[bytes], max_document: int) -> bytes:
    """Reads max_document bytes, or CHUNK_BYTES if that is more; less only at the end of the file.

    This way a long document is not assembled from many small chunks.
    """
    first = stream.read(CHUNK_BYTES)
    if len(first) < CHUNK_BYTES:
        return first
    chunks = [first]
    n_left = max_document - CHUNK_BYTES
    while n_left > 0:
        chunk = stream.read(min(CHUNK_BYTES, n_left))
        if not chunk:
            break
        chunks.append(chunk)
        n_left -= len(chunk)
    return b"".join(chunks)


def _document(
    data: bytes, member: ArchiveMember, offset: int, errors: DecodeErrors, notes: SourceNotes
) -> Document:
    return Document(decode_text(data, member.where, offset, errors, notes).encode())


def cut_position(text: bytes, begin: int, limit: int) -> int:
    """Where to cut between the middle and `limit`: preferably after an empty line, else a line,
    else a space, else between two characters.
    """
    middle = (begin + limit) // 2
    for separator in (b"\n\n", b"\n", b" "):
        index = text.rfind(separator, middle, limit)
        if index >= 0:
            return index + len(separator)
    position = limit
    while position > middle and text[position] & 0xC0 == 0x80:  # UTF-8 continuation byte
        position -= 1
    return position


def _keyed_rows(
    member: ArchiveMember,
    keys: Sequence[str],
    errors: DecodeErrors,
    notes: SourceNotes,
    numbers: Collection[str] = (),
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The location of each row in its file, and the row's values of these keys; whole numbers are
    text too where a key is one of `numbers`.
    """
    lines = decoded_lines(member, errors, notes)
    if member.suffix == ".jsonl":
        for number, line in lines:
            if line.strip():
                location = f"{member.where} line {number}"
                row = _parse_object(line, location)
                for key in numbers:
                    if isinstance(row.get(key), int) and not isinstance(row[key], bool):
                        row[key] = str(row[key])
                yield location, _text_values(row, keys, location)
    else:
        yield from _table_rows(lines, member, keys)


def json_objects(
    member: ArchiveMember, errors: DecodeErrors, notes: SourceNotes
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The location of each line of JSON in its file, and the object there."""
    for number, offset, line in numbered_lines(member.stream, member.where):
        location = f"{member.where} line {number}"
        text = decode_text(line, location, offset, errors, notes)
        if text.strip():
            yield location, _parse_object(text, location)


class _RepeatedKey(ValueError):
    """A key that occurs twice in a JSON object."""


def _dict_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict; raises _RepeatedKey if a key occurs twice."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise _RepeatedKey(first_duplicate(map(itemgetter(0), pairs)))
    return table


def first_duplicate(names: Iterable[str]) -> str | None:
    """The first name that occurs a second time, or None."""
    earlier_names: set[str] = set()
    for name in names:
        if name in earlier_names:
            return name
        earlier_names.add(name)
    return None


# Built once: json.loads would build a decoder for every line, which takes longer than decoding it.
_DECODER = json.JSONDecoder(object_pairs_hook=_dict_of_unique_keys)


def _parse_object(line: str, location: str) -> dict[str, Any]:
    try:
        value = _DECODER.decode(line)
    except _RepeatedKey as fault:
        raise RecordError(
            f"{location} has the key {fault.args[0]!r} twice; give each key once"
        ) from None
    except (ValueError, RecursionError) as fault:
        raise RecordError(f"{location} is not JSON: {fault}; write one object a line") from None
    if not isinstance(value, dict):
        raise RecordError(
            f"{location} is a {type(value).__name__}, not an object; write one object a line"
        )
    return value


def _text_values(row: dict[str, Any], keys: Sequence[str], location: str) -> tuple[str, ...]:
    """The values of these keys; raises if one is missing or not text."""
    values: list[str] = []
    for key in keys:
        value = row.get(key)
        if not isinstance(value, str):
            _require_keys(row, (key,), location, "key")
            raise RecordError(
                f"{location} has {key!r} = {value!r} ({type(value).__name__}); give it as text"
            )
        values.append(value)
    return tuple(values)


def _require_keys(
    names: Collection[str], keys: Sequence[str], location: str, noun: Literal["key", "column"]
) -> None:
    for key in keys:
        if key not in names:
            available = ", ".join(map(repr, names)) or "none"
            raise SpecError(f"{location} has no {noun} {key!r}; its {noun}s are {available}")


def _require_unique_columns(header: Sequence[str], keys: Sequence[str], location: str) -> None:
    """RecordError if two columns have the same name; unnamed columns that are not read may
    repeat.
    """
    duplicate = first_duplicate([name for name in header if name.strip() or name in keys])
    if duplicate is not None:
        raise RecordError(
            f"{location} has the column {duplicate!r} twice; give each column a name of its own"
        )


def _table_rows(
    lines: Iterator[tuple[int, str]], member: ArchiveMember, keys: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Rows under a header; in .tsv quotes have no special meaning."""
    texts = map(itemgetter(1), lines)
    is_tsv = member.suffix == ".tsv"
    if is_tsv:
        rows = csv.reader(texts, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        rows = csv.reader(texts, strict=True)
    try:
        header = next(rows, [])
        _require_unique_columns(header, keys, f"{member.where} line {rows.line_num}")
        _require_keys(dict.fromkeys(header), keys, member.where, "column")
        columns = list(map(header.index, keys))
        for row in rows:
            location = f"{member.where} line {rows.line_num}"
            if row and len(row) != len(header):
                raise RecordError(
                    f"{location} has {len(row)} columns, the header {len(header)}; give every row"
                    " as many columns as the header"
                )
            if row:
                yield location, tuple(map(row.__getitem__, columns))
    except csv.Error as fault:
        raise RecordError(
            f"{member.where} line {rows.line_num}: {fault}; correct it, or use .jsonl"
        ) from None
