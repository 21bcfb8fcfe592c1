import json
import math
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paribus.errors import RecordError
from paribus.record import CutSummary, RowWriter, cut_rows, last_row, read_rows

FULL_DISK = """
import resource, sys
from pathlib import Path
from paribus.errors import RecordError
from paribus.record import RowWriter
path, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
with RowWriter(path) as rows:
    for step in range(1000):
        try:
            rows.write({"step": step, "text": "x" * 37})
        except RecordError as fault:
            print(step, fault)
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    rows.write({"step": step, "text": "y"})
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def _steps(path: Path) -> list[int]:
    return [row["step"] for row in read_rows(path).rows]


def test_what_is_written_is_read_back(path: Path):
    first = {
        "step": 3,
        "nats": 0.1 + 0.2,
        "split": "é",
        "gates": [1, 2.5, None],
        "valid": {"nats": 7.0},
        "done": True,
    }
    with RowWriter(path) as rows:
        assert rows.write(first) == first
        rows.write({"step": 3})
        rows.sync()
    with RowWriter(path) as rows:
        rows.write({"step": 5, "rate": np.float64(0.25)})
    assert read_rows(path) == ([first, {"step": 3}, {"step": 5, "rate": 0.25}], None)
    assert last_row(path) == {"step": 5, "rate": 0.25}


def test_a_row_can_be_read_as_soon_as_it_is_written(path: Path):
    with RowWriter(path) as rows:
        rows.write({"step": 2})
        assert _steps(path) == [2]


def test_a_number_that_is_not_finite_is_null_and_named(path: Path):
    odd = {
        "step": 1,
        "nats": math.nan,
        "norms": [1.0, math.inf],
        "valid": {"gap": -math.inf, "nats": 2.0},
    }
    with RowWriter(path) as rows:
        rows.write(odd)
    (line,) = path.read_text().splitlines()
    assert json.loads(line, parse_constant=pytest.fail) == {
        "step": 1,
        "nats": None,
        "norms": [1.0, None],
        "valid": {"gap": None, "nats": 2.0},
        "nonfinite": {"nats": "nan", "norms.1": "inf", "valid.gap": "-inf"},
    }


def test_rows_made_under_another_environment_say_what_changed(path: Path):
    with RowWriter(path, environment_changes=("torch", "code")) as rows:
        assert rows.write({"step": 1}) == {"step": 1, "environment_changed": ["torch", "code"]}
    assert last_row(path) == {"step": 1, "environment_changed": ["torch", "code"]}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"nats": 1.0}, r"a row's step is None; give a whole number from 0 up"),
        ({"step": -1}, r"a row's step is -1; give"),
        ({"step": True}, r"a row's step is True; give"),
        ({"step": 2.0}, r"a row's step is 2.0; give"),
        ({"step": 6}, r"step 6 comes after step 7; cut the rows before resuming"),
        (
            {"step": 8, "nonfinite": 1},
            r"a row has a value of its own called 'nonfinite'; call it something else",
        ),
        (
            {"step": 8, "environment_changed": 1},
            r"a row has a value of its own called 'environment_changed'; call",
        ),
        (
            {"step": 8, "a": {"b": [np.float32(1)]}},
            r"a.b.0 is a float32; give numbers, text, lists or tables of them",
        ),
        ({"step": 8, "a": {1: 2}}, r"a is a dict; give"),
    ],
)
def test_a_row_that_cannot_be_kept_is_refused_and_leaves_no_trace(path: Path, row: dict, said: str):
    with RowWriter(path) as rows:
        rows.write({"step": 7})
        with pytest.raises(RecordError, match=f"^{path}: {said}"):
            rows.write(row)
        rows.write({"step": 8})
    assert _steps(path) == [7, 8]


def test_a_line_torn_at_any_byte_is_dropped_and_told_of(path: Path):
    whole = b'{"step": 1, "text": "\\u00e9"}\n'
    last = b'{"step": 2, "parts": [1.5, null], "text": "a\\nb"}\n'
    for kept in range(len(last) + 1):
        path.write_bytes(whole + last[:kept])
        rows, dropped = read_rows(path)
        expected = [1, 2] if kept == len(last) else [1]
        torn = 0 < kept < len(last)
        assert [row["step"] for row in rows] == expected
        assert dropped == (
            f"{path} ends in a torn line of {kept} bytes, which was dropped" if torn else None
        )
        assert last_row(path) == rows[-1]
        if torn:
            with pytest.raises(
                RecordError, match=f"{path} ends in a torn line; cut it before writing on"
            ):
                RowWriter(path)
        assert cut_rows(path, 9) == CutSummary(len(expected), 0, torn)
        with RowWriter(path) as again:
            again.write({"step": 9})
        assert _steps(path) == [*expected, 9]


def test_a_file_of_one_torn_line_has_no_rows(path: Path):
    path.write_bytes(b"\0\0\0")
    assert read_rows(path).rows == []
    assert last_row(path) is None
    assert cut_rows(path, 5) == CutSummary(0, 0, True)
    assert path.read_bytes() == b""


def test_no_file_has_no_rows(path: Path):
    assert read_rows(path) == ([], None)
    assert last_row(path) is None
    assert cut_rows(path, 5) == CutSummary(0, 0, False)
    assert not path.exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"step": 2', "is not JSON: .*; restore the file, or remove that line"),
        (b'{"step": 2, "nats": NaN}', "is not JSON: NaN is not a JSON number; restore"),
        (b"\xff", "is not JSON"),
        (b"", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[2]", "is not a row with a step; restore the file, or remove that line"),
        (b'{"nats": 2}', "is not a row with a step"),
    ],
)
def test_a_corrupt_line_is_refused_with_file_and_number(path: Path, line: bytes, said: str):
    path.write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 3}\n')
    before = path.read_bytes()
    for read in (lambda: read_rows(path), lambda: cut_rows(path, 1)):
        with pytest.raises(RecordError, match=f"^{path}, line 2 {said}"):
            read()
    assert path.read_bytes() == before


def test_a_corrupt_last_line_is_no_last_row(path: Path):
    path.write_bytes(b'{"step": 1}\n{"st\n')
    with pytest.raises(RecordError, match=f"^{path}, last line is not JSON"):
        last_row(path)


def test_the_last_row_is_found_however_long_it_is(path: Path):
    long = {"step": 2, "text": "x" * 1_000_003}
    with RowWriter(path) as rows:
        rows.write({"step": 1})
        rows.write(long)
        assert last_row(path) == long
        rows.write({"step": 3})
    assert last_row(path) == {"step": 3}


def test_cutting_drops_the_rows_of_later_steps(path: Path):
    with RowWriter(path) as rows:
        for step in (0, 1, 1, 2, 3):
            rows.write({"step": step})
    assert cut_rows(path, 5) == CutSummary(5, 0, False)
    assert cut_rows(path, 1) == CutSummary(3, 2, False)
    assert _steps(path) == [0, 1, 1]
    assert cut_rows(path, -1) == CutSummary(0, 3, False)
    assert path.read_bytes() == b""


def test_what_is_cut_away_may_be_corrupt(path: Path):
    path.write_bytes(b'{"step": 1}\n{"step": 2}\ncorrupt\n{"st')
    assert cut_rows(path, 1) == CutSummary(1, 2, True)
    assert path.read_bytes() == b'{"step": 1}\n'


def test_a_cut_that_changes_nothing_does_not_touch_the_file(path: Path):
    path.write_bytes(b'{"step": 1}\n')
    before = path.stat().st_ino
    cut_rows(path, 1)
    assert path.stat().st_ino == before
    cut_rows(path, 0)
    assert path.stat().st_ino != before
    assert [found.name for found in path.parent.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("limit", [1009, 1024, 1031])
def test_a_full_disk_leaves_whole_rows_and_the_file_can_be_written_again(path: Path, limit: int):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    command = [sys.executable, "-c", FULL_DISK, str(path), str(limit)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    step, said = ended.stdout.split(" ", 1)
    assert (
        f"{path} cannot be written: File too large; free some space; the same command resumes"
        " the run" in said
    )
    rows, dropped = read_rows(path)
    assert dropped is None
    assert [row["step"] for row in rows] == [*range(int(step)), int(step)]
    assert rows[-1]["text"] == "y"


def test_rows_that_cannot_be_opened_or_read_are_told_of(tmp_path: Path):
    with pytest.raises(
        RecordError, match=r"rows.jsonl cannot be opened: No such file or directory; give a folder"
    ):
        RowWriter(tmp_path / "nowhere" / "rows.jsonl")
    with pytest.raises(RecordError, match=f"{tmp_path} cannot be read: Is a directory; restore it"):
        read_rows(tmp_path)
    with pytest.raises(RecordError, match=f"{tmp_path} cannot be read: Is a directory; restore it"):
        last_row(tmp_path)


def test_rows_that_do_not_reach_the_disk_are_told_of(path: Path, monkeypatch: pytest.MonkeyPatch):
    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    with RowWriter(path) as rows:
        monkeypatch.setattr("os.fsync", failing)
        with pytest.raises(
            RecordError,
            match=f"^{path} cannot be brought to the disk: Input/output error; check the disk",
        ):
            rows.sync()


def test_a_cut_says_what_went():
    assert CutSummary(3, 0, False).description == ""
    assert CutSummary(3, 1, False).description == "1 row of a later step was cut"
    assert CutSummary(3, 2, False).description == "2 rows of later steps were cut"
    assert CutSummary(3, 0, True).description == "a torn line was dropped"
    assert (
        CutSummary(3, 2, True).description
        == "2 rows of later steps were cut and a torn line was dropped"
    )
