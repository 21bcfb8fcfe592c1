"""Runs on this machine: one after another in this process, or side by side in workers, each a
process of its own that stays for a whole study and takes the next run when free.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

import torch

from paribus.design.cells import Cell
from paribus.design.compiled_cache import compile_threads, compile_variables
from paribus.design.mps import shared_gpu
from paribus.design.on.in_process import run_in_process
from paribus.design.on.scheduler import RESUME_STATUS, Scheduler, next_cell_index
from paribus.design.study_watcher import StudyWatcher
from paribus.errors import RecordError
from paribus.record import Study
from paribus.runtime import (
    CUBLAS_WORKSPACE_VARIABLE,
    DETERMINISTIC_WORKSPACES,
    signal_handler,
)
from paribus.workspace import Execution, Local


class Worker:
    """A process, and the arms it has run: what it compiled for them it need not compile again."""

    def __init__(self, number: int, device: torch.device, variables: Mapping[str, str]):
        self.number, self.device = number, device
        self.variables = variables  # that its environment has beside ours
        self.process = _start_process(number, device, variables)
        self.arms: set[str] = set()

    def run_cell(self, cell: Cell, job: Mapping[str, Any]) -> str | None:
        """Why a cell failed, if it did; a process that has died is replaced before the next one."""
        if self.process.poll() is not None:
            self.close()
            self.process = _start_process(self.number, self.device, self.variables)
            self.arms = set()
        self.arms.add(cell.arm)
        return _send_job(self.process, job)

    def close(self) -> None:
        """Sent no more, a process ends by itself."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):  # of one that has died, with a line on its way
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class WorkerPool(Scheduler):
    """The workers of a study; none where runs are made one after another."""

    def __init__(self, execution: Execution):
        super().__init__(execution)
        assert isinstance(execution.on, Local)
        self.use_mps = execution.on.use_mps
        self.workers: list[Worker] = []
        # of the workers' environment
        n_threads = compile_threads(os.cpu_count() or 1, execution.n_jobs)
        self.worker_variables = compile_variables(
            execution.workspace.cache_folder, n_threads, os.environ
        )
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        if self.device.type == "cuda" and self.execution.n_jobs > 1 and self.use_mps:
            self.worker_variables |= self._closing.enter_context(shared_gpu())
        return self

    def __exit__(self, *_: object) -> None:
        with self._closing:
            for worker in self.workers:
                worker.close()

    def run_cells(
        self, cells: Sequence[Cell], study: Study, watcher: StudyWatcher
    ) -> dict[str, str]:
        """Run cells one after another, or side by side in workers; why some failed."""
        if self.execution.n_jobs == 1:
            return run_in_process(cells, study, self, watcher)
        return self._run_side_by_side(cells, study, watcher)

    def _run_side_by_side(
        self, cells: Sequence[Cell], study: Study, watcher: StudyWatcher
    ) -> dict[str, str]:
        for number in range(len(self.workers), min(self.execution.n_jobs, len(cells))):
            self.workers.append(Worker(number, self.device, self.worker_variables))
        queue, failures = list(cells), dict[str, str]()
        lock, signal_numbers = threading.Lock(), list[int]()

        def toil(worker: Worker) -> None:
            while True:
                with lock:
                    if signal_numbers or not queue:
                        return
                    begun_arms = set[str]().union(*[other.arms for other in self.workers])
                    waiting = [cell.arm for cell in queue]
                    cell = queue.pop(next_cell_index(waiting, worker.arms, begun_arms))
                    watcher.begin(cell)
                fault = self._run(worker, cell, study, queue)
                if signal_numbers:
                    return
                with lock:
                    if fault is not None:
                        failures[str(cell)] = fault
                    watcher.end(cell, fault)

        threads = []
        for worker in self.workers:
            threads.append(threading.Thread(target=toil, args=(worker,), daemon=True))
        with _forward_signals(self.workers, signal_numbers):
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        if signal_numbers:
            raise SystemExit(RESUME_STATUS)
        return failures

    def _run(self, worker: Worker, cell: Cell, study: Study, queue: list[Cell]) -> str | None:
        """Why a cell failed, if it did; where its text has changed, no other cell is begun."""
        try:
            return worker.run_cell(cell, self.cell_job(cell, study))
        except RecordError as changed:
            queue.clear()
            return str(changed)


def _start_process(
    number: int, device: torch.device, variables: Mapping[str, str]
) -> subprocess.Popen[str]:
    surroundings = {**os.environ, **variables}
    surroundings["OMP_NUM_THREADS"] = "1"  # torch.set_num_threads does not bound every product
    if device.type == "cuda":
        visible_devices = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible_devices:
            names = visible_devices.split(",")
        else:
            names = list(map(str, range(torch.cuda.device_count())))
        surroundings["CUDA_VISIBLE_DEVICES"] = worker_device(names, number, device.index)
        surroundings.setdefault(
            CUBLAS_WORKSPACE_VARIABLE, DETERMINISTIC_WORKSPACES[0]
        )  # before CUDA starts there
    command = [sys.executable, "-m", "paribus.design.worker"]
    # A group of its own: Ctrl-C reaches the workers through us, once.
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=surroundings,
        start_new_session=True,
    )


def worker_device(device_names: Sequence[str], number: int, device_index: int | None) -> str:
    """The CUDA device of a worker: the one that was asked for, or else each in turn."""
    if device_index is None:
        return device_names[number % len(device_names)]
    return device_names[device_index]


def _send_job(process: subprocess.Popen[str], job: Mapping[str, Any]) -> str | None:
    """Why a job failed in a worker, if it did."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
    except OSError:
        line = ""
    if not line:
        return f"its process ended with status {process.wait()}; run again to resume it"
    return json.loads(line).get("failed")


@contextmanager
def _forward_signals(workers: Sequence[Worker], caught_signals: list[int]) -> Iterator[None]:
    """SIGTERM and Ctrl-C reach every worker, which saves its run and goes."""

    def stop(number: int) -> None:
        caught_signals.append(number)
        for worker in workers:
            worker.process.send_signal(signal.SIGTERM)

    with signal_handler(stop):
        yield
