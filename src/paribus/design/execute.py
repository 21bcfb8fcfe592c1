"""Runs one after another, or side by side in processes of their own; what is done is never done again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from paribus.design.cells import Cell
from paribus.design.perform import perform, settled
from paribus.errors import ParibusError
from paribus.record import Study

RESUME = 75  # the exit status that says: interrupted, run me again


class Watcher(Protocol):
    """Told of every cell; `n` counts steps done of it."""

    def begin(self, cell: Cell) -> None: ...
    def step(self, cell: Cell, n: int) -> None: ...
    def end(self, cell: Cell, fault: str | None) -> None: ...


@dataclass(frozen=True)
class Means:
    """With what cells are carried out."""

    cache: Path
    device: torch.device
    n_jobs: int = 1
    shard: tuple[int, int] = (1, 1)  # which of how many
    accept_environment: bool = False


@dataclass(frozen=True)
class Done:
    """What became of some cells."""

    failed: dict[str, str]  # cell → why: faults of the machine, not outcomes
    elsewhere: tuple[Cell, ...]  # not done yet, and another shard's


@contextmanager
def resumable() -> Iterator[None]:
    """SIGTERM and Ctrl-C, wherever they come, leave by SystemExit(75); what is on disk is whole."""

    def stop(number: int, _: object) -> None:
        raise SystemExit(RESUME)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def execute(cells: Sequence[Cell], study: Study, means: Means, watcher: Watcher) -> Done:
    """Carry out what is open of these cells, each run once; SystemExit(75) when interrupted."""
    distinct = list({cell.name: cell for cell in cells}.values())
    todo = [cell for cell in distinct if not settled(cell, study)]
    mine = [cell for cell in todo if int(cell.name, 16) % means.shard[1] == means.shard[0] - 1]
    failed = (_beside if means.n_jobs > 1 else _in_turn)(mine, study, means, watcher)
    own = {cell.name for cell in mine}
    return Done(failed, tuple(cell for cell in todo if cell.name not in own and not settled(cell, study)))


def _in_turn(cells: Sequence[Cell], study: Study, means: Means, watcher: Watcher) -> dict[str, str]:
    failed: dict[str, str] = {}
    for cell in cells:
        fault = None
        watcher.begin(cell)
        try:
            perform(
                cell.run, cell.built, cell.measures, study.root, means.device,
                accept_environment=means.accept_environment,
                on_step=lambda step, cell=cell: watcher.step(cell, step + 1),
            )  # fmt: skip
        except ParibusError as caught:
            fault = failed[str(cell)] = str(caught)
        except (SystemExit, KeyboardInterrupt):
            raise SystemExit(RESUME) from None
        except Exception:  # a machine's fault in one run, such as too little memory, is none in the next
            fault = failed[str(cell)] = traceback.format_exc(limit=4)
        watcher.end(cell, fault)
    return failed


def _beside(cells: Sequence[Cell], study: Study, means: Means, watcher: Watcher) -> dict[str, str]:
    """Workers take the next cell as they become free."""
    queue, failed, lock, caught = deque(cells), dict[str, str](), threading.Lock(), list[int]()
    workers = [_worker(number, means) for number in range(min(means.n_jobs, len(cells)))]

    def work(worker: subprocess.Popen[str]) -> None:
        while True:
            with lock:
                if not queue:
                    return
                cell = queue.popleft()
                watcher.begin(cell)
            fault = _sent(worker, cell, study, means)
            if caught:
                return
            with lock:
                if fault is not None:
                    failed[str(cell)] = fault
                watcher.end(cell, fault)
            if worker.poll() is not None:
                return

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    with _ending(workers, queue, caught):
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
    failed |= {str(cell): "no worker was left to run it; run again" for cell in queue}
    return failed


def _worker(number: int, means: Means) -> subprocess.Popen[str]:
    surroundings = dict(os.environ)
    if means.device.type == "cpu":
        surroundings["OMP_NUM_THREADS"] = "1"  # torch.set_num_threads does not bound every product
    elif means.device.type == "cuda":
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = seen.split(",") if seen else [str(place) for place in range(torch.cuda.device_count())]
        surroundings["CUDA_VISIBLE_DEVICES"] = one_of(names, number, means.device.index)
    command = [sys.executable, "-m", "paribus.design.worker"]
    # A group of its own: Ctrl-C reaches the workers through us, once.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings, start_new_session=True
    )


def one_of(names: Sequence[str], number: int, wanted: int | None) -> str:
    """The CUDA device of a worker: the one that was asked for, or else each in turn."""
    return names[number % len(names) if wanted is None else wanted]


def _sent(worker: subprocess.Popen[str], cell: Cell, study: Study, means: Means) -> str | None:
    """Why a cell failed in a worker, if it did."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    job = {
        "run": cell.run.model_dump(mode="json"),
        "measures": [measure.model_dump(mode="json") for measure in cell.measures],
        "root": str(study.root), "cache": str(means.cache), "device": means.device.type,
        "accept_environment": means.accept_environment,
    }  # fmt: skip
    try:
        worker.stdin.write(json.dumps(job) + "\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    except OSError:
        line = ""
    if not line:
        return f"its process ended with status {worker.wait()}; run again to resume it"
    return json.loads(line).get("failed")


@contextmanager
def _ending(workers: Sequence[subprocess.Popen[str]], queue: deque[Cell], caught: list[int]) -> Iterator[None]:
    """SIGTERM and Ctrl-C reach every worker, which saves its run; then we leave, to be resumed."""

    def stop(number: int, _: object) -> None:
        caught.append(number)
        queue.clear()
        for worker in workers:
            worker.send_signal(signal.SIGTERM)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for worker in workers:
            assert worker.stdin is not None
            assert worker.stdout is not None
            with suppress(OSError):  # of one that has died, with a line on its way
                worker.stdin.close()
            worker.wait()
            worker.stdout.close()
    if caught:
        raise SystemExit(RESUME)
