import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from trained_study import N_STEPS, make_small_plan

from paribus.design import estimate_cost, training_pace
from paribus.design.study_cost import STUDY_SECONDS, run_seconds
from paribus.design.training_pace import NO_WORK, StepPace, StepWork, measure_pace, n_block_calls
from paribus.spec import load
from paribus.workspace import Workspace

PACE = StepPace(flops_per_second=1e9, block_seconds=0.25, basis="for a test")


@pytest.fixture(autouse=True)
def known_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose speed is known."""
    monkeypatch.setattr(training_pace, "measure_pace", lambda _: PACE)


def test_arithmetic_and_calls_add_up() -> None:
    work = StepWork(flops=3e9, n_block_steps=20) * 2 - StepWork(1e9, 8)
    assert work == StepWork(5e9, 32)
    assert PACE.seconds(work) == 5 + 32 * 0.25
    assert PACE.seconds(NO_WORK) == 0


def test_blocks_of_an_encoder_are_called_too_and_all_of_them_for_each_micro_batch() -> None:
    assert n_block_calls(load("gpt2", changes={"n_layers": 3}), 1) == 3
    assert n_block_calls(load("t5", changes={"n_layers": 3, "encoder.n_layers": 2}), 7) == 35


@pytest.mark.parametrize("kind", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_machine_is_measured(kind: str) -> None:
    pace = measure_pace(torch.device(kind))
    assert pace.flops_per_second > 0
    assert pace.block_seconds > 0


def test_short_runs_take_what_starting_and_calls_take(study_cache: Path, tmp_path: Path) -> None:
    plan = make_small_plan(study_cache)
    cost = estimate_cost(plan, Workspace(tmp_path, device="cpu"))
    n_called = 3 * N_STEPS * sum(n_block_calls(arm.run.last_architecture, 1) for arm in plan.arms)
    fixed = STUDY_SECONDS + cost.n_runs * run_seconds("cpu")
    assert cost.seconds == pytest.approx(fixed + cost.flops / 1e9 + n_called * 0.25)
    assert cost.seconds_per_seed == pytest.approx((cost.seconds - STUDY_SECONDS) / 3)


def estimate_after(
    cache: Path, home: Path, folder: Path, change: Callable[[int, dict[str, Any]], None]
) -> tuple[float, float]:
    """The guessed seconds of steps without earlier runs, and with some whose rows are changed."""
    plan = make_small_plan(cache)
    guess = estimate_cost(plan, Workspace(folder / "none", device="cpu"))
    shutil.copytree(home, folder / "runs")
    for path in (folder / "runs").glob("*/rows.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for number, row in enumerate(rows, 1):
            change(number, row)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cost = estimate_cost(plan, Workspace(folder / "runs", device="cpu"))
    assert cost.basis == "at the pace of 9 earlier runs"
    fixed = STUDY_SECONDS + cost.n_runs * run_seconds("cpu")
    return guess.seconds - fixed, cost.seconds - fixed


def guessed_seconds(row: dict[str, Any], blocks: int) -> float:
    """What the steps until a row take at the known pace."""
    return PACE.seconds(StepWork(row["dense_flops"], (row["step"] + 1) * blocks))


def test_earlier_runs_say_how_much_longer_steps_take(
    study_cache: Path, tmp_path: Path, finished_home: Path
) -> None:
    blocks = n_block_calls(make_small_plan(study_cache).arms[0].run.last_architecture, 1)

    def slow(_: int, row: dict[str, Any]) -> None:  # a minute before the first row, then 7 times
        row["seconds"] = 60 + 7 * guessed_seconds(row, blocks)

    guess, seconds = estimate_after(study_cache, finished_home, tmp_path, slow)
    assert seconds == pytest.approx(7 * guess)


def test_runs_of_another_size_say_nothing_of_the_pace(
    study_cache: Path, tmp_path: Path, finished_home: Path
) -> None:
    """Beside arithmetic, tiny steps take calls: a plan of large ones is as long as without them."""
    shutil.copytree(finished_home, tmp_path / "runs")
    for wide in ({"base.architecture.d_model": 128}, {"base.architecture.n_layers": 5}):
        plan = make_small_plan(study_cache, wide)
        alone = estimate_cost(plan, Workspace(tmp_path / "none", device="cpu"))
        beside = estimate_cost(plan, Workspace(tmp_path / "runs", device="cpu"))
        assert (beside.seconds, beside.basis) == (alone.seconds, PACE.basis)
    like = make_small_plan(study_cache, {"base.architecture.d_model": 24})
    cost = estimate_cost(like, Workspace(tmp_path / "runs", device="cpu"))
    assert cost.basis == "at the pace of 9 earlier runs"


def test_what_runs_compile_all_along_is_not_in_their_pace(
    study_cache: Path, tmp_path: Path, finished_home: Path
) -> None:
    blocks = n_block_calls(make_small_plan(study_cache).arms[0].run.last_architecture, 1)

    def compile_often(number: int, row: dict[str, Any]) -> None:  # ten seconds before every row
        row["seconds"] = 10 * number + guessed_seconds(row, blocks)
        row["compile_seconds"] = 7.0 * number
        row["compile_wait_seconds"] = 3.0 * number

    guess, seconds = estimate_after(study_cache, finished_home, tmp_path, compile_often)
    assert seconds == pytest.approx(guess)


def test_a_design_of_micro_batches_calls_every_block_for_each(
    study_cache: Path, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path, device="cpu")
    whole = make_small_plan(study_cache, {"base.training.n_sequences": 6})
    split = make_small_plan(
        study_cache, {"base.training.n_sequences": 6, "base.training.n_micro_batches": 3}
    )
    n_called = 3 * N_STEPS * sum(n_block_calls(arm.run.last_architecture, 1) for arm in whole.arms)
    more = estimate_cost(split, workspace).seconds - estimate_cost(whole, workspace).seconds
    assert more == pytest.approx(2 * n_called * 0.25)


@pytest.mark.parametrize("architecture", ["gpt2", {"preset": "no such"}, None])
def test_a_damaged_run_is_no_reason_not_to_plan(
    study_cache: Path, tmp_path: Path, finished_home: Path, architecture: Any
) -> None:
    shutil.copytree(finished_home, tmp_path / "runs")
    paths = sorted((tmp_path / "runs").glob("*/spec.json"))
    for path in paths[:-1]:
        table = json.loads(path.read_text())
        for stage in table["stages"]:
            stage["architecture"] = architecture
        path.write_text(json.dumps(table))
    plan = make_small_plan(study_cache)
    cost = estimate_cost(plan, Workspace(tmp_path / "runs", device="cpu"))
    assert cost.basis == "at the pace of 1 earlier run"
