"""Runs that are odd and legal, and what is kept of any run: the last few checkpoints and the best."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from shell import Page, Shell, assert_same, checkpoints, step_line, told

ODD: list[tuple[dict[str, Any], list[int], list[int]]] = [
    # what is odd, the steps that have rows, the steps that have checkpoints
    ({"n_steps": 3, "row_every": 10}, [2], [2]),
    ({"n_steps": 5, "row_every": 2, "checkpoint_every": 100}, [1, 3, 4], [4]),
    ({"n_steps": 1, "valid_every": 100}, [0], [0]),
    ({"n_steps": 6, "valid_every": 5, "row_every": 2}, [1, 3, 4, 5], [3, 5]),
    ({"n_steps": 8, "checkpoint_every": 1}, list(range(8)), [6, 7]),
    ({"n_steps": 4, "n_sequences": 1, "length": 2}, [0, 1, 2, 3], [3]),
]


@pytest.mark.parametrize(("odd", "rows", "kept"), ODD)
def test_an_odd_run_is_a_run(shell: Shell, odd: dict[str, Any], rows: list[int], kept: list[int]) -> None:
    shell.write(**odd)
    answer = shell.trained()
    steps = "1 step" if odd["n_steps"] == 1 else f"{odd['n_steps']} steps"
    assert answer.out.endswith(f"\n{steps}: {shell.home / 'run'}\n")
    found = told(shell.home / "run")
    assert [row["step"] for row in found] == rows
    assert "valid_nats" in found[-1]
    assert found[-1]["tokens_read"] == odd["n_steps"] * odd.get("n_sequences", 4) * odd.get("length", 32)
    assert checkpoints(shell.home / "run") == kept


def test_a_held_out_text_shorter_than_a_batch_is_read_more_than_once(shell: Shell) -> None:
    own = Shell(shell.home, shell.home / "cache")
    own.write({"valid": 0.01}, n_sequences=64, valid_batches=3)
    assert "valid" in own.trained().out
    (index,) = own.cache.glob("*/index.json")
    assert json.loads(index.read_text())["sources"][0]["splits"]["valid"]["n_tokens"] < 64 * 32


def test_a_finished_run_is_left_as_it_is(shell: Shell) -> None:
    shell.write()
    shell.trained()
    before = {path: path.stat().st_mtime_ns for path in shell.home.rglob("*") if path.is_file() and path.name != "lock"}
    again = shell.trained()
    assert again.out == f"note: it was finished before; nothing was done\n12 steps: {shell.home / 'run'}\n"
    after = {path: path.stat().st_mtime_ns for path in shell.home.rglob("*") if path.is_file() and path.name != "lock"}
    assert after == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("garbage\n", "run/rows.jsonl, line 1 is not JSON"),
        ("garbage", "run finished, but its rows end at step 0 of 12; restore rows.jsonl, or remove that folder and"),
    ],
)
def test_a_finished_run_whose_rows_are_damaged_is_refused(shell: Shell, whole: Path, content: str, said: str) -> None:
    shell.write()
    shutil.copytree(whole, shell.home / "run")
    (shell.home / "run/rows.jsonl").write_text(content)
    refused = shell.train()
    assert (refused.status, refused.out) == (1, "")
    assert said in refused.err
    assert (shell.home / "run/state").read_text() == "finished\n"


def test_a_warm_up_longer_than_the_run_is_told(shell: Shell) -> None:
    shell.write(n_steps=3, warmup=12)
    said = "note: training.warmup is 12, more than n_steps 3: the rate comes to 0.00025 and never to 0.001\n"
    assert shell.trained().out.startswith(said)
    shell.write(n_steps=3, warmup=3)
    assert "warmup" not in shell.trained(name="other").out


def test_a_run_of_more_steps_is_another_run(shell: Shell) -> None:
    shell.write(n_steps=3)
    short = shell.trained(name=None).out.splitlines()[-1].removeprefix("3 steps: ")
    shell.write(n_steps=4)
    long = shell.trained(name=None).out.splitlines()[-1].removeprefix("4 steps: ")
    assert short != long
    assert [len(told(Path(folder))) for folder in (short, long)] == [3, 4]
    refused = shell.train(name=Path(short).name)
    said = (
        f"holds the run {Path(short).name}, not {Path(long).name}: training.n_steps 3 → 4; "
        f"choose another name, or leave it out"
    )
    assert (refused.status, refused.err) == (1, f"error: {short} {said}\n")
    assert len(told(Path(short))) == 3


# A rate that rises out of all measure: it is best near its beginning.
WORSENING = {"n_steps": 16, "checkpoint_every": 2, "valid_every": 2, "optimizer": {"rate": 3.0}, "warmup": 16}


def best(folder: Path) -> int:
    scores = {row["step"]: row["valid_nats"] for row in told(folder) if "valid_nats" in row}
    return min(scores, key=scores.__getitem__)


@pytest.mark.parametrize("keep_last", [1, 3])
def test_the_last_few_checkpoints_and_the_best_by_held_out_nats_are_kept(shell: Shell, keep_last: int) -> None:
    shell.write(**WORSENING, keep_last=keep_last)
    shell.trained()
    run = shell.home / "run"
    last = list(range(1, 16, 2))[-keep_last:]
    assert best(run) < last[0]
    assert checkpoints(run) == [best(run), *last]
    for row in told(run):
        place = run / f"checkpoints/step-{row['step']:09}/checkpoint.json"
        if place.exists():
            written = json.loads(place.read_text())
            assert (written["step"], written["score"]) == (row["step"], row["valid_nats"])


def test_a_score_is_of_the_state_that_was_measured_and_of_no_later_one(shell: Shell) -> None:
    shell.write(n_steps=8, valid_every=3, checkpoint_every=1, keep_last=8)
    shell.trained()
    places = [shell.home / f"run/checkpoints/step-{step:09}/checkpoint.json" for step in range(8)]
    scores = [json.loads(place.read_text())["score"] for place in places]
    assert scores == [row.get("valid_nats") for row in told(shell.home / "run")]
    assert [score is not None for score in scores] == [False, False, True, False, False, True, False, True]


def test_an_interrupted_run_keeps_the_checkpoints_that_an_uninterrupted_one_keeps(shell: Shell) -> None:
    shell.write(**WORSENING, keep_last=1)
    shell.trained(name="whole")
    for step in (5, 10):
        stopped = shell.train(page=Page(step_line(step), lambda: signal.raise_signal(signal.SIGTERM)))
        assert stopped.status == 143
    shell.trained()
    assert checkpoints(shell.home / "run") == checkpoints(shell.home / "whole")
    assert_same(shell.home / "run", shell.home / "whole")
