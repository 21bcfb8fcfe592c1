"""Workers side by side, each a process of its own that stays for a whole study and takes the next run when free."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, Self

import torch

from paribus.corpus import Built, VerifiedText, verify, verify_again
from paribus.design.cells import Cell
from paribus.errors import RecordError
from paribus.record import Study
from paribus.runtime import WORKSPACE, WORKSPACES

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


class Worker:
    """A process, and the arms it has run: what it compiled for them it need not compile again."""

    def __init__(self, number: int, means: Means):
        self.number, self.means = number, means
        self.process = _started(number, means)
        self.arms: set[str] = set()

    def run(self, cell: Cell, study: Study, text: VerifiedText) -> str | None:
        """Why a cell failed, if it did; a process that has died is replaced before the next one."""
        if self.process.poll() is not None:
            self.end()
            self.process, self.arms = _started(self.number, self.means), set()
        self.arms.add(cell.arm)
        return _sent(self.process, cell, study, self.means, text)

    def end(self) -> None:
        """Sent no more, a process ends by itself."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):  # of one that has died, with a line on its way
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Crew:
    """The workers of a study; none where runs are made one after another."""

    def __init__(self, means: Means):
        self.means = means
        self.workers: list[Worker] = []
        self.texts: dict[str, VerifiedText] = {}  # by their fingerprints

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()

    def verified_text(self, text: Built) -> VerifiedText:
        """A text whose every byte was read once; later only what may have changed. RecordError where it has."""
        known = self.texts.get(text.fingerprint)
        self.texts[text.fingerprint] = verify(text) if known is None else verify_again(known)
        return self.texts[text.fingerprint]

    def work(self, cells: Sequence[Cell], study: Study, watcher: Watcher) -> dict[str, str]:
        """Run cells side by side; why some failed. SIGTERM and Ctrl-C save every run and leave by SystemExit(75)."""
        for number in range(len(self.workers), min(self.means.n_jobs, len(cells))):
            self.workers.append(Worker(number, self.means))
        queue, failed, lock, caught = list(cells), dict[str, str](), threading.Lock(), list[int]()

        def toil(worker: Worker) -> None:
            while True:
                with lock:
                    if caught or not queue:
                        return
                    begun = {arm for other in self.workers for arm in other.arms}
                    cell = queue.pop(next_of([cell.arm for cell in queue], worker.arms, begun))
                    watcher.begin(cell)
                fault = self._run(worker, cell, study, queue)
                if caught:
                    return
                with lock:
                    if fault is not None:
                        failed[str(cell)] = fault
                    watcher.end(cell, fault)

        threads = [threading.Thread(target=toil, args=(worker,), daemon=True) for worker in self.workers]
        with _stopping(self.workers, caught):
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        if caught:
            raise SystemExit(RESUME)
        return failed

    def _run(self, worker: Worker, cell: Cell, study: Study, queue: list[Cell]) -> str | None:
        """Why a cell failed, if it did; where its text has changed, no other cell is begun."""
        try:
            return worker.run(cell, study, self.verified_text(cell.built))
        except RecordError as changed:
            queue.clear()
            return str(changed)


def next_of(arms: Sequence[str], own: Collection[str], begun: Collection[str]) -> int:
    """The place of an arm the worker has compiled, else of one that nobody has begun, else of the first."""
    return min(range(len(arms)), key=lambda place: (arms[place] not in own, arms[place] in begun))


def _started(number: int, means: Means) -> subprocess.Popen[str]:
    surroundings = dict(os.environ)
    if means.device.type == "cpu":
        surroundings["OMP_NUM_THREADS"] = "1"  # torch.set_num_threads does not bound every product
    elif means.device.type == "cuda":
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = seen.split(",") if seen else [str(place) for place in range(torch.cuda.device_count())]
        surroundings["CUDA_VISIBLE_DEVICES"] = one_of(names, number, means.device.index)
        surroundings.setdefault(WORKSPACE, WORKSPACES[0])  # before CUDA starts there
    command = [sys.executable, "-m", "paribus.design.worker"]
    # A group of its own: Ctrl-C reaches the workers through us, once.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings, start_new_session=True
    )


def one_of(names: Sequence[str], number: int, wanted: int | None) -> str:
    """The CUDA device of a worker: the one that was asked for, or else each in turn."""
    return names[number % len(names) if wanted is None else wanted]


def _sent(worker: subprocess.Popen[str], cell: Cell, study: Study, means: Means, text: VerifiedText) -> str | None:
    """Why a cell failed in a worker, if it did."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    job = {
        "run": cell.run.model_dump(mode="json"),
        "measures": [measure.model_dump(mode="json") for measure in cell.measures],
        "root": str(study.root), "text": asdict(text), "device": means.device.type,
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
def _stopping(workers: Sequence[Worker], caught: list[int]) -> Iterator[None]:
    """SIGTERM and Ctrl-C reach every worker, which saves its run and goes."""

    def stop(number: int, _: object) -> None:
        caught.append(number)
        for worker in workers:
            worker.process.send_signal(signal.SIGTERM)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
