import json
import os
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record import verify_manifest
from paribus.record.file_names import MANIFEST_FILE
from paribus.record.manifest import write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "weights.bin").write_bytes(bytes(range(97)))
    (tmp_path / "counters.json").write_text("{}")
    write_manifest(tmp_path)
    return tmp_path


def test_a_sealed_folder_verifies(folder: Path):
    verify_manifest(folder)
    listed = json.loads((folder / MANIFEST_FILE).read_text())["files"]
    assert {name: entry["size"] for name, entry in listed.items()} == {
        "counters.json": 2,
        "inner/weights.bin": 97,
    }
    empty_table = (
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # sha256sum of {}
    )
    assert listed["counters.json"]["sha256"] == empty_table


def test_any_bit_that_is_flipped_is_known(folder: Path):
    path = folder / "inner" / "weights.bin"
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(0, 8, 3):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            with pytest.raises(
                RecordError,
                match=rf"^{path} is not what was written \(sha256 differs\); use another",
            ):
                verify_manifest(folder)


def test_any_truncation_is_known(folder: Path):
    path = folder / "inner" / "weights.bin"
    for size in range(97):
        os.truncate(path, size) if size == 0 else path.write_bytes(bytes(range(size)))
        with pytest.raises(
            RecordError, match=f"^{path} has {size} bytes, 97 were written; use another checkpoint"
        ):
            verify_manifest(folder)


def test_sizes_are_compared_before_anything_is_read(folder: Path):
    (folder / "counters.json").write_text("[]")  # sorted first, of the same size
    (folder / "inner" / "weights.bin").write_bytes(b"")
    with pytest.raises(RecordError, match=r"weights.bin has 0 bytes"):
        verify_manifest(folder)


def test_a_missing_or_linked_file_is_known(folder: Path):
    path = folder / "counters.json"
    path.rename(folder / "other.json")
    with pytest.raises(RecordError, match=f"^{path} is missing; use another checkpoint"):
        verify_manifest(folder)
    path.symlink_to(folder / "other.json")
    with pytest.raises(RecordError, match=f"^{path} is missing; use another checkpoint"):
        verify_manifest(folder)


def test_a_linked_folder_is_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    link = tmp_path_factory.mktemp("links") / "step-000000001"
    link.symlink_to(folder)
    with pytest.raises(RecordError, match=f"^{link} is a link; use another checkpoint"):
        verify_manifest(link)


@pytest.mark.parametrize("change", [lambda path: path.symlink_to("inner"), os.mkfifo])
def test_only_plain_files_are_sealed(folder: Path, change):
    change(folder / "odd")
    with pytest.raises(
        RecordError, match=f"^{folder / 'odd'} is a link or a device; write plain files"
    ):
        write_manifest(folder)


def test_no_manifest_is_not_verified(folder: Path):
    (folder / MANIFEST_FILE).unlink()
    with pytest.raises(
        RecordError,
        match=r"manifest.json cannot be read: No such file or directory; restore it, or",
    ):
        verify_manifest(folder)


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"files": 1},
        {"files": {"a": 1}},
        {"files": {"a": {"size": 1}}},
        {"files": {"../a": {"size": 0, "sha256": ""}}},
        {"files": {"/etc/passwd": {"size": 0, "sha256": ""}}},
    ],
)
def test_what_is_no_manifest_is_refused(folder: Path, content: object):
    (folder / MANIFEST_FILE).write_text(json.dumps(content))
    with pytest.raises(
        RecordError, match=r"manifest.json is not a manifest; use another checkpoint"
    ):
        verify_manifest(folder)


def test_a_manifest_cut_anywhere_is_refused(folder: Path):
    path = folder / MANIFEST_FILE
    whole = path.read_bytes()
    for size in range(len(whole.rstrip())):
        path.write_bytes(whole[:size])
        with pytest.raises(
            RecordError, match=r"manifest.json is not JSON: .*; restore it, or remove the folder"
        ):
            verify_manifest(folder)


def test_a_file_the_disk_does_not_give_back_is_told_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("hashlib.file_digest", failing)
    with pytest.raises(
        RecordError, match=f"^{folder} cannot be read: Input/output error; use another checkpoint"
    ):
        verify_manifest(folder)


def test_a_manifest_that_lists_less_proves_nothing(folder: Path):
    path = folder / "manifest.json"
    listed = json.loads(path.read_text())["files"]
    path.write_text(json.dumps({"files": {}}))
    with pytest.raises(
        RecordError, match=r"manifest.json does not list 'c.*', which lies beside it; use another"
    ):
        verify_manifest(folder)
    path.write_text(json.dumps({"files": dict(list(listed.items())[:-1])}))
    with pytest.raises(
        RecordError, match=r"manifest.json does not list '.*', which lies beside it; use another"
    ):
        verify_manifest(folder)
    for name in listed:
        (folder / name).unlink()
    path.write_text(json.dumps({"files": {}}))
    with pytest.raises(RecordError, match=r"manifest.json lists no file; use another checkpoint"):
        verify_manifest(folder)


def test_a_file_put_beside_is_known_and_a_hidden_one_does_not_matter(folder: Path):
    (folder / ".hidden").touch()
    verify_manifest(folder)
    (folder / "more.json").touch()
    with pytest.raises(
        RecordError,
        match=r"does not list 'more.json', which lies beside it; use another checkpoint",
    ):
        verify_manifest(folder)
