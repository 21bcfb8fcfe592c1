"""Commands of `paribus train` carried out by one process, or by several ranks over gloo."""

import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from paribus.record.rows import CLOCK_FIELDS

# One process works through all runs: importing torch takes longer than training one of them.
# A job that is to be stopped gets a real SIGTERM after that step.
TRAIN = """
import json, os, shutil, signal, sys
from pathlib import Path
from paribus.cli import main
from paribus.cli.terminal.training_bar import TrainingBar

stop_after, go_on = None, TrainingBar.step

def step(bar, number):
    go_on(bar, number)
    if number + 1 == stop_after:
        os.kill(os.getpid(), signal.SIGTERM)

TrainingBar.step = step
results = []
is_leader = os.environ.get("RANK", "0") == "0"
for port, arguments, stop, copied in json.loads(sys.argv[1]):
    os.environ["MASTER_PORT"] = port
    stop_after = stop if is_leader else None
    if copied and is_leader:
        shutil.copytree(*copied)
    for stream, end in ((sys.stdout, "out"), (sys.stderr, "err")):
        os.dup2(os.open(f"{sys.argv[2]}.{end}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY),
                stream.fileno())
    status = main(arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    results.append([status, *(Path(f"{sys.argv[2]}.{end}").read_text() for end in ("out", "err"))])
Path(f"{sys.argv[2]}.json").write_text(json.dumps(results))
"""
# Each process of the suite has ports of its own, none of which machines give to sockets that ask
# for any.
N_OWN_PORTS = 128
_own_ports = itertools.count(10_000 + os.getpid() % 170 * N_OWN_PORTS)


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
    for each other forever. The machine gives none of them to another socket meanwhile.
    """
    ports: list[str] = []
    with ExitStack() as stack:
        while len(ports) < n:
            probe, port = stack.enter_context(socket.socket()), next(_own_ports)
            with suppress(OSError):  # of a port that is in use
                probe.bind(("127.0.0.1", port))
                ports.append(str(port))
    return ports


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
    started = []
    for rank in range(n):
        told = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1"}
        told |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **(told if n > 1 else {})}
        program = [sys.executable, "-c", TRAIN, json.dumps(commands), str(home / f"rank{rank}")]
        started.append(subprocess.Popen(program, env=environment))
    try:
        statuses = [process.wait(timeout=240) for process in started]
    finally:
        for process in started:
            process.kill()  # one that waits for a rank which is gone
            process.wait()
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
