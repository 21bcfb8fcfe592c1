import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paribus.errors import RecordError
from paribus.record import hold_lock, is_locked

HOLD = """
import sys, time
from pathlib import Path
from paribus.record import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""
FORK = """
import os, sys, time
from pathlib import Path
from paribus.record import hold_lock
with hold_lock(Path(sys.argv[1])):
    child = os.fork()
    if child == 0:
        time.sleep(60)
    print(child, flush=True)
    time.sleep(60)
"""
CONTEND = """
import sys, time
from pathlib import Path
from paribus.errors import RecordError
from paribus.record import hold_lock
try:
    with hold_lock(Path(sys.argv[1])):
        print("held", flush=True)
        time.sleep(1)
except RecordError as fault:
    print(fault, flush=True)
"""


def _started(script: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_held_lock_names_process_and_host_and_is_free_after_kill_9(tmp_path: Path):
    path = tmp_path / "lock"
    with _started(HOLD, path) as holder:
        assert _line(holder) == "held"
        assert is_locked(path)
        said = (
            f"^{tmp_path} is in use by process {holder.pid} on {socket.gethostname()}; wait for it,"
            " stop it, or"
        )
        with pytest.raises(RecordError, match=said), hold_lock(path):
            pass
        holder.kill()
        holder.wait()
    assert not is_locked(path)
    with hold_lock(path):
        pass


def test_of_two_processes_that_start_together_one_gets_the_lock(tmp_path: Path):
    with _started(CONTEND, tmp_path / "lock") as one, _started(CONTEND, tmp_path / "lock") as other:
        said = sorted([_line(one), _line(other)])
    assert said[1] == "held"
    assert "is in use by process" in said[0]


def test_a_worker_that_outlives_a_killed_run_does_not_keep_its_lock(tmp_path: Path):
    path = tmp_path / "lock"
    with _started(FORK, path) as parent:
        child = int(_line(parent))
        try:
            assert is_locked(path)  # forking alone does not let go of it
            parent.kill()
            parent.wait()
            os.kill(child, 0)
            with hold_lock(path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_lock_is_held_against_the_same_process_too(tmp_path: Path):
    path = tmp_path / "lock"
    with hold_lock(path):
        with (
            pytest.raises(RecordError, match=f"in use by process {os.getpid()} on"),
            hold_lock(path),
        ):
            pass
        assert is_locked(path)
    assert not is_locked(path)


def test_a_reader_that_asks_for_an_instant_does_not_turn_a_run_away(tmp_path: Path):
    path = tmp_path / "lock"
    path.touch()
    ask = (
        "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_SH); print(1,"
        " flush=True); "
    )
    with _started(ask + "time.sleep(0.05)", path) as reader:
        assert _line(reader) == "1"
        began = time.monotonic()
        with hold_lock(path):
            assert time.monotonic() - began < 1


def test_an_owner_that_has_not_signed_yet_is_another_process(tmp_path: Path):
    path = tmp_path / "lock"
    with hold_lock(path):
        path.write_text("")
        with pytest.raises(RecordError, match="in use by another process; wait"), hold_lock(path):
            pass


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        RecordError, match=r"lock cannot be locked: .*; give a folder you may write to"
    ):
        hold_lock(tmp_path / "lock").__enter__()
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_that_is_not_there_is_not_held(tmp_path: Path):
    assert not is_locked(tmp_path / "lock")


def test_a_disk_without_file_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def failing(_: int, __: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", failing)
    said = r"lock cannot be locked: No locks available; put the runs on a disk that has file locks"
    with pytest.raises(RecordError, match=said):
        hold_lock(tmp_path / "lock").__enter__()
    assert not is_locked(tmp_path / "lock")
