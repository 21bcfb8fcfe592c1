"""Runs whose disk fills up: `python full_disk.py HOME` prints what each said and left, as JSON.

A limit on the size of files stands in for a full disk: what is written past it fails in the middle,
as there. It holds for the whole process, so this one is no test's.
"""

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from train_shell import TrainShell, TriggerPage, checkpoint_steps, rows_without_seconds, step_line

SMALLER_THAN_WEIGHTS = 20_000  # bytes


def limit_file_size(n_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))


def run_on_full_disk(shell: TrainShell, n_bytes: Callable[[], int], line: str) -> dict[str, Any]:
    """A run on a disk that is full from a line on, and what it leaves."""
    try:
        answer = shell.train(page=TriggerPage(line, lambda: limit_file_size(n_bytes())))
    finally:
        limit_file_size(resource.RLIM_INFINITY)
    run = shell.home / "run"
    left = {
        "checkpoints": checkpoint_steps(run),
        "rows": len(rows_without_seconds(run)),
        "state": (run / "state").read_text(),
    }
    return {**vars(answer), **left, "again": vars(shell.train())}


def main(home: Path) -> None:
    cache = home / "cache"
    shells = {name: TrainShell(home / name, cache) for name in ("whole", "checkpoint", "rows")}
    for shell in shells.values():
        shell.home.mkdir()
        shell.write_spec()
    limit_file_size(1000)
    building = vars(shells["whole"].train())
    left = [path.name for path in cache.iterdir()]
    limit_file_size(resource.RLIM_INFINITY)
    rows = shells["rows"].home / "run/rows.jsonl"
    answers = {
        "building": {**building, "left": left, "again": vars(shells["whole"].train())},
        "checkpoint": run_on_full_disk(
            shells["checkpoint"], lambda: SMALLER_THAN_WEIGHTS, step_line(6)
        ),
        "rows": run_on_full_disk(shells["rows"], lambda: rows.stat().st_size + 100, step_line(6)),
    }
    print(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
