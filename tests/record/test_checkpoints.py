import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record import (
    Checkpoint,
    best_checkpoint,
    commit_checkpoint,
    latest_checkpoint,
    verify_checkpoint,
)
from paribus.record.checkpoints import Retention

FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from safetensors.numpy import save_file
from paribus.errors import RecordError
from paribus.record import commit_checkpoint
folder, kind = Path(sys.argv[1]), sys.argv[2]

def fill(draft):
    (draft / "counters.json").write_text("{}")
    if kind == "bytes":
        (draft / "weights.bin").write_bytes(bytes(1 << 20))
    else:
        save_file({"a": np.zeros(1 << 18, np.float32)}, draft / "weights.safetensors")

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
try:
    commit_checkpoint(folder, 7, fill)
except RecordError as fault:
    print(type(fault.__cause__).__name__)
    print(fault)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def fill(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(b"weights of " + folder.name[:18].encode())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_is_written_whole_and_found(tmp_path: Path):
    saved = commit_checkpoint(tmp_path / "checkpoints", 123, fill, score=2.5)
    assert saved == Checkpoint(tmp_path / "checkpoints" / "step-000000123", 123, 2.5)
    assert names(tmp_path / "checkpoints") == ["step-000000123"]
    assert names(saved.folder) == ["checkpoint.json", "manifest.json", "weights.bin"]
    assert latest_checkpoint(tmp_path / "checkpoints") == (saved, ())
    assert verify_checkpoint(saved.folder) == saved


def test_no_checkpoint_is_found_where_there_is_none(tmp_path: Path):
    assert latest_checkpoint(tmp_path / "nowhere") == (None, ())
    (tmp_path / ".tmp-step-000000001-00").mkdir()
    (tmp_path / "step-1").mkdir()
    assert latest_checkpoint(tmp_path) == (None, ())


class OddError(Exception):
    pass


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OddError("two\nlines"), "two lines"),
        (OddError(), "OddError"),
    ],
)
def test_a_failed_filling_leaves_the_last_good_checkpoint(
    tmp_path: Path, fault: Exception, said: str
):
    good = commit_checkpoint(tmp_path, 3, fill)

    def failing(folder: Path) -> None:
        fill(folder)
        raise fault

    place = tmp_path / "step-000000005"
    with pytest.raises(
        RecordError,
        match=(
            f"^{place} cannot be written: {said}; free some space, or correct that, and the same"
            " command"
        ),
    ):
        commit_checkpoint(tmp_path, 5, failing)
    assert names(tmp_path) == ["step-000000003"]
    assert latest_checkpoint(tmp_path) == (good, ())


def test_an_interrupted_filling_leaves_no_draft(tmp_path: Path):
    def interrupted(folder: Path) -> None:
        fill(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        commit_checkpoint(tmp_path, 5, interrupted)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("kind", "cause"), [("bytes", "OSError"), ("safetensors", "SafetensorError")]
)
def test_a_full_disk_while_saving_leaves_the_last_good_checkpoint(
    tmp_path: Path, kind: str, cause: str
):
    good = commit_checkpoint(tmp_path, 5, fill)
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path), kind]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    raised, said = ended.stdout.splitlines()
    assert raised == cause
    assert said.startswith(f"{tmp_path / 'step-000000007'} cannot be written: ")
    assert "File too large" in said
    assert names(tmp_path) == ["step-000000005"]
    assert latest_checkpoint(tmp_path) == (good, ())


def test_names_the_checkpoint_needs_are_not_the_callers(tmp_path: Path):
    for name in ("checkpoint.json", "manifest.json"):
        with pytest.raises(
            RecordError,
            match=f"{name} was filled in by the caller; that name is taken, use another",
        ):
            commit_checkpoint(tmp_path, 5, lambda folder, name=name: (folder / name).touch())


@pytest.mark.parametrize("step", [-1, 10**9])
def test_a_step_that_has_no_name_is_refused(tmp_path: Path, step: int):
    with pytest.raises(RecordError, match=f"^{tmp_path}: step is {step}; give 0 to 999999999"):
        commit_checkpoint(tmp_path, step, fill)


def test_keeping_none_is_refused(tmp_path: Path):
    with pytest.raises(
        RecordError, match=f"^{tmp_path}: 0 checkpoints would be kept; keep 1 or more"
    ):
        commit_checkpoint(tmp_path, 1, fill, retention=Retention(keep_last=0))


def test_the_last_good_checkpoint_is_used_and_the_others_are_named_with_the_reason(tmp_path: Path):
    good, flipped, short, bare = (
        commit_checkpoint(tmp_path, step, fill, retention=Retention(keep_last=4))
        for step in (2, 3, 5, 7)
    )
    whole = (flipped.folder / "weights.bin").read_bytes()
    (flipped.folder / "weights.bin").write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    os.truncate(short.folder / "weights.bin", 11)
    (bare.folder / "manifest.json").unlink()
    found = latest_checkpoint(tmp_path)
    assert found.checkpoint == good
    assert [skipped.folder for skipped in found.skipped] == [
        bare.folder,
        short.folder,
        flipped.folder,
    ]
    reasons = [skipped.reason for skipped in found.skipped]
    assert "manifest.json cannot be read" in reasons[0]
    assert "weights.bin has 11 bytes" in reasons[1]
    assert "sha256 differs" in reasons[2]


def test_any_one_bit_flipped_anywhere_in_a_checkpoint_is_noticed(tmp_path: Path):
    saved = commit_checkpoint(tmp_path, 3, fill, score=0.5)
    for path in sorted(saved.folder.iterdir()):
        whole = path.read_bytes()
        for place in range(len(whole)):
            path.write_bytes(
                whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
            )
            assert latest_checkpoint(tmp_path).checkpoint is None, (path.name, place)
        path.write_bytes(whole)
    assert latest_checkpoint(tmp_path).checkpoint == saved


def test_a_checkpoint_under_the_name_of_another_step_is_refused(tmp_path: Path):
    commit_checkpoint(tmp_path, 2, fill).folder.rename(tmp_path / "step-000000009")
    with pytest.raises(
        RecordError, match=r"checkpoint.json is not about step 9; use another checkpoint"
    ):
        verify_checkpoint(tmp_path / "step-000000009")


def test_a_corrupt_checkpoint_of_the_same_step_is_replaced(tmp_path: Path):
    good, bad = commit_checkpoint(tmp_path, 2, fill), commit_checkpoint(tmp_path, 3, fill)
    (bad.folder / "weights.bin").write_bytes(b"")
    assert latest_checkpoint(tmp_path).checkpoint == good
    again = commit_checkpoint(tmp_path, 3, fill)
    assert latest_checkpoint(tmp_path) == (again, ())
    assert names(tmp_path) == ["step-000000002", "step-000000003"]


def test_an_intact_checkpoint_of_the_same_step_stays(tmp_path: Path):
    first = commit_checkpoint(tmp_path, 3, fill, score=2.0)
    again = commit_checkpoint(tmp_path, 3, lambda folder: pytest.fail("filled again"), score=1.0)
    assert again == first


def test_checkpoints_that_were_skipped_do_not_push_out_good_ones(tmp_path: Path):
    commit_checkpoint(tmp_path, 2, fill)
    bad = commit_checkpoint(tmp_path, 9, fill, score=0.1)
    (bad.folder / "weights.bin").write_bytes(b"")
    saved = commit_checkpoint(tmp_path, 3, fill, retention=Retention(keep_last=1))
    assert names(tmp_path) == ["step-000000003"]
    assert latest_checkpoint(tmp_path) == (saved, ())


def test_an_old_checkpoint_that_cannot_be_removed_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The one fault that root, who may do anything, cannot meet in truth."""
    old, rename = commit_checkpoint(tmp_path, 1, fill), Path.rename

    def refusing(path: Path, target: Path) -> Path:
        if path == old.folder:
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(
        RecordError,
        match=f"^{old.folder} cannot be removed: Permission denied; make its folder writ",
    ):
        commit_checkpoint(tmp_path, 2, fill, retention=Retention(keep_last=1))
    assert names(tmp_path) == ["step-000000001", "step-000000002"]


def test_the_last_few_and_the_best_are_kept(tmp_path: Path):
    scores = {1: 5.0, 2: 3.0, 3: 4.0, 5: None, 7: math.nan, 11: 3.0, 13: math.inf}
    for step, score in scores.items():
        commit_checkpoint(tmp_path, step, fill, score=score, retention=Retention(keep_last=2))
    assert names(tmp_path) == [f"step-{step:09}" for step in (2, 11, 13)]
    assert json.loads((tmp_path / "step-000000013" / "checkpoint.json").read_text()) == {
        "step": 13,
        "score": None,
    }
    commit_checkpoint(tmp_path, 17, fill, score=1.0, retention=Retention(keep_last=1))
    assert names(tmp_path) == ["step-000000017"]


def test_the_best_is_the_one_with_the_lowest_score_that_is_whole(tmp_path: Path):
    assert best_checkpoint(tmp_path) == (None, ())
    saved = [
        commit_checkpoint(tmp_path, step, fill, score, retention=Retention(keep_last=9))
        for step, score in enumerate((4.0, 2.0, 3.0, 2.0, None))
    ]
    assert best_checkpoint(tmp_path) == (saved[1], ())
    (saved[1].folder / "weights.bin").write_bytes(b"torn")
    found = best_checkpoint(tmp_path)
    assert found.checkpoint == saved[3]
    assert [skipped.folder for skipped in found.skipped] == [saved[1].folder]
    assert "has 4 bytes" in found.skipped[0].reason


def test_a_checkpoint_whose_score_cannot_be_read_is_not_the_best(tmp_path: Path):
    first = commit_checkpoint(tmp_path, 1, fill, score=0.5)
    (first.folder / "checkpoint.json").write_text("{" + " " * 200)
    commit_checkpoint(tmp_path, 2, fill, score=2.0)
    commit_checkpoint(tmp_path, 3, fill, score=3.0, retention=Retention(keep_last=1))
    assert names(tmp_path) == ["step-000000002", "step-000000003"]


def test_what_an_interruption_saved_counts_for_nothing_once_the_run_has_passed_it(
    tmp_path: Path,
) -> None:
    commit_checkpoint(tmp_path, 9, fill, score=3.0)
    commit_checkpoint(tmp_path, 19, fill, score=2.0)
    stopped = Retention(keep_last=1, is_interruption=True)
    commit_checkpoint(tmp_path, 25, fill, score=1.0, retention=stopped)
    assert names(tmp_path) == ["step-000000019", "step-000000025"]
    assert latest_checkpoint(tmp_path).checkpoint == Checkpoint(tmp_path / "step-000000025", 25, 1)
    commit_checkpoint(tmp_path, 27, fill, retention=stopped)
    assert names(tmp_path) == ["step-000000019", "step-000000027"]
    commit_checkpoint(tmp_path, 29, fill, score=4.0, retention=Retention(keep_last=1))
    assert names(tmp_path) == ["step-000000019", "step-000000029"]
