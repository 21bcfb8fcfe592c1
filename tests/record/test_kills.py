"""Kill -9 at any moment leaves what was there before or what was to be written, and a run that
goes on from there.
"""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hash_chain_run import chain_rows

from paribus.record import latest_checkpoint, read_rows, read_state, runs

SUPPORT = Path(__file__).parents[1] / "support"
ENDLESS = 10**8  # steps


def _victim(root: Path, n_steps: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(SUPPORT / "hash_chain_run.py"), str(root), str(n_steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _killed(root: Path, when: Callable[[], object]) -> str:
    """Start it, wait for it to open its folder, call `when`, kill it: what it said it had found."""
    with _victim(root, ENDLESS) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.readline()
        when()
        process.kill()
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
    return said


def _checked(root: Path) -> int:
    """The step of the newest checkpoint; every row up to it is there and right, and so are
    those after it.
    """
    folder = root / "victim"
    found = latest_checkpoint(folder / "checkpoints")
    assert not found.skipped
    rows = read_rows(folder / "rows.jsonl").rows
    assert rows == chain_rows(len(rows))
    done = found.checkpoint.step if found.checkpoint else 0
    assert len(rows) >= done
    return done


def test_a_run_killed_at_random_moments_ends_with_the_rows_of_one_that_was_not(tmp_path: Path):
    draw = random.Random(11)
    reached = []
    for _ in range(8):
        _killed(tmp_path, lambda: time.sleep(draw.uniform(0, 0.1)))
        reached.append(_checked(tmp_path))
    assert reached == sorted(reached)
    n_steps = reached[-1] + 7
    with _victim(tmp_path, n_steps) as process:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert read_rows(tmp_path / "victim" / "rows.jsonl") == (chain_rows(n_steps), None)
    assert read_state(tmp_path / "victim" / "state") == ("finished", "")


def test_a_kill_inside_a_checkpoint_leaves_a_draft_that_the_next_run_names_and_removes(
    tmp_path: Path,
):
    folder = tmp_path / "victim" / "checkpoints"

    def writing() -> None:
        deadline = time.monotonic() + 10
        while not any(folder.glob(".tmp-step-*/ballast.bin")):
            assert time.monotonic() < deadline

    for _ in range(10):  # it may get through between our look and the kill
        _killed(tmp_path, writing)
        _checked(tmp_path)
        left = [path.name for path in folder.glob(".tmp-*")]
        if left:
            break
    assert len(left) == 1
    assert [entry.state for entry in runs(tmp_path)] == ["stopped"]
    said = _killed(tmp_path, lambda: None)
    assert said.split() == ["open", f"checkpoints/{left[0]}"]


@pytest.mark.parametrize(("work", "at_least"), [("save", 30), ("cut", 4), ("open", 15)])
def test_a_kill_at_any_operation_on_files_loses_nothing(tmp_path: Path, work: str, at_least: int):
    command = [sys.executable, str(SUPPORT / "kill_points.py"), str(tmp_path / "root"), work]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    n_points, n_left = map(int, ended.stdout.split())
    assert n_points >= at_least
    assert n_left >= 1
