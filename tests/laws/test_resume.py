"""A resumed run is the same run: killed at any moment and resumed, its rows and weights equal
the uninterrupted one's.

Bit for bit, on CPU at the same thread count. The kills are spread over the run; every second one
waits for a checkpoint being written, shown by the temporary folder it leaves.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file
from training_runner import CHECKPOINT_EVERY, N_STEPS

from paribus.record import latest_checkpoint

RUNNER = Path(__file__).parents[1] / "support" / "training_runner.py"


class Runner:
    """A process that starts attempts at a run, one at a time."""

    def __init__(self, process: subprocess.Popen[str]):
        self.process = process

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def started(self, root: str) -> int:
        """The number of a new process that trains there."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{root}\n")
        self.process.stdin.flush()
        return int(self.heard())

    def finished(self, root: str) -> None:
        self.started(root)
        assert self.heard() == "0"


@contextmanager
def runner(home: Path, objective: str) -> Iterator[Runner]:
    command = [sys.executable, str(RUNNER), str(home), objective]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        one = Runner(process)
        assert one.heard() == "ready"
        yield one
        assert process.stdin is not None
        process.stdin.close()


def step_of(run: Path) -> int:
    """The step of the newest checkpoint, -1 for none; each one there is whole."""
    found = latest_checkpoint(run / "checkpoints")
    assert not found.skipped
    return -1 if found.checkpoint is None else found.checkpoint.step


def drafts(run: Path) -> set[Path]:
    return set((run / "checkpoints").glob(".tmp-*"))


def has_reached(run: Path, step: int) -> bool:
    names = [path.name for path in (run / "checkpoints").glob("step-*")]
    return step < 0 or max(names, default="") >= f"step-{step:09}"


def wait(process: int, until: Callable[[], bool]) -> None:
    while not until():
        os.kill(process, 0)  # fails if it has ended
        time.sleep(0.0005)


def killed(one: Runner, run: Path, n_left: int, moment: float | None, draw: random.Random) -> bool:
    """Kill an attempt somewhere in its share of what is left of the run; whether a draft shows
    where it was.

    After so many seconds more, or where None is given as soon as a checkpoint is being written.
    """
    reached = step_of(run)
    share = (N_STEPS - 1 - reached) // CHECKPOINT_EVERY // (n_left + 2)
    step, old = reached + CHECKPOINT_EVERY * draw.randint(0, share), drafts(run)
    process = one.started("torn")
    wait(process, lambda: has_reached(run, step))
    if moment is None:
        wait(process, lambda: not drafts(run) <= old)
    else:
        time.sleep(moment)
    os.kill(process, signal.SIGKILL)
    assert one.heard() == str(-signal.SIGKILL), "it had ended before it was killed"
    return bool(drafts(run))


def told(folder: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def same(home: Path, objective: str, n_kills: int, seed: int) -> None:
    draw, n_drafts, reached = random.Random(seed), 0, []
    whole, torn = home / "whole/run", home / "torn/run"
    with runner(home, objective) as one:
        began = time.monotonic()
        one.finished("whole")
        # or a fast machine would be done before the last kill
        longest = (time.monotonic() - began) / n_kills / 4
        for number in range(n_kills):
            in_checkpoint = number % 2 == 0 or n_drafts <= number // 5
            moment = None if in_checkpoint else draw.uniform(0, longest)
            n_drafts += killed(one, torn, n_kills - number, moment, draw)
            reached.append(step_of(torn))
    with runner(home, objective) as another:  # which shares nothing with the one before
        another.finished("torn")
    assert n_drafts >= n_kills / 5
    assert reached == sorted(reached)
    assert len({*reached, -1}) > n_kills / 3  # it was resumed from many places
    assert told(torn) == told(whole)
    for name in ("weights.safetensors", "learning.safetensors"):
        left, right = (
            load_file(folder / f"checkpoints/step-{N_STEPS - 1:09}" / name)
            for folder in (whole, torn)
        )
        assert left.keys() == right.keys()
        for key in left:
            if key != "pending.counters":  # seconds are among them
                assert left[key].equal(right[key]), key


def test_five_kills_change_nothing(tmp_path: Path) -> None:
    same(tmp_path, "causal", 5, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["masked", "spans", "continuation", "prefix", "causal"])
def test_fifty_kills_change_nothing(objective: str, tmp_path: Path) -> None:
    same(tmp_path, objective, 10, seed=2)
