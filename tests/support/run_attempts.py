"""Attempts at a run in processes that can be killed, and what they left."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paribus.record.rows import CLOCK_FIELDS

RUNNER = Path(__file__).parent / "training_runner.py"


class Runner:
    """A process that starts attempts at runs, one at a time."""

    def __init__(self, process: subprocess.Popen[str]):
        self.process = process

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def started(self, objective: str, root: Path) -> int:
        """The number of a new process that trains there; what attempts share lies beside it."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{objective}\t{root.parent}\t{root.name}\n")
        self.process.stdin.flush()
        return int(self.heard())

    def finished(self, objective: str, root: Path) -> None:
        self.started(objective, root)
        assert self.heard() == "0"


@contextmanager
def runner() -> Iterator[Runner]:
    with subprocess.Popen(
        [sys.executable, str(RUNNER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Runner(process)
        assert process.stdin is not None
        process.stdin.close()


def wait(process: int, until: Callable[[], bool]) -> None:
    while not until():
        os.kill(process, 0)  # fails if it has ended
        time.sleep(0.0005)


def rows_without_times(folder: Path) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in row.items() if name not in CLOCK_FIELDS} for row in rows
    ]
