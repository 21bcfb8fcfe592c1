"""Checksums: a file that is not what was written is known, and a process killed on the way
raises no alarm.
"""

import json
import os
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record import checksums as module
from paribus.record.checksums import (
    file_faults,
    is_listed,
    list_file,
    read_checksums,
    remove_listed_file,
    require_unchanged_file,
    write_listed_file,
)
from paribus.record.file_names import CHECKSUMS_FILE


def lines(folder: Path) -> list[bytes]:
    return (folder / CHECKSUMS_FILE).read_bytes().splitlines(keepends=True)


def test_what_was_written_agrees_and_what_was_changed_does_not(tmp_path: Path) -> None:
    write_listed_file(tmp_path, "a", b"one")
    write_listed_file(tmp_path, "b", b"two")
    assert file_faults(tmp_path, ("a",)) == ()
    (tmp_path / "a").write_bytes(b"eno")
    (tmp_path / "b").unlink()
    assert file_faults(tmp_path, ("a", "c")) == (
        "a is not what was written (sha256 differs)",
        "c is not listed in checksums.jsonl",
        "b is missing",
    )


def test_a_file_is_not_what_it_was_before(tmp_path: Path) -> None:
    write_listed_file(tmp_path, "a", b"one")
    write_listed_file(tmp_path, "a", b"two")
    (tmp_path / "a").write_bytes(b"one")
    with pytest.raises(
        RecordError, match=r"/a is not what was written \(sha256 differs\); do that$"
    ):
        require_unchanged_file(tmp_path, "a", "do that")


def test_a_file_that_was_never_listed_is_not_judged(tmp_path: Path) -> None:
    require_unchanged_file(tmp_path, "a", "")
    write_listed_file(tmp_path, "b", b"")
    require_unchanged_file(tmp_path, "a", "")


@pytest.mark.parametrize("first", [None, b"one"])
@pytest.mark.parametrize("killed_at", ["before the file", "after the file"])
def test_a_kill_between_list_and_file_leaves_no_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes | None, killed_at: str
) -> None:
    if first is not None:
        write_listed_file(tmp_path, "a", first)
    kept = module.replace

    def killed(path: Path, content: bytes) -> None:
        if killed_at == "after the file":
            kept(path, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_listed_file(tmp_path, "a", b"two")
    monkeypatch.undo()
    assert file_faults(tmp_path, ("a",)) == ()
    write_listed_file(tmp_path, "a", b"three")
    (tmp_path / "a").write_bytes(b"two")
    assert file_faults(tmp_path, ()) == ("a is not what was written (sha256 differs)",)


def test_a_file_that_grew_is_listed_when_it_is_finished(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"row\n")
    list_file(tmp_path, "a")
    assert file_faults(tmp_path, ("a",)) == ()
    (tmp_path / "a").write_bytes(b"")
    assert file_faults(tmp_path, ("a",)) == ("a is not what was written (sha256 differs)",)


def test_a_file_that_we_removed_is_not_missing_and_must_not_come_back(tmp_path: Path) -> None:
    remove_listed_file(tmp_path, "a")
    assert not (tmp_path / CHECKSUMS_FILE).exists()
    write_listed_file(tmp_path, "a", b"one")
    assert is_listed(tmp_path, "a")
    remove_listed_file(tmp_path, "a")
    assert not is_listed(tmp_path, "a")
    assert file_faults(tmp_path, ("a",)) == ()
    (tmp_path / "a").write_bytes(b"one")
    assert file_faults(tmp_path, ()) == ("a is not what was written (sha256 differs)",)


def test_a_list_that_was_changed_is_known_by_its_line(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_listed_file(tmp_path, name, name.encode())
    path, whole = tmp_path / CHECKSUMS_FILE, lines(tmp_path)
    entry = json.loads(whole[1])
    for damaged, number in (
        ([whole[0], *whole[2:]], 2),
        ([whole[0], json.dumps({**entry, "sha256": "0" * 64}).encode() + b"\n", *whole[2:]], 2),
        ([*whole[:3], b"null\n"], 4),
        ([*whole, b'{"file": "c", "sha256": NaN, "sum": ""}\n'], 5),
        ([*whole, b"[" * 100_000 + b"\n"], 5),
        ([b"\xff\n"], 1),
    ):
        path.write_bytes(b"".join(damaged))
        assert file_faults(tmp_path, ()) == (f"checksums.jsonl was changed in line {number}",)
        with pytest.raises(
            RecordError,
            match=rf"checksums.jsonl was changed in line {number}; restore it, or remove",
        ):
            write_listed_file(tmp_path, "a", b"more")


def test_a_list_that_is_gone_is_told(tmp_path: Path) -> None:
    assert file_faults(tmp_path, ("a",)) == ("checksums.jsonl is missing",)
    assert read_checksums(tmp_path) is None


def test_half_a_line_that_a_killed_process_left_makes_way(tmp_path: Path) -> None:
    write_listed_file(tmp_path, "a", b"one")
    path = tmp_path / CHECKSUMS_FILE
    path.write_bytes(path.read_bytes() + b'{"file": "b", "sha')
    assert file_faults(tmp_path, ("a",)) == ()
    write_listed_file(tmp_path, "b", b"two")
    assert file_faults(tmp_path, ("a", "b")) == ()


def test_a_folder_in_a_file_s_place_is_told(tmp_path: Path) -> None:
    write_listed_file(tmp_path, "a", b"one")
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    assert file_faults(tmp_path, ("a",)) == ("a cannot be read: Is a directory",)


@pytest.mark.parametrize("name", [CHECKSUMS_FILE, "a"])
@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_a_pipe_or_a_device_in_the_place_of_a_file_is_told_and_not_waited_for(
    tmp_path: Path, name: str, kind: str
) -> None:
    write_listed_file(tmp_path, "a", b"one")
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name) if kind == "a pipe" else (tmp_path / name).symlink_to("/dev/zero")
    said = f"{name} cannot be read: it is {kind}, not a regular file"
    assert file_faults(tmp_path, ()) == (said,)
    with pytest.raises(
        RecordError, match=f"{said}; restore it, or remove that folder and start again"
    ):
        write_listed_file(tmp_path, "a", b"two")
    with pytest.raises(RecordError, match=said):
        require_unchanged_file(tmp_path, "a", "restore it")
