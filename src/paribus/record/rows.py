"""Rows: what was measured, one JSON object a line, in the order of their steps."""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from paribus.errors import RecordError
from paribus.files import MAX_ROWS_BYTES, open_regular_file, read_bytes
from paribus.record.disk import explained, replace, sync

Row = dict[str, Any]
NONFINITE = "nonfinite"  # name → nan, inf or -inf, of numbers that JSON can only write as null
# what the machine or the code no longer has in common with the run's start
ENVIRONMENT_CHANGED = "environment_changed"
# what of a row the clock decides
CLOCK_FIELDS = ("seconds", "compile_seconds", "compile_wait_seconds")
_NUMBERS = (
    "tokens_read",
    "tokens_scored",
    "bytes_scored",
    "dense_flops",
    *CLOCK_FIELDS,
    "nats",
    "valid_nats",
    "valid_kl",
)
_TAIL_BYTES, _MAX_TAIL_BYTES = 1 << 16, 1 << 26


class ParsedRows(NamedTuple):
    """The rows of a file, and what was dropped at its end, in words, if anything."""

    rows: list[Row]
    dropped_description: str | None


class CutSummary(NamedTuple):
    """How many rows stayed and went, and whether a torn line went with them."""

    n_kept: int
    n_dropped: int
    had_torn_line: bool

    @property
    def description(self) -> str:
        """What went, in words; empty where nothing did."""
        n = self.n_dropped
        losses = []
        if n == 1:
            losses.append("1 row of a later step was cut")
        elif n != 0:
            losses.append(f"{n} rows of later steps were cut")
        if self.had_torn_line:
            losses.append("a torn line was dropped")
        return " and ".join(losses)


class RowWriter:
    """Appends rows to a file. Each is handed to the system whole when written; `sync` brings
    them to the disk.
    """

    def __init__(self, path: Path, environment_changes: Sequence[str] = ()):
        """`environment_changes` are marked in every row: what of the environment is not what the
        run was started under.
        """
        last = last_row(path)
        self.path = path
        if environment_changes:
            self._marks = {ENVIRONMENT_CHANGED: list(environment_changes)}
        else:
            self._marks = {}
        self._step = -1 if last is None else last["step"]
        with explained(path, "opened", "give a folder you may write to"):
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 (closed by close)
        if not _ends_in_newline(self._file):
            self.close()
            raise RecordError(f"{path} ends in a torn line; cut it before writing on")

    def write(self, row: Mapping[str, Any]) -> Row:
        """Append one row and return it as written; a number that is not finite is null and
        named in `nonfinite`.
        """
        checked_row = self._check_row(row)
        self._append((json.dumps(checked_row, allow_nan=False) + "\n").encode())
        self._step = checked_row["step"]
        return checked_row

    def sync(self) -> None:
        """Bring every row to the disk: before a checkpoint that counts on them."""
        sync_rows(self.path)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_row(self, row: Mapping[str, Any]) -> Row:
        for name in (NONFINITE, ENVIRONMENT_CHANGED):
            if name in row:
                raise RecordError(
                    f"{self.path}: a row has a value of its own called {name!r}; call it something"
                    " else"
                )
        step = row.get("step")
        if not _is_step(step):
            raise RecordError(
                f"{self.path}: a row's step is {step!r}; give a whole number from 0 up"
            )
        if row["step"] < self._step:
            raise RecordError(
                f"{self.path}: step {step} comes after step {self._step}; cut the rows before"
                " resuming"
            )
        odd: dict[str, str] = {}
        plain = {name: self._plain_value(value, name, odd) for name, value in row.items()}
        return {**plain, **({NONFINITE: odd} if odd else {}), **self._marks}

    def _plain_value(self, value: Any, name: str, odd: dict[str, str]) -> Any:
        match value:
            case None | bool() | int() | str():
                return value
            case float():
                if math.isfinite(value):
                    return float(value)
                odd[name] = repr(float(value))
                return None
            case list() | tuple():
                return [
                    self._plain_value(inner, f"{name}.{place}", odd)
                    for place, inner in enumerate(value)
                ]
            case dict() if all(isinstance(key, str) for key in value):
                return {
                    key: self._plain_value(inner, f"{name}.{key}", odd)
                    for key, inner in value.items()
                }
            case _:
                type_name = type(value).__name__
                raise RecordError(
                    f"{self.path}: {name} is a {type_name}; give numbers, text, lists or tables"
                    " of them"
                )

    def _append(self, line: bytes) -> None:
        size = self._file.seek(0, os.SEEK_END)
        try:
            with explained(
                self.path, "written", "free some space; the same command resumes the run"
            ):
                while line:
                    line = line[self._file.write(line) :]
        except BaseException:
            os.ftruncate(self._file.fileno(), size)  # half a row would spoil the next one
            raise


def sync_rows(path: Path) -> None:
    """Bring the rows of a file to the disk, whoever wrote them."""
    if path.exists():
        with explained(
            path, "brought to the disk", "check the disk; the same command resumes the run"
        ):
            sync(path)


def rows_sha256(path: Path, last_step: int | None = None) -> str:
    """The sha256 of all rows so far, or of those up to a step; where there is no file, of none."""
    content = _read_content(path)
    if last_step is None:
        return hashlib.sha256(content).hexdigest()
    end = 0
    for row, stop in _parse_rows(path, content):
        if row["step"] <= last_step:
            end = max(end, stop)
    return hashlib.sha256(content[:end]).hexdigest()


def read_rows(path: Path) -> ParsedRows:
    """Every row of a file; a torn last line is dropped and told of, a corrupt line is a
    RecordError with its number.
    """
    content = _read_content(path)
    n_torn_bytes = len(content) - _n_whole_bytes(content)
    if n_torn_bytes:
        note = f"{path} ends in a torn line of {n_torn_bytes} bytes, which was dropped"
    else:
        note = None
    return ParsedRows([row for row, _ in _parse_rows(path, content)], note)


def last_row(path: Path) -> Row | None:
    """The last whole row, read from the end of the file; None where there is none."""
    if not path.exists():
        return None
    with explained(path, "read", "restore it"), open(open_regular_file(path), "rb") as file:
        size, tail = file.seek(0, os.SEEK_END), _TAIL_BYTES
        while True:
            file.seek(max(size - tail, 0))
            lines = file.read().split(b"\n")[:-1]
            if len(lines) > 1 or tail >= size:
                if lines:
                    return _parse_row(lines[-1], f"{path}, last line")
                return None
            if tail > _MAX_TAIL_BYTES:
                raise RecordError(
                    f"{path} ends in a line of more than {_MAX_TAIL_BYTES:,} bytes; restore it"
                )
            tail *= 4


def seconds_without_compiling(row: Mapping[str, Any]) -> float:
    """The seconds of training up to a row, less those spent compiling or waiting for a process that
    compiles: what a speed is of. Rows of a CPU and older ones do not tell of any.
    """
    compiling = row.get("compile_seconds") or 0.0
    return row["seconds"] - compiling - (row.get("compile_wait_seconds") or 0.0)


def require_last_step(path: Path, last: Row | None, n_steps: int, advice: str) -> None:
    """RecordError where the rows of a finished run end elsewhere than at its last step, which
    always has one.
    """
    n_there = 0 if last is None else last["step"] + 1
    if n_there != n_steps:
        raise RecordError(
            f"{path.parent} finished, but its rows end at step {n_there} of {n_steps}; {advice}"
        )


def cut_rows(path: Path, after_step: int) -> CutSummary:
    """Drop the rows of later steps and a torn last line, all at once; what lies behind the
    first such row is not read.

    `after_step` -1 drops every row.
    """
    content = _read_content(path)
    n_kept, end = 0, 0
    for row, stop in _parse_rows(path, content):
        if row["step"] > after_step:
            break
        n_kept, end = n_kept + 1, stop
    if end < len(content):
        replace(path, content[:end])
    return CutSummary(n_kept, content.count(b"\n", end), _n_whole_bytes(content) < len(content))


def _parse_rows(path: Path, content: bytes) -> Iterator[tuple[Row, int]]:
    """Each whole row and where its line ends."""
    end = 0
    for number, line in enumerate(content[: _n_whole_bytes(content)].split(b"\n")[:-1], 1):
        end += len(line) + 1
        yield _parse_row(line, f"{path}, line {number}"), end


def _parse_row(line: bytes, where: str) -> Row:
    try:
        row = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as fault:
        raise RecordError(
            f"{where} is not JSON: {fault}; restore the file, or remove that line"
        ) from fault
    if not isinstance(row, dict) or not _is_step(row.get("step")):
        raise RecordError(
            f"{where} is not a row with a step; restore the file, or remove that line"
        )
    odd = [name for name in _NUMBERS if not isinstance(row.get(name), int | float | None)]
    if odd:
        raise RecordError(
            f"{where}: {odd[0]} is {str(row[odd[0]])[:40]!r}, not a number; restore the file"
        )
    return row


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _read_content(path: Path) -> bytes:
    with explained(path, "read", "restore it"):
        if path.exists():
            return read_bytes(path, MAX_ROWS_BYTES)
        return b""


def _n_whole_bytes(content: bytes) -> int:
    """How many bytes are whole lines: a line is written with its end, so one without is torn."""
    return content.rfind(b"\n") + 1


def _ends_in_newline(file: IO[bytes]) -> bool:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 1, 0))
    return file.read(1) in (b"", b"\n")
