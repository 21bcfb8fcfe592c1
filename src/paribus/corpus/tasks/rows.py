"""Rows of a task's files: the values of each column, and where the row stands.

.jsonl is one object per line, .csv and .tsv have a header, .parquet needs pyarrow. Inner tables are
columns of their own: `choices.text`. Numbers are text here, as they were written.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from paribus.corpus.archives import ArchiveMember
from paribus.corpus.formats import BYTE_ORDER_MARK, first_duplicate
from paribus.errors import SpecError, UnsupportedError
from paribus.spec.templates import Values

ROW_SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet")
MAX_LINE_BYTES = 2**26
MAX_FILE_BYTES = 2**30  # of a file that is read whole: .json and .parquet


@dataclass(frozen=True)
class TaskRow:
    """The values of a row by column, and its place: `questions.jsonl line 3`."""

    where: str
    values: Values


def file_rows(member: ArchiveMember) -> Iterator[TaskRow]:
    """Every row of a file, by the ending of its name."""
    match member.suffix:
        case ".jsonl":
            for where, text in text_lines(member):
                if text.strip():
                    yield TaskRow(where, flat_values(parse_json(text, where), where))
        case ".parquet":
            yield from _parquet_rows(member)
        case _:
            yield from table_rows(member, tab=member.suffix == ".tsv")


def text_lines(member: ArchiveMember, fallback: str | None = None) -> Iterator[tuple[str, str]]:
    """Each line with its place; SpecError where it is not UTF-8, unless its format has an older
    encoding to fall back on.
    """
    number = 0
    while line := member.stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        where = f"{member.where} line {number}"
        if len(line) > MAX_LINE_BYTES:
            raise SpecError(f"{where} is longer than {MAX_LINE_BYTES} bytes; cut it into several")
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        try:
            text = line.decode()
        except UnicodeDecodeError as fault:
            if fallback is None:
                raise SpecError(
                    f"{where} is not UTF-8 at byte {fault.start} of the line; save the file as"
                    " UTF-8"
                ) from None
            text = line.decode(fallback)
        yield where, text.rstrip("\r\n")


def whole_json(member: ArchiveMember) -> Any:
    """A .json file as one value."""
    data = _read_whole(member.stream, member.where).removeprefix(BYTE_ORDER_MARK)
    try:
        text = data.decode()
    except UnicodeDecodeError as fault:
        line = data[: fault.start].count(b"\n") + 1
        raise SpecError(
            f"{member.where} line {line} is not UTF-8; save the file as UTF-8"
        ) from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise SpecError(f"{member.where} is not JSON: {fault}; correct it there") from None


def parse_json(text: str, where: str) -> dict[str, Any]:
    """One JSON object; SpecError with its place where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise SpecError(f"{where} is not JSON: {fault}; write one object per line") from None
    if not isinstance(value, dict):
        raise SpecError(
            f"{where} is a {type(value).__name__}, not an object; write one object per line"
        )
    return value


def flat_values(table: Mapping[str, Any], where: str) -> dict[str, str | tuple[str, ...]]:
    """The columns of an object; those of an inner one are called `outer.inner`. What is null has no
    column.
    """
    values: dict[str, str | tuple[str, ...]] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            for name, inner in flat_values(value, where).items():
                values[f"{key}.{name}"] = inner
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for name in value[0]:
                inner_values = [inner.get(name) for inner in value if isinstance(inner, Mapping)]
                values[f"{key}.{name}"] = tuple(_scalar(one, where, name) for one in inner_values)
        elif isinstance(value, list):
            values[key] = tuple(_scalar(one, where, key) for one in value)
        elif value is not None:
            values[key] = _scalar(value, where, key)
    return values


def _scalar(value: Any, where: str, column: str) -> str:
    """A value as text: numbers as JSON writes them."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise SpecError(
                f"{where} has half a surrogate pair in {column!r}; correct it"
            ) from None
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise SpecError(
        f"{where} has {column!r} = {str(value)[:40]} ({type(value).__name__}); give text, a number"
        " or a list of them"
    )


def table_rows(
    member: ArchiveMember, tab: bool, header: Sequence[str] | None = None
) -> Iterator[TaskRow]:
    """Rows of .csv or .tsv under their header, or under the one that is given; in .tsv quotes have
    no meaning.
    """
    texts = (text + "\n" for _, text in text_lines(member))
    if tab:
        rows = csv.reader(texts, delimiter="\t", quoting=csv.QUOTE_NONE)
    else:
        rows = csv.reader(texts, strict=True)
    try:
        names = list(header) if header is not None else next(rows, [])
        twice = first_duplicate([name for name in names if name.strip()])
        if twice is not None:
            raise SpecError(
                f"{member.where} line 1 has the column {twice!r} twice; give each its own name"
            )
        for row in rows:
            where = f"{member.where} line {rows.line_num}"
            if row and len(row) != len(names):
                raise SpecError(
                    f"{where} has {len(row)} columns, the header {len(names)}; give every row as"
                    " many as the header"
                )
            if row:
                yield TaskRow(where, dict(zip(names, row, strict=True)))
    except csv.Error as fault:
        raise SpecError(
            f"{member.where} line {rows.line_num}: {fault}; correct it, or use .jsonl"
        ) from None


def _parquet_rows(member: ArchiveMember) -> Iterator[TaskRow]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UnsupportedError(
            f"{member.where} is parquet, which needs pyarrow; install paribus[data], or use .jsonl"
        ) from None
    content = io.BytesIO(_read_whole(member.stream, member.where))
    try:
        table = parquet.read_table(content)
    except Exception as fault:  # the library raises errors of its own
        raise SpecError(f"{member.where} is not parquet: {fault}; get it again") from None
    for number, row in enumerate(table.to_pylist(), 1):
        where = f"{member.where} row {number}"
        yield TaskRow(where, flat_values(row, where))


def _read_whole(stream: IO[bytes], where: str) -> bytes:
    data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise SpecError(f"{where} has more than {MAX_FILE_BYTES:,} bytes; use .jsonl instead")
    return data
