"""A resumed chain is the same chain: killed at any moment of any stage and resumed, the rows and
weights of every stage, and those of a head, equal the uninterrupted ones, bit for bit, on CPU at
the same thread count.
"""

import os
import random
import signal
from pathlib import Path

import pytest
from chain_run import chain_spec
from conversation_run import long_preference_run
from labelled_texts import labels_run, write_labelled
from run_attempts import Runner, rows_without_times, wait
from safetensors.torch import load_file

from paribus.record import latest_checkpoint

N_STEPS = {
    "chain": [stage.training.n_steps for stage in chain_spec().stages],
    "preference": [stage.training.n_steps for stage in long_preference_run().stages],
    "labels": [stage.training.n_steps for stage in labels_run(Path("texts.jsonl")).stages],
}


def n_saved(root: Path) -> int:
    """Steps of all stages that checkpoints hold."""
    newest: dict[str, int] = {}
    for path in root.glob("*/checkpoints/step-*"):
        stage = path.parents[1].name
        newest[stage] = max(newest.get(stage, 0), int(path.name.removeprefix("step-")) + 1)
    return sum(newest.values())


def kill_after(one: Runner, chain: str, root: Path, n_steps: int) -> None:
    """Kill an attempt once so many steps of the whole chain are saved."""
    process = one.started(chain, root)
    wait(process, lambda: n_saved(root) >= n_steps)
    os.kill(process, signal.SIGKILL)
    assert one.heard() == str(-signal.SIGKILL), "it had ended before it was killed"


def require_same_after_kills(
    runners: tuple[Runner, Runner], home: Path, n_kills: int, seed: int, chain: str = "chain"
) -> None:
    one, another = runners
    whole, torn = home / "whole", home / "torn"
    moments = sorted(random.Random(seed).sample(range(sum(N_STEPS[chain]) - 5), n_kills))
    one.finished(chain, whole)
    for moment in moments:
        kill_after(one, chain, torn, moment)
    another.finished(chain, torn)
    names = sorted(path.name for path in whole.iterdir())
    assert names == sorted(path.name for path in torn.iterdir())
    assert len(names) == len(N_STEPS[chain])
    for name in names:
        assert rows_without_times(torn / name) == rows_without_times(whole / name)
        require_same_state(whole / name, torn / name)


def require_same_state(whole: Path, torn: Path) -> None:
    newest = [latest_checkpoint(folder / "checkpoints").checkpoint for folder in (whole, torn)]
    files = ["weights.safetensors", "learning.safetensors"]
    if list(whole.glob("checkpoints/*/label-head.safetensors")):
        files.append("label-head.safetensors")
    for file in files:
        left, right = (load_file(own.folder / file) for own in newest if own is not None)
        assert left.keys() == right.keys()
        for key in left:
            if key != "pending.counters":  # seconds are among them
                assert left[key].equal(right[key]), key


def test_a_chain_killed_five_times_is_the_same(
    runners: tuple[Runner, Runner], tmp_path: Path
) -> None:
    require_same_after_kills(runners, tmp_path, 5, seed=1)


def test_a_chain_that_ends_with_a_head_killed_five_times_is_the_same(
    runners: tuple[Runner, Runner], tmp_path: Path
) -> None:
    write_labelled(tmp_path / "texts.jsonl")
    require_same_after_kills(runners, tmp_path, 5, seed=3, chain="labels")
    assert len(list(tmp_path.glob("torn/*/checkpoints/*/label-head.safetensors"))) > 0


def test_a_chain_that_ends_with_preferences_killed_five_times_is_the_same(
    runners: tuple[Runner, Runner], tmp_path: Path
) -> None:
    require_same_after_kills(runners, tmp_path, 5, seed=15, chain="preference")


@pytest.mark.slow
def test_a_chain_killed_thirty_times_is_the_same(
    runners: tuple[Runner, Runner], tmp_path: Path
) -> None:
    require_same_after_kills(runners, tmp_path, 30, seed=2)
