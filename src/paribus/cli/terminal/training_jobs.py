"""Runs that are trained at once, in a process with one thread each; what they print comes under
their names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paribus.cli.terminal.console import console
from paribus.errors import UnsupportedError
from paribus.report.toml_text import inline_toml
from paribus.runtime import signal_handler
from paribus.workspace import Workspace


@dataclass(frozen=True)
class TrainingJob:
    """A run to be trained: the file of its spec, its name, and what is changed of the spec."""

    spec: Path
    name: str
    changes: Mapping[str, Any]


def train_in_parallel(trainings: Sequence[TrainingJob], workspace: Workspace, device: str) -> None:
    """Train runs, or resume them, until all have ended; UnsupportedError where one did not
    succeed. SIGTERM and Ctrl-C let them save first.
    """
    processes: dict[str, subprocess.Popen[str]] = {}

    def end_all(_: int) -> None:
        for process in processes.values():
            process.terminate()

    with signal_handler(end_all):
        for one in trainings:
            processes[one.name] = _start(one, workspace, device)
        printers = [_print_under_name(name, process) for name, process in processes.items()]
        for printer in printers:
            printer.join()
        for process in processes.values():
            process.wait()
    for name, process in processes.items():
        if process.returncode != 0:
            raise UnsupportedError(
                f"training {name!r} ended with status {process.returncode}; its lines above say"
                " why, and the same command resumes it"
            )


def _start(training: TrainingJob, workspace: Workspace, device: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "paribus", "train", str(training.spec), "--name", training.name]
    words += ["--runs", str(workspace.runs_folder), "--cache", str(workspace.cache_folder)]
    words += ["--device", device]
    for path, value in training.changes.items():
        words += ["--set", f"{path}={inline_toml(value)}"]
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
    )


def _print_under_name(name: str, process: subprocess.Popen[str]) -> threading.Thread:
    """Print each line as it comes, in a thread of its own."""
    page = console()

    def print_lines() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                page.print(f"{name}: {line.rstrip()}", soft_wrap=True)

    thread = threading.Thread(target=print_lines)
    thread.start()
    return thread
