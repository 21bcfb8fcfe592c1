"""Commands of `paribus train` carried out by one process, or by several ranks over gloo."""

import atexit
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file

from paribus.record.rows import CLOCK_FIELDS

RUNNER = Path(__file__).with_name("rank_runner.py")


@dataclass(frozen=True)
class Job:
    """The words of `paribus train`; it may be stopped after a step, and begin with the runs of
    another folder.
    """

    words: list[str]
    stop_after: int | None = None
    begins_with: Path | None = None


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


def free_ports(n: int) -> list[str]:
    """Ports of this machine, no two alike: ranks that meet at a port for the second time may wait
    for each other forever.
    """
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(n)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [str(probe.getsockname()[1]) for probe in probes]


@cache
def _runner() -> subprocess.Popen[str]:
    """The process of which all ranks are forked; it leaves when its stdin is closed."""
    program = [sys.executable, str(RUNNER)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)  # which closes its stdin, and waits
    return process


def train_all(n: int, home: Path, jobs: Mapping[str, Job]) -> dict[str, list[Result]]:
    """The same commands as so many ranks, or without any word of ranks as one: by the name of each
    job, the result of each rank.
    """
    home.mkdir()
    commands = []
    for port, (name, job) in zip(free_ports(len(jobs)), jobs.items(), strict=True):
        kept = ["--cache", str(home.parent / "cache"), "--device", "cpu"]
        command = ["train", *job.words, *kept, "--name", "run", "--runs", str(home / name)]
        copied = None
        if job.begins_with is not None:
            copied = (str(job.begins_with), str(home / name))
        commands.append((port, command, job.stop_after, copied))
    environments = []
    for rank in range(n):
        told = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1"}
        told |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        environments.append(told if n > 1 else {})
    runner = _runner()
    assert runner.stdin is not None
    assert runner.stdout is not None
    print(json.dumps([environments, commands, str(home)]), file=runner.stdin, flush=True)
    statuses = json.loads(runner.stdout.readline())
    faults = [(home / f"rank{rank}.err").read_text() for rank in range(n)]
    assert statuses == [0] * n, faults
    by_rank = [json.loads((home / f"rank{rank}.json").read_text()) for rank in range(n)]
    results = {}
    for job, *own in zip(jobs, *by_rank, strict=True):
        results[job] = [Result(*result) for result in own]
    return results


def run_rows(folder: Path) -> list[dict[str, object]]:
    """The rows of a run without what is timed."""
    lines = (folder / "rows.jsonl").read_text().splitlines()
    return [
        {name: value for name, value in json.loads(line).items() if name not in CLOCK_FIELDS}
        for line in lines
    ]


def checkpoint_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Weights and the optimizer's memory of the newest checkpoint of a run."""
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    held = load_file(newest / "weights.safetensors") | load_file(newest / "learning.safetensors")
    return {name: tensor for name, tensor in held.items() if name != "pending.counters"}


def require_same_runs(one: Path, two: Path) -> None:
    assert run_rows(one) == run_rows(two)
    mine, theirs = checkpoint_tensors(one), checkpoint_tensors(two)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
