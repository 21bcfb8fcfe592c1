import errno
import os
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record.disk import (
    folder_draft,
    read_json,
    remove_folder,
    remove_leftovers,
    replace,
    write_atomically,
    write_json,
)


def test_replacing_leaves_nothing_else_behind(tmp_path: Path):
    replace(tmp_path / "a", b"1")
    replace(tmp_path / "a", b"2")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"2"}


def test_replacing_where_nothing_can_be_written_is_told_of(tmp_path: Path):
    (tmp_path / "file").touch()
    said = r"file/a cannot be written: Not a directory; free some space or choose another folder"
    with pytest.raises(RecordError, match=said):
        replace(tmp_path / "file" / "a", b"1")


def test_json_is_written_in_order_and_read_back(tmp_path: Path):
    write_json(tmp_path / "a", {"b": [1], "a": None})
    assert (tmp_path / "a").read_text().split() == [
        "{",
        '"a":',
        "null,",
        '"b":',
        "[",
        "1",
        "]",
        "}",
    ]
    assert read_json(tmp_path / "a") == {"a": None, "b": [1]}


def test_what_is_no_json_is_refused(tmp_path: Path):
    with pytest.raises(
        RecordError,
        match=r"a cannot be read: No such file or directory; restore it, or remove the fol",
    ):
        read_json(tmp_path / "a")
    for content in (b"{", b"\xff", b"[" * 100_000):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(
            RecordError,
            match=r"a is not JSON: .*; restore it, or remove the folder and start again",
        ):
            read_json(tmp_path / "a")


def test_sweeping_removes_leftovers_and_follows_no_link(tmp_path: Path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / ".tmp-a" / "b", inside / ".old-c", inside / "step", outside):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    (inside / ".tmp-file").touch()
    (inside / ".tmp-link").symlink_to(outside)
    assert remove_leftovers(inside) == (".old-c", ".tmp-a", ".tmp-file", ".tmp-link")
    assert [path.name for path in inside.iterdir()] == ["step"]
    assert (outside / "file").exists()
    assert remove_leftovers(inside) == ()
    assert remove_leftovers(tmp_path / "nowhere") == ()


def test_discarding_what_is_gone_is_told_of(tmp_path: Path):
    with pytest.raises(
        RecordError,
        match=r"gone cannot be removed: No such file or directory; make its folder writable",
    ):
        remove_folder(tmp_path / "gone")


def test_an_atomic_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_atomically(tmp_path / "a", b"1")
    monkeypatch.setattr("paribus.record.disk.sync", _full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "a", b"2")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"1"}


def test_a_folder_takes_its_name_when_it_is_filled_and_not_before(tmp_path: Path):
    place = tmp_path / "place"
    with folder_draft(place) as new:
        (new / "file").write_bytes(b"1")
        assert not place.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    assert (place / "file").read_bytes() == b"1"


def test_a_folder_that_could_not_be_filled_vanishes(tmp_path: Path):
    with pytest.raises(FileNotFoundError), folder_draft(tmp_path / "place") as new:
        (new / "missing" / "file").write_bytes(b"1")
    assert not list(tmp_path.iterdir())


def _full(path: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
