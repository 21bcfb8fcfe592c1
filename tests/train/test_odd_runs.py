"""Runs that are odd and legal, and what is kept of any run: the last few checkpoints and the
best.
"""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from train_shell import (
    TrainShell,
    TriggerPage,
    assert_same_run,
    checkpoint_steps,
    rows_without_seconds,
    step_line,
)

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
def test_an_odd_run_is_a_run(
    shell: TrainShell, odd: dict[str, Any], rows: list[int], kept: list[int]
) -> None:
    shell.write_spec(**odd)
    answer = shell.train_or_fail()
    steps = "1 step" if odd["n_steps"] == 1 else f"{odd['n_steps']} steps"
    assert answer.out.endswith(f"\n{steps}: {shell.home / 'run'}\n")
    found = rows_without_seconds(shell.home / "run")
    assert [row["step"] for row in found] == rows
    assert "valid_nats" in found[-1]
    assert found[-1]["tokens_read"] == odd["n_steps"] * odd.get("n_sequences", 4) * odd.get(
        "length", 32
    )
    assert checkpoint_steps(shell.home / "run") == kept


def test_a_held_out_text_shorter_than_a_batch_is_read_more_than_once(shell: TrainShell) -> None:
    own = TrainShell(shell.home, shell.home / "cache")
    own.write_spec({"valid": 0.01}, n_sequences=64, valid_batches=3)
    assert "valid" in own.train_or_fail().out
    (index,) = own.cache.glob("*/index.json")
    assert json.loads(index.read_text())["sources"][0]["splits"]["valid"]["n_tokens"] < 64 * 32


def test_a_finished_run_is_left_as_it_is(shell: TrainShell) -> None:
    shell.write_spec()
    shell.train_or_fail()
    before = {
        path: path.stat().st_mtime_ns
        for path in shell.home.rglob("*")
        if path.is_file() and path.name != "lock"
    }
    again = shell.train_or_fail()
    assert (
        again.out
        == f"note: it was finished before; nothing was done\n12 steps: {shell.home / 'run'}\n"
    )
    after = {
        path: path.stat().st_mtime_ns
        for path in shell.home.rglob("*")
        if path.is_file() and path.name != "lock"
    }
    assert after == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("garbage\n", "run/rows.jsonl, line 1 is not JSON"),
        (
            "garbage",
            (
                "run finished, but its rows end at step 0 of 12; restore rows.jsonl, or remove that"
                " folder and"
            ),
        ),
    ],
)
def test_a_finished_run_whose_rows_are_damaged_is_refused(
    shell: TrainShell, whole: Path, content: str, said: str
) -> None:
    shell.write_spec()
    shutil.copytree(whole, shell.home / "run")
    (shell.home / "run/rows.jsonl").write_text(content)
    refused = shell.train()
    assert (refused.status, refused.out) == (1, "")
    assert said in refused.err
    assert (shell.home / "run/state").read_text() == "finished\n"


def test_a_warm_up_longer_than_the_run_is_told(shell: TrainShell) -> None:
    shell.write_spec(n_steps=3, warmup=12)
    said = (
        "note: training.warmup is 12, more than n_steps 3: the rate comes to 0.00025 and never to"
        " 0.001\n"
    )
    assert shell.train_or_fail().out.startswith(said)
    shell.write_spec(n_steps=3, warmup=3)
    assert "warmup" not in shell.train_or_fail(name="other").out


def test_a_run_of_more_steps_is_another_run(shell: TrainShell) -> None:
    shell.write_spec(n_steps=3)
    short = shell.train_or_fail(name=None).out.splitlines()[-1].removeprefix("3 steps: ")
    shell.write_spec(n_steps=4)
    long = shell.train_or_fail(name=None).out.splitlines()[-1].removeprefix("4 steps: ")
    assert short != long
    assert [len(rows_without_seconds(Path(folder))) for folder in (short, long)] == [3, 4]
    refused = shell.train(name=Path(short).name)
    said = (
        f"holds the run {Path(short).name}, not {Path(long).name}: training.n_steps 3 → 4; "
        "choose another name, or leave it out"
    )
    assert (refused.status, refused.err) == (1, f"error: {short} {said}\n")
    assert len(rows_without_seconds(Path(short))) == 3


# A rate that rises out of all measure: it is best near its beginning.
WORSENING = {
    "n_steps": 16,
    "checkpoint_every": 2,
    "valid_every": 2,
    "optimizer": {"rate": 3.0},
    "warmup": 16,
}


def best(folder: Path) -> int:
    scores = {
        row["step"]: row["valid_nats"]
        for row in rows_without_seconds(folder)
        if "valid_nats" in row
    }
    return min(scores, key=scores.__getitem__)


@pytest.mark.parametrize("keep_last", [1, 3])
def test_the_last_few_checkpoints_and_the_best_by_held_out_nats_are_kept(
    shell: TrainShell, keep_last: int
) -> None:
    shell.write_spec(**WORSENING, keep_last=keep_last)
    shell.train_or_fail()
    run = shell.home / "run"
    last = list(range(1, 16, 2))[-keep_last:]
    assert best(run) < last[0]
    assert checkpoint_steps(run) == [best(run), *last]
    for row in rows_without_seconds(run):
        place = run / f"checkpoints/step-{row['step']:09}/checkpoint.json"
        if place.exists():
            written = json.loads(place.read_text())
            assert (written["step"], written["score"]) == (row["step"], row["valid_nats"])


def test_a_score_is_of_the_state_that_was_measured_and_of_no_later_one(shell: TrainShell) -> None:
    shell.write_spec(n_steps=8, valid_every=3, checkpoint_every=1, keep_last=8)
    shell.train_or_fail()
    places = [shell.home / f"run/checkpoints/step-{step:09}/checkpoint.json" for step in range(8)]
    scores = [json.loads(place.read_text())["score"] for place in places]
    assert scores == [row.get("valid_nats") for row in rows_without_seconds(shell.home / "run")]
    assert [score is not None for score in scores] == [
        False,
        False,
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_an_interrupted_run_keeps_the_checkpoints_that_an_uninterrupted_one_keeps(
    shell: TrainShell,
) -> None:
    shell.write_spec(**WORSENING, keep_last=1)
    shell.train_or_fail(name="whole")
    for step in (5, 10):
        stopped = shell.train(
            page=TriggerPage(step_line(step), lambda: signal.raise_signal(signal.SIGTERM))
        )
        assert stopped.status == 143
    shell.train_or_fail()
    assert checkpoint_steps(shell.home / "run") == checkpoint_steps(shell.home / "whole")
    assert_same_run(shell.home / "run", shell.home / "whole")
