from pathlib import Path

import pytest
from run_state import write_state

from paribus.errors import RecordError
from paribus.record import read_state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_a_state_is_one_line(path: Path):
    assert read_state(path) is None
    write_state(path, "running")
    assert path.read_text() == "running\n"
    write_state(path, "failed", "ValueError: a: b\n  and more\n")
    assert path.read_text() == "failed: ValueError: a: b and more\n"
    assert read_state(path) == ("failed", "ValueError: a: b and more")
    write_state(path, "finished")
    assert read_state(path) == ("finished", "")


def test_a_long_reason_is_shortened(path: Path):
    write_state(path, "failed", "é" * 1000)
    state = read_state(path)
    assert state is not None
    assert state.reason == "é" * 499 + "…"


@pytest.mark.parametrize("content", [b"", b"done\n", b"\xff\xfe", b"finishedx"])
def test_a_state_that_is_none_is_refused(path: Path, content: bytes):
    path.write_bytes(content)
    with pytest.raises(
        RecordError,
        match=r"state holds '.*'; restore it \(running, finished or failed\), or remove it",
    ):
        read_state(path)


def test_a_state_that_cannot_be_read_is_told_of(tmp_path: Path):
    with pytest.raises(
        RecordError,
        match=f"{tmp_path} cannot be read: Is a directory; restore it, or remove it to run",
    ):
        read_state(tmp_path)
