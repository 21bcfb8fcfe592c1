"""A resumed run is the same run: killed at any moment and resumed, its rows and weights equal
the uninterrupted one's.

Bit for bit, on CPU at the same thread count. The kills are spread over the run; every second one
waits for a checkpoint being written, shown by the temporary folder it leaves.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from run_attempts import Runner, rows_without_times, wait
from safetensors.torch import load_file
from training_runner import CHECKPOINT_EVERY, N_STEPS

from paribus.record import latest_checkpoint


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


def killed(
    one: Runner, objective: str, run: Path, n_left: int, moment: float | None, draw: random.Random
) -> bool:
    """Kill an attempt somewhere in its share of what is left of the run; whether a draft shows
    where it was.

    After so many seconds more, or where None is given as soon as a checkpoint is being written.
    """
    reached = step_of(run)
    share = (N_STEPS - 1 - reached) // CHECKPOINT_EVERY // (n_left + 2)
    step, old = reached + CHECKPOINT_EVERY * draw.randint(0, share), drafts(run)
    process = one.started(objective, run.parent)
    wait(process, lambda: has_reached(run, step))
    if moment is None:
        wait(process, lambda: not drafts(run) <= old)
    else:
        time.sleep(moment)
    os.kill(process, signal.SIGKILL)
    assert one.heard() == str(-signal.SIGKILL), "it had ended before it was killed"
    return bool(drafts(run))


def same(
    runners: tuple[Runner, Runner], home: Path, objective: str, n_kills: int, seed: int
) -> None:
    one, another = runners
    draw, n_drafts, reached = random.Random(seed), 0, []
    whole, torn = home / "whole/run", home / "torn/run"
    began = time.monotonic()
    one.finished(objective, home / "whole")
    # or a fast machine would be done before the last kill
    longest = (time.monotonic() - began) / n_kills / 4
    for number in range(n_kills):
        in_checkpoint = number % 2 == 0 or n_drafts <= number // 5
        moment = None if in_checkpoint else draw.uniform(0, longest)
        n_drafts += killed(one, objective, torn, n_kills - number, moment, draw)
        reached.append(step_of(torn))
    another.finished(objective, home / "torn")
    assert n_drafts >= n_kills / 5
    assert reached == sorted(reached)
    assert len({*reached, -1}) > n_kills / 3  # it was resumed from many places
    assert rows_without_times(torn) == rows_without_times(whole)
    for name in ("weights.safetensors", "learning.safetensors"):
        left, right = (
            load_file(folder / f"checkpoints/step-{N_STEPS - 1:09}" / name)
            for folder in (whole, torn)
        )
        assert left.keys() == right.keys()
        for key in left:
            if key != "pending.counters":  # seconds are among them
                assert left[key].equal(right[key]), key


def test_five_kills_change_nothing(runners: tuple[Runner, Runner], tmp_path: Path) -> None:
    same(runners, tmp_path, "causal", 5, seed=1)


@pytest.mark.parametrize("optimizer", ["adafactor", "muon"])
def test_kills_change_nothing_with_another_optimizer(
    optimizer: str, runners: tuple[Runner, Runner], tmp_path: Path
) -> None:
    same(runners, tmp_path, optimizer, 3, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["masked", "spans", "continuation", "prefix", "causal"])
def test_fifty_kills_change_nothing(
    objective: str, runners: tuple[Runner, Runner], tmp_path: Path
) -> None:
    same(runners, tmp_path, objective, 10, seed=2)
