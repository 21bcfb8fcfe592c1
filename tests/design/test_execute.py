"""Runs are made once: what is finished or diverged is never made again, and faults of one are
none of the next.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from trained_study import CPU, N_STEPS, RATE, make_small_plan

from paribus.design.cell_run import cell_score, find_answers, is_complete, train_and_measure
from paribus.design.cells import Cell, reported_cells
from paribus.design.execute import execute_cells, resumable_exit
from paribus.design.on import in_process
from paribus.design.on import local as crews
from paribus.design.on.local import WorkerPool, next_cell_index, worker_device
from paribus.design.on.scheduler import RESUME_STATUS
from paribus.design.study_watcher import StudyWatcher
from paribus.evaluate import evaluate
from paribus.record import Study, hold_lock, open_study
from paribus.runtime import STOP_SIGNALS
from paribus.spec.yardstick import PseudoHalves
from paribus.watcher import Watcher
from paribus.workspace import Execution, Workspace

SHORT = {"base.training.n_steps": 2, "arms.reverse": None}


class StepCounter(Watcher):
    """Counts the steps of one cell."""

    def __init__(self, cell: Cell, steps: Counter[str]) -> None:
        self.cell, self.steps = cell, steps

    def step(self, step: int) -> None:
        self.steps[str(self.cell)] = step + 1


class Silent(StudyWatcher):
    """Told of every cell, and remembers."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str | None]] = []
        self.steps: Counter[str] = Counter()

    def begin(self, cell: Cell) -> Watcher:
        return StepCounter(cell, self.steps)

    def end(self, cell: Cell, fault: str | None) -> None:
        self.ended.append((str(cell), fault))


def cells_of(
    cache: Path, rate: float = RATE, changes: dict[str, Any] | None = None
) -> tuple[Cell, ...]:
    plan = make_small_plan(cache, SHORT | (changes or {}))
    return reported_cells(plan, {arm.name: rate for arm in plan.arms})


def done(cells: Sequence[Cell], kept: Study, means: Execution) -> tuple[Silent, Any]:
    watcher = Silent()
    with WorkerPool(means) as crew:
        return watcher, execute_cells(cells, kept, crew, watcher)


@pytest.fixture
def kept(tmp_path: Path) -> Study:
    return open_study(tmp_path / "runs", "one")


@pytest.fixture
def means(study_cache: Path) -> Execution:
    return Execution(Workspace(cache=study_cache, device="cpu"))


def test_every_cell_is_trained_and_measured_and_found_again(
    kept: Study, means: Execution, study_cache: Path
) -> None:
    cells = cells_of(study_cache, changes={"base.training.n_steps": N_STEPS})[:2]
    watcher, result = done(cells, kept, means)
    assert watcher.ended == [("full, seed 1", None), ("causal, seed 1", None)]
    assert watcher.steps == {"full, seed 1": N_STEPS, "causal, seed 1": N_STEPS}
    assert result.failures == {}
    assert result.open_elsewhere == ()
    assert all(is_complete(cell, kept) for cell in cells)
    assert cell_score(cells[0], kept, cells[0].measures[0]) is not None
    again, _ = done(cells, kept, means)
    assert again.ended == []


class UnseenPool(WorkerPool):
    """Runs some of whose files are seen only later, as those of another machine on NFS."""

    unseen_seconds = 600.0
    folder = ""
    delay = 0.3  # seconds

    def run_cells(
        self, cells: Sequence[Cell], study: Study, watcher: StudyWatcher
    ) -> dict[str, str]:
        failures = super().run_cells(cells, study, watcher)
        there = study.root / cells[0].name / self.folder
        unseen = there.rename(study.root.parent / "unseen")
        self.timer = threading.Timer(self.delay, lambda: unseen.rename(there))
        self.timer.start()
        return failures


@pytest.mark.parametrize("folder", ["evaluations", "checkpoints"])
def test_what_another_machine_wrote_is_waited_for(
    folder: str, kept: Study, means: Execution, study_cache: Path
) -> None:
    cells = cells_of(study_cache, changes={"base.training.n_steps": N_STEPS})[:1]
    with UnseenPool(means) as pool:
        pool.folder = folder
        assert execute_cells(cells, kept, pool, Silent()).failures == {}
        pool.timer.join()
    assert is_complete(cells[0], kept)


def test_cells_that_ask_for_the_same_run_share_it(
    kept: Study, means: Execution, study_cache: Path
) -> None:
    cells = cells_of(study_cache, changes={"arms.twin": {"architecture": {"mask": "full"}}})
    same = [cell for cell in cells if cell.seed == 1 and cell.arm in ("full", "twin")]
    watcher, _ = done(same, kept, means)
    assert len(watcher.ended) == 1
    assert all(is_complete(cell, kept) for cell in same)


def test_a_diverged_run_is_an_outcome_and_is_not_trained_again(
    kept: Study, means: Execution, study_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = cells_of(study_cache, 1e30)[:1]
    watcher, result = done(cells, kept, means)
    assert watcher.ended == [("full, seed 1", None)]
    assert result.failures == {}
    assert kept.run_outcome(cells[0].name)[0] == "diverged"
    assert cell_score(cells[0], kept, cells[0].measures[0]) is None

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it was trained again")

    monkeypatch.setattr("paribus.design.cell_run.train_chain", never)
    again, _ = done(cells, kept, means)
    assert again.ended == []


def test_answers_of_an_earlier_step_of_other_text_or_to_another_yardstick_do_not_settle_a_cell(
    kept: Study, means: Execution, study_cache: Path
) -> None:
    cell = cells_of(study_cache)[0]
    done([cell], kept, means)
    (path,) = (kept.root / cell.name / "evaluations").iterdir()
    whole = path.read_text()
    for old, new in (
        ('"step":1', '"step":0'),
        (cell.dataset.fingerprint, "0" * 64),
        ('"n_items":11', '"n_items":12'),
    ):
        assert old in whole
        path.write_text(whole.replace(old, new, 1))
        if "n_items" not in old:  # which also counts the answers below
            assert find_answers(cell, kept, cell.measures[0]) is None
            assert not is_complete(cell, kept)
    path.write_text(whole)
    assert is_complete(cell, kept)
    evaluate(kept.root / cell.name, PseudoHalves(n_items=3, max_bytes=24), cell.dataset, device=CPU)
    found = find_answers(cell, kept, cell.measures[0])
    assert found is not None
    assert found.head.n_items == 11


def test_a_fault_of_the_machine_in_one_run_is_none_in_the_next(
    kept: Study, means: Execution, study_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = cells_of(study_cache)[:3]
    (kept.root / cells[0].name).mkdir(parents=True)
    (kept.root / cells[0].name / "stray").touch()
    original = in_process.train_and_measure

    def short_of_memory(run: Any, *rest: Any, **named: Any) -> None:
        if run == cells[1].run:
            raise MemoryError("out of memory")
        original(run, *rest, **named)

    monkeypatch.setattr(in_process, "train_and_measure", short_of_memory)
    watcher, result = done(cells, kept, means)
    assert (
        "and no spec.json: it is not a run; choose another name" in result.failures["full, seed 1"]
    )
    assert "MemoryError: out of memory" in result.failures["causal, seed 1"]
    assert watcher.ended[2] == ("full, seed 2", None)
    (kept.root / cells[0].name / "stray").unlink()
    monkeypatch.setattr(in_process, "train_and_measure", original)
    assert done(cells, kept, means)[1].failures == {}


def test_shards_are_disjoint_and_together_complete(
    kept: Study, means: Execution, study_cache: Path
) -> None:
    cells = cells_of(study_cache)
    parts = [Execution(means.workspace, shard=(part, 2)) for part in (1, 2)]
    first, one = done(cells, kept, parts[0])
    assert 0 < len(first.ended) < 6
    assert {str(cell) for cell in one.open_elsewhere} == {str(cell) for cell in cells} - {
        name for name, _ in first.ended
    }
    second, other = done(cells, kept, parts[1])
    assert other.open_elsewhere == ()
    assert sorted(first.ended + second.ended) == sorted((str(cell), None) for cell in cells)


def test_an_interrupted_run_leaves_with_75_and_is_gone_on_with(
    kept: Study, means: Execution, study_cache: Path
) -> None:
    cells = cells_of(study_cache, changes={"base.training.n_steps": 6})[:1]

    class Interrupter(Watcher):
        def step(self, step: int) -> None:
            if step == 2:
                signal.raise_signal(signal.SIGTERM)

    class Impatient(Silent):
        def begin(self, cell: Cell) -> Watcher:
            return Interrupter()

    with pytest.raises(SystemExit) as left, WorkerPool(means) as crew:
        execute_cells(cells, kept, crew, Impatient())
    assert left.value.code == RESUME_STATUS == 75
    assert kept.run_outcome(cells[0].name)[0] == "open"
    watcher, _ = done(cells, kept, means)
    assert watcher.steps["full, seed 1"] == 6
    assert is_complete(cells[0], kept)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_between_runs_leaves_with_75_too(
    kept: Study,
    means: Execution,
    study_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    cells = cells_of(study_cache)[:1]

    def struck(*_: Any, **__: Any) -> None:
        signal.raise_signal(number)

    before = signal.getsignal(number)
    monkeypatch.setattr("paribus.design.measurement.evaluate", struck)
    with pytest.raises(SystemExit) as left, resumable_exit(), WorkerPool(means) as crew:
        execute_cells(cells, kept, crew, Silent())
    assert left.value.code == RESUME_STATUS
    assert signal.getsignal(number) == before
    assert kept.run_outcome(cells[0].name)[0] == "finished"
    assert not is_complete(cells[0], kept)
    monkeypatch.undo()
    done(cells, kept, means)
    assert is_complete(cells[0], kept)


@dataclass(frozen=True)
class TwoWorkers:
    """What two workers did: they died at once, were replaced, made runs of which one cannot be
    made, and then the others.
    """

    kept: Study
    cells: tuple[Cell, ...]
    deaths: dict[str, str]
    watcher: Silent
    failures: dict[str, str]
    later_failures: dict[str, str]
    process_ids: list[list[int]]  # of the workers after each round of runs
    exit_statuses: list[int | None]
    output: bytes


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory, study_cache: Path) -> TwoWorkers:
    folder = tmp_path_factory.mktemp("workers")
    kept, watcher = open_study(folder / "runs", "one"), Silent()
    cells = (*cells_of(study_cache)[:4], *cells_of(study_cache, 1e30)[:1])
    stray = kept.root / cells[1].name / "stray"
    process_ids = []
    with (
        output_in(folder / "output"),
        WorkerPool(Execution(Workspace(cache=study_cache, device="cpu"), n_jobs=2)) as crew,
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(crews.sys, "executable", "false")
            deaths = execute_cells(cells[:2], kept, crew, Silent()).failures
        stray.parent.mkdir(parents=True)
        stray.touch()
        failures = execute_cells(cells, kept, crew, watcher).failures
        process_ids.append([worker.process.pid for worker in crew.workers])
        stray.unlink()
        later_failures = execute_cells(cells_of(study_cache), kept, crew, Silent()).failures
        process_ids.append([worker.process.pid for worker in crew.workers])
        workers = crew.workers
    return TwoWorkers(
        kept=kept,
        cells=cells,
        deaths=deaths,
        watcher=watcher,
        failures=failures,
        later_failures=later_failures,
        process_ids=process_ids,
        exit_statuses=[worker.process.poll() for worker in workers],
        output=(folder / "output").read_bytes(),
    )


@contextmanager
def output_in(path: Path) -> Iterator[None]:
    """What this process and those that it starts write goes to a file."""
    with path.open("w") as file, redirect_stdout(file), redirect_stderr(file):
        kept_streams = [os.dup(stream) for stream in (1, 2)]
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            yield
        finally:
            for stream, kept_stream in enumerate(kept_streams, 1):
                os.dup2(kept_stream, stream)
                os.close(kept_stream)


def test_workers_side_by_side_make_every_run_with_one_thread_each(two_workers: TwoWorkers) -> None:
    cells, kept, watcher = two_workers.cells, two_workers.kept, two_workers.watcher
    assert sorted(name for name, fault in watcher.ended if fault is None) == [
        "causal, seed 2",
        "full, seed 1",
        "full, seed 1",
        "full, seed 2",
    ]
    assert list(two_workers.failures) == [str(cells[1])]
    assert "it is not a run; choose another name" in two_workers.failures[str(cells[1])]
    environment = (kept.root / cells[0].name / "environment.json").read_text()
    assert '"n_threads": 1,' in environment
    assert '"omp_num_threads": "1"' in environment
    assert kept.run_outcome(cells[4].name)[0] == "diverged"
    assert two_workers.output == b""


def test_a_worker_that_dies_is_told_and_what_it_left_is_resumed(
    kept: Study, means: Execution, study_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = cells_of(study_cache)[:2]
    monkeypatch.setattr(crews.sys, "executable", "false")
    watcher, result = done(
        cells, kept, Execution(Workspace(cache=study_cache, device="cpu"), n_jobs=2)
    )
    assert "its process ended with status 1; run again to resume it" in result.failures.values()
    assert len(result.failures) == 2
    monkeypatch.undo()
    assert done(cells, kept, means)[1].failures == {}
    assert len(watcher.ended) == 2


def test_a_worker_that_died_is_replaced_and_the_rest_is_run(two_workers: TwoWorkers) -> None:
    assert len(two_workers.deaths) == 2
    assert list(two_workers.failures) == [str(two_workers.cells[1])]  # which is no run
    assert two_workers.later_failures == {}
    assert len(two_workers.process_ids[0]) == 2


def written(kept: Study) -> bool:
    """Is a run at work, with a row on disk? Before the first row nothing is there to be saved."""
    return any(path.stat().st_size for path in kept.root.glob("*/rows.jsonl"))


def test_a_signal_stops_the_workers_and_leaves_with_75(kept: Study, study_cache: Path) -> None:
    cells = cells_of(
        study_cache, changes={"base.training.n_steps": 4000, "base.training.checkpoint_every": 4000}
    )[:1]
    ended = threading.Event()

    def strike() -> None:
        while not written(kept) and not ended.wait(0.02):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    striker, watcher = threading.Thread(target=strike), Silent()
    striker.start()
    try:
        with (
            pytest.raises(SystemExit) as left,
            WorkerPool(Execution(Workspace(cache=study_cache, device="cpu"), n_jobs=2)) as crew,
        ):
            execute_cells(cells, kept, crew, watcher)
    finally:
        ended.set()
        striker.join()
    assert left.value.code == RESUME_STATUS
    assert watcher.ended == []
    assert kept.run_outcome(cells[0].name)[0] == "open"
    assert list((kept.root / cells[0].name / "checkpoints").glob("step-*"))


def test_a_worker_whose_sender_is_gone_saves_its_run_and_leaves(
    kept: Study, study_cache: Path
) -> None:
    (cell,) = cells_of(
        study_cache, changes={"base.training.n_steps": 4000, "base.training.checkpoint_every": 4000}
    )[:1]
    job = {
        "run": cell.run.model_dump(mode="json"),
        "measures": [],
        "root": str(kept.root),
        "cache": str(study_cache),
        "device": "cpu",
        "accept_environment": False,
    }
    command = [sys.executable, "-m", "paribus.design.worker"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(job) + "\n")
        worker.stdin.flush()
        while not written(kept):
            assert worker.poll() is None
            time.sleep(0.02)
        worker.stdin.close()
        assert worker.wait() == 128 + signal.SIGTERM
    assert list((kept.root / cell.name / "checkpoints").glob("step-*"))


def test_a_run_that_another_process_has_is_waited_for(kept: Study, study_cache: Path) -> None:
    (cell,) = cells_of(study_cache)[:1]
    folder = kept.root / cell.name
    folder.mkdir(parents=True)
    let_go = threading.Event()

    def hold() -> None:
        with hold_lock(folder / "lock"):
            let_go.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    threading.Timer(1.2, let_go.set).start()
    train_and_measure(cell.run, cell.texts, cell.measures, Workspace(kept.root, device="cpu"))
    assert let_go.is_set()
    holder.join()
    assert is_complete(cell, kept)


def test_workers_take_the_devices_in_turn_unless_one_was_asked_for() -> None:
    assert [worker_device(["4", "6"], number, None) for number in range(3)] == ["4", "6", "4"]
    assert [worker_device(["4", "6"], number, 1) for number in range(3)] == ["6", "6", "6"]


def test_workers_stay_for_the_next_runs(two_workers: TwoWorkers) -> None:
    assert two_workers.later_failures == {}
    assert two_workers.process_ids[1] == two_workers.process_ids[0]
    assert two_workers.exit_statuses == [0, 0]


def test_a_worker_keeps_to_what_it_has_compiled() -> None:
    arms = ["causal", "prefix", "full"]
    assert next_cell_index(arms, compiled_arms={"full"}, begun_arms={"causal", "full"}) == 2
    assert next_cell_index(arms, compiled_arms=set(), begun_arms={"causal", "full"}) == 1
    assert next_cell_index(arms, compiled_arms=set(), begun_arms=set(arms)) == 0
