"""Files that others wrote: regular ones alone, up to a ceiling, and nothing is waited for."""

import os
import socket
from pathlib import Path

import pytest

from paribus.errors import RecordError, SpecError
from paribus.files import MAX_SPEC_BYTES, expand_home, open_regular_file, read_bytes, read_text
from paribus.interop import import_
from paribus.model import restore
from paribus.record.disk import file_sha256, read_json
from paribus.record.lock import is_locked
from paribus.record.rows import last_row, read_rows
from paribus.record.state import read_state
from paribus.spec import load
from paribus.spec.design_reading import load_design
from paribus.spec.run import load_run


def odd_file(folder: Path, kind: str, name: str) -> Path:
    path = folder / name
    match kind:
        case "a pipe":
            os.mkfifo(path)
        case "a device":
            path.symlink_to("/dev/zero")
        case "a socket":
            with socket.socket(socket.AF_UNIX) as own:
                own.bind(str(path))
        case "huge":
            path.touch()
            os.truncate(path, 2**40)
    return path


SAID = {
    "a pipe": "it is a pipe, not a regular file",
    "a device": "it is a device, not a regular file",
    "a socket": "it is a socket, not a regular file",
    "huge": r"it has more than [\d,]+ bytes, which no such file needs",
}


@pytest.mark.parametrize("kind", SAID)
def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)  # the name of a socket may not be long
    with pytest.raises(OSError, match=SAID[kind]):
        read_bytes(odd_file(Path(), kind, "odd"), MAX_SPEC_BYTES)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError):
        open_regular_file(tmp_path)


def test_a_file_is_read_up_to_its_ceiling(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("é".encode() * 50)
    assert read_text(path, 100) == "é" * 50
    with pytest.raises(OSError, match="it has more than 99 bytes"):
        read_bytes(path, 99)


def test_a_file_that_does_not_tell_its_size_is_read_up_to_the_ceiling_too():
    assert read_bytes("/proc/self/status", MAX_SPEC_BYTES).startswith(b"Name:")
    with pytest.raises(OSError, match="it has more than 7 bytes"):
        read_bytes("/proc/self/status", 7)


def test_the_home_of_nobody_is_named():
    assert expand_home("paths", "~/a") == Path.home() / "a"
    with pytest.raises(
        SpecError,
        match=r"paths '~nobody-here/a' begins with the home folder of an unknown user; write",
    ):
        expand_home("paths", "~nobody-here/a")


READERS = {
    "spec.json": [restore, load],
    "config.json": [import_],
    "run.toml": [lambda folder: load_run(folder / "run.toml")],
    "design.json": [lambda folder: load_design(folder / "design.json")],
    "arch.toml": [lambda folder: load(folder / "arch.toml")],
    "plan.json": [lambda folder: read_json(folder / "plan.json")],
    "state": [lambda folder: read_state(folder / "state")],
    "rows.jsonl": [
        lambda folder: last_row(folder / "rows.jsonl"),
        lambda folder: read_rows(folder / "rows.jsonl"),
    ],
}


@pytest.mark.parametrize("kind", ["a pipe", "a device", "huge"])
@pytest.mark.parametrize("name", READERS)
def test_whatever_is_read_whole_is_a_regular_file_of_a_size_that_fits(tmp_path, name, kind):
    odd_file(tmp_path, kind, name)
    (tmp_path / "weights.safetensors").touch()  # or it were no checkpoint
    for read in READERS[name]:
        if (name, kind) == ("rows.jsonl", "huge") and read is READERS[name][0]:
            continue  # its end alone is read: below
        with pytest.raises(
            (RecordError, SpecError), match=rf"{name} cannot be read: {SAID[kind]}; "
        ):
            read(tmp_path)


def test_rows_that_end_in_no_line_are_not_read_from_their_beginning(tmp_path):
    with pytest.raises(
        RecordError, match=r"rows\.jsonl ends in a line of more than 67,108,864 bytes; restore it"
    ):
        last_row(odd_file(tmp_path, "huge", "rows.jsonl"))


def test_a_lock_and_a_digest_wait_for_no_pipe(tmp_path):
    pipe = odd_file(tmp_path, "a pipe", "lock")
    assert not is_locked(pipe)
    with pytest.raises(OSError, match="it is a pipe"):
        file_sha256(pipe)
