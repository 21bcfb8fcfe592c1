"""What compiling takes is counted apart: of steps that torch compiles in, and of no other."""

import fcntl
import json
import signal
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from train_shell import TrainShell, TriggerPage, step_line

import paribus.train.loop as loop
import paribus.train.model_loss as model_loss
from paribus.batch import Batch, BatchLayout
from paribus.cli import main
from paribus.objectives import Problem
from paribus.train import training_state
from paribus.train.compile_clock import CompileClock
from paribus.train.compile_turns import COMPILED_FOLDER_VARIABLE, CompileTurns
from paribus.train.cuda_graph import WARMUP_STEPS, CUDAGraphRunner
from paribus.train.learner import Learner

COMPILING, WAITING, STEP = 40.0, 5.0, 1.0  # seconds of the clock below


class HandClock:
    """A clock that goes on only when it is told to."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time

    def compiled(self, function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """The function compiled by torch, which takes its time."""

        def backend(graph: Any, _: Any) -> Callable[..., Any]:
            self.time += COMPILING
            return graph.forward

        torch.compiler.reset()
        return torch.compile(function, backend=backend)


class SlowTurns(CompileTurns):
    """Turns for which one waits once."""

    def __init__(self, clock: HandClock):
        super().__init__("a model")
        self.clock, self.codes = clock, set[Hashable]()

    @contextmanager
    def take(self, code: Hashable) -> Iterator[None]:
        if code not in self.codes:
            self.clock.time += WAITING
        self.codes.add(code)
        yield


def problem(length: int) -> Problem:
    tokens_BT = torch.ones((2, length), dtype=torch.int64)
    return Problem(
        inputs=Batch(tokens_BT, BatchLayout(2, length)),
        scored_positions_BM=tokens_BT,
        targets_BM=tokens_BT,
        weights_BM=torch.ones(2, length),
        target_positions_BM=tokens_BT,
    )


def test_code_that_is_there_is_not_counted_whatever_the_shape() -> None:
    hand = HandClock()
    clock, double = CompileClock(hand), hand.compiled(lambda tensor: 2 * tensor)
    counted: list[float] = []
    for length in (3, 3, 5, 3, 7, 11):  # the second length makes code for any, which serves all
        with clock.count_if_compiling():
            double(torch.ones(length))
            hand.time += STEP
        counted.append(clock.seconds)
    first, second = COMPILING + STEP, 2 * (COMPILING + STEP)
    assert counted == [first, first, second, second, second, second]
    assert hand.time == 2 * COMPILING + 6 * STEP


def test_a_call_that_is_counted_in_any_case() -> None:
    hand = HandClock()
    clock = CompileClock(hand)
    with clock.count():
        hand.time += STEP
    assert clock.seconds == STEP


@pytest.mark.parametrize("captures", [False, True])
def test_steps_count_what_they_compile_and_apart_from_it_the_wait_for_their_turn(
    captures: bool,
) -> None:
    hand = HandClock()
    runner = CUDAGraphRunner[Tensor](torch.device("cpu"), False, SlowTurns(hand))
    runner.captures = captures  # so many launched steps need no CUDA
    runner.clock = CompileClock(hand)
    double = hand.compiled(lambda tensor: 2 * tensor)

    def step(micro_batches: Sequence[Problem]) -> Tensor:
        hand.time += STEP
        return double(micro_batches[0].weights_BM)

    for _ in range(WARMUP_STEPS):
        assert runner(step, [problem(3)]).sum() == 12
    assert runner.clock.seconds == COMPILING + STEP
    assert runner.clock.wait_seconds == (WAITING if captures else 0.0)
    counted = runner.clock.seconds + runner.clock.wait_seconds
    assert hand.time == counted + (WARMUP_STEPS - 1) * STEP


def test_a_wait_is_counted_where_nothing_is_compiled_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPILED_FOLDER_VARIABLE, str(tmp_path))
    hand = HandClock()
    turns = CompileTurns("a model")
    runner = CUDAGraphRunner[Tensor](torch.device("cpu"), False, turns)
    runner.captures, runner.clock = True, CompileClock(hand)
    flock = fcntl.flock

    def wait(file: Any, operation: int) -> None:
        if operation == fcntl.LOCK_EX:
            hand.time += WAITING
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", wait)
    for _ in range(WARMUP_STEPS):
        runner(lambda micro_batches: micro_batches[0].weights_BM, [problem(3)])
    assert (runner.clock.seconds, runner.clock.wait_seconds) == (0.0, WAITING)


class CompiledLearner(Learner):
    """A learner that compiles on a CPU, too."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.model_loss.hidden_states = model_loss._compile(
            self.model.hidden_states, model_loss._VARYING
        )


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.compile
    torch.compiler.reset()
    monkeypatch.setattr(
        model_loss.torch, "compile", lambda function: plain(function, backend="eager")
    )
    monkeypatch.setattr(loop, "Learner", CompiledLearner)


def rows_of(shell: TrainShell) -> list[dict[str, Any]]:
    path = shell.home / "run" / "rows.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def stop_after(shell: TrainShell, step: int) -> None:
    page = TriggerPage(step_line(step), lambda: signal.raise_signal(signal.SIGTERM))
    assert shell.train(page=page).status == 143


def test_where_nothing_is_compiled_rows_say_nothing_of_it(shell: TrainShell) -> None:
    shell.write_spec()
    out = shell.train_or_fail().out
    assert "compiling" not in out
    for row in rows_of(shell):
        assert not {"compile_seconds", "compile_wait_seconds"} & set(row)


@pytest.mark.usefixtures("compiles")
def test_rows_tell_what_steps_compiled_and_not_what_validation_did(shell: TrainShell) -> None:
    shell.write_spec()
    out = shell.train_or_fail().out
    rows = rows_of(shell)
    (compiling,) = {row["compile_seconds"] for row in rows}  # in the first step, and never after
    assert 0 < compiling <= rows[0]["seconds"] < rows[-1]["seconds"]
    assert "valid_nats" in rows[3]  # whose code is another
    assert not any("compile_wait_seconds" in row for row in rows)  # nobody else compiled
    (line,) = [line for line in out.splitlines() if line.startswith("compiling took ")]
    assert out.splitlines().index(line) == len(out.splitlines()) - 2  # the folder comes last


@pytest.mark.usefixtures("compiles")
def test_a_resumed_run_adds_what_it_compiles_again(shell: TrainShell) -> None:
    shell.write_spec()
    stop_after(shell, 6)
    before = rows_of(shell)[-1]["compile_seconds"]
    torch.compiler.reset()  # as in another process
    shell.train_or_fail()
    sums = [row["compile_seconds"] for row in rows_of(shell)]
    n_before = sums.count(before)
    assert 0 < n_before < len(sums) == 12
    assert sums[:n_before] == [before] * n_before
    assert len(set(sums[n_before:])) == 1
    assert sums[-1] > before


def test_rows_tell_the_wait_apart_and_a_resumed_run_adds_to_it(
    shell: TrainShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WaitingLearner(Learner):
        """A learner whose first step waits for another process."""

        def __init__(self, *arguments: Any):
            super().__init__(*arguments)
            self.graph_runner.clock.wait_seconds = WAITING

    monkeypatch.setattr(loop, "Learner", WaitingLearner)
    shell.write_spec()
    stop_after(shell, 6)
    shell.train_or_fail()
    waits = [row["compile_wait_seconds"] for row in rows_of(shell)]
    assert waits == sorted(waits)
    assert set(waits) == {WAITING, 2 * WAITING}
    assert not any("compile_seconds" in row for row in rows_of(shell))


@pytest.mark.usefixtures("compiles")
def test_a_checkpoint_of_a_time_before_that_clock_goes_on(
    shell: TrainShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.write_spec()
    stop_after(shell, 6)
    read = training_state.load_training_state
    n_counters: list[int] = []

    def older(folder: Path, learner: Learner) -> dict[str, Tensor]:
        found = read(folder, learner)
        n_counters.append(len(found["counters"]))
        return {**found, "counters": found["counters"][:6]}

    monkeypatch.setattr(training_state, "load_training_state", older)
    monkeypatch.setattr(loop, "Learner", Learner)  # nothing is compiled any more
    shell.train_or_fail()
    assert n_counters == [8]
    rows = rows_of(shell)
    assert len(rows) == 12
    assert "compile_seconds" not in rows[-1]


@pytest.mark.gpu
def test_compiling_on_cuda_is_told_apart(shell: TrainShell) -> None:
    shell.write_spec()
    words = ["cuda" if word == "cpu" else word for word in shell.arguments()]
    assert main(words) == 0
    rows = rows_of(shell)
    assert 0 < rows[0]["compile_seconds"] <= rows[-1]["compile_seconds"] < rows[-1]["seconds"]
