"""Of processes that would compile the same code, one does; the others wait for it once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from paribus.train.compile_turns import COMPILED_FOLDER_VARIABLE, TURNS, CompileTurns

COMPILER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from paribus.train.compile_turns import CompileTurns

    folder, name = Path(sys.argv[1]), sys.argv[2]
    with CompileTurns("a model").take("a shape"):
        (folder / f"{name} compiles").touch()
        while not (folder / f"{name} may end").exists():
            time.sleep(0.01)
""")


def wait_for(path: Path) -> None:
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)
    pytest.fail(f"{path} did not appear")


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, COMPILED_FOLDER_VARIABLE: str(folder / "compiled")}
    command = [sys.executable, "-c", COMPILER, str(folder), name]
    return subprocess.Popen(command, env=environment)


def test_a_second_process_waits_until_the_first_has_compiled(tmp_path: Path) -> None:
    with start(tmp_path, "first") as first:
        wait_for(tmp_path / "first compiles")
        with start(tmp_path, "second") as second:
            (tmp_path / "second may end").touch()
            time.sleep(0.5)
            assert second.poll() is None
            (tmp_path / "first may end").touch()
            assert first.wait() == 0
            assert second.wait() == 0
    # from now on nobody waits: a third holds nothing while it is at it
    with start(tmp_path, "third") as third, start(tmp_path, "fourth") as fourth:
        wait_for(tmp_path / "third compiles")
        wait_for(tmp_path / "fourth compiles")
        (tmp_path / "third may end").touch()
        (tmp_path / "fourth may end").touch()
        assert third.wait() == fourth.wait() == 0


def test_a_process_that_dies_leaves_its_turn(tmp_path: Path) -> None:
    with start(tmp_path, "first") as first:
        wait_for(tmp_path / "first compiles")
        first.kill()
    with start(tmp_path, "second") as second:
        (tmp_path / "second may end").touch()
        assert second.wait() == 0


def test_a_turn_is_taken_once_for_each_code_and_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPILED_FOLDER_VARIABLE, str(tmp_path))
    for model, code in [("a", "x"), ("a", "y"), ("b", "x"), ("a", "x")]:
        turns = CompileTurns(model)
        with turns.take(code):
            pass
        with turns.take(code):
            pass
    assert len(list((tmp_path / TURNS).glob("*.done"))) == 3


def test_what_fails_to_compile_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILED_FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(ZeroDivisionError), CompileTurns("a").take("x"):
        raise ZeroDivisionError
    assert not list((tmp_path / TURNS).glob("*.done"))


def test_a_turn_ends_although_another_process_has_inherited_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPILED_FOLDER_VARIABLE, str(tmp_path))
    with CompileTurns("a").take("x"):
        (lock,) = (tmp_path / TURNS).glob("*.lock")
        own = [path for path in Path("/proc/self/fd").iterdir() if path.exists()]
        (number,) = [int(path.name) for path in own if path.resolve() == lock]
        inherited = os.dup(number)  # as a fork has it
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(inherited)


@pytest.mark.parametrize("is_set", [False, True])
def test_without_a_folder_there_are_no_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_set: bool
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.delenv(COMPILED_FOLDER_VARIABLE, raising=False)
    if is_set:  # where no folder can be made
        monkeypatch.setenv(COMPILED_FOLDER_VARIABLE, str(blocked))
    ran = []
    with CompileTurns("a").take("x"):
        ran.append(1)
    assert ran == [1]
    assert list(tmp_path.iterdir()) == [blocked]
