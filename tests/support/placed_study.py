"""A study that is run in several places, by processes of their own, and compared between them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from train_shell import rows_without_seconds
from trained_study import design_table

from paribus.record import read_environments
from paribus.record.disk import file_sha256
from paribus.record.lock import is_locked
from paribus.report.toml_text import inline_toml

SOURCE = Path(__file__).parents[2] / "src"
PATIENCE = 1200  # seconds


class PlacedStudy:
    """A folder that every place sees: a design, a cache, and runs of several places."""

    def __init__(self, folder: Path, changes: dict[str, Any]):
        self.folder = folder
        lines = [f"{name} = {inline_toml(value)}" for name, value in design_table(changes).items()]
        (folder / "study.toml").write_text("\n".join(lines) + "\n")

    def command(self, runs: str, *options: str) -> list[str]:
        command = [sys.executable, "-m", "paribus", "run", "study.toml", "--device", "cpu"]
        return [*command, "--runs", runs, "--cache", "cache", *options]

    def run(
        self, environment: Mapping[str, str], runs: str, *options: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(runs, *options),
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @contextmanager
    def driver(
        self, environment: Mapping[str, str], runs: str, *options: str
    ) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on in the background, and is killed if the test does not wait."""
        with subprocess.Popen(
            self.command(runs, *options),
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def watch(self, environment: Mapping[str, str], runs: str) -> str:
        """What `paribus watch` prints of the study."""
        command = [sys.executable, "-m", "paribus", "watch", "study", "--runs", runs, "--once"]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**environment, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return done.stdout

    def runs(self, name: str) -> dict[str, Path]:
        """The folders of the runs of one place, by their names."""
        paths = (self.folder / name).glob("*/spec.json")
        return {path.parent.name: path.parent for path in sorted(paths)}


def other_code(folder: Path) -> Path:
    """A copy of the source whose code is another."""
    shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    schedule = folder / "src/paribus/train/schedule.py"
    schedule.write_text(schedule.read_text() + "\n\nANOTHER_VALUE = 7\n")
    return folder / "src"


def plain_environment() -> dict[str, str]:
    """The environment of a shell that has set nothing but where programs are."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**inherited, "PYTHONPATH": str(SOURCE)}


def require_equal_runs(runs: dict[str, Path], others: dict[str, Path], n_runs: int) -> None:
    """Rows, environments, last weights and answers are the same, bit for bit."""
    assert list(runs) == list(others)
    assert len(runs) == n_runs
    for name, run in runs.items():
        other = others[name]
        assert rows_without_seconds(run) == rows_without_seconds(other)
        assert read_environments(run) == read_environments(other)
        assert _last_weights(run) == _last_weights(other)
        assert _answers(run) == _answers(other)


def _last_weights(run: Path) -> tuple[str, str]:
    path = max((run / "checkpoints").glob("step-*/weights.safetensors"))
    return path.parent.name, file_sha256(path)


def _answers(run: Path) -> dict[str, list[str]]:
    """What a run answered, item by item, without the line that says when."""
    return {
        path.name: path.read_text().splitlines()[1:]
        for path in sorted((run / "evaluations").iterdir())
    }


def wait_for_checkpoint(runs: Path, is_wanted: Callable[[Path], bool]) -> Path:
    """A run in the middle at which a process is, and which is wanted."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for checkpoint in runs.glob("*/checkpoints/step-*"):
            run = checkpoint.parents[1]
            is_open = "finished" not in (run / "state").read_text()
            if is_open and is_locked(run / "lock") and is_wanted(run):
                return run
        time.sleep(0.02)
    raise AssertionError("no run came so far")
