"""Commands of `paribus train` as ranks: a process that is told, a line of JSON at a time, how many
ranks work through which commands in which folder.

Each rank is a process of its own, forked before anything was computed, so that torch is imported
once. The exit statuses are said when all have ended.
"""

import json
import os
import shutil
import signal
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from paribus.cli import main
from paribus.cli.terminal import training_bar
from paribus.record.environment import current_environment

TIMEOUT = 240  # seconds: a rank may wait forever for another that is gone
# or the first step of every rank would import them
USED_LATER = ("torch._dynamo", "torch.distributed.fsdp", "paribus.cli.train")


class StoppedBar(training_bar.TrainingBar):
    """A bar that gets its process a real SIGTERM after a step."""

    stop_after: int | None = None

    def step(self, number: int) -> None:
        super().step(number)
        if number + 1 == StoppedBar.stop_after:
            os.kill(os.getpid(), signal.SIGTERM)


def work_through(commands: list[Any], page: str) -> None:
    """Every command in its turn; its status and what it printed are kept beside `page`."""
    results = []
    is_leader = os.environ.get("RANK", "0") == "0"
    for port, arguments, stop, copied in commands:
        os.environ["MASTER_PORT"] = port
        StoppedBar.stop_after = stop if is_leader else None
        for stream, end in ((sys.stdout, "out"), (sys.stderr, "err")):
            place = os.open(f"{page}.{end}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.dup2(place, stream.fileno())
        if copied and is_leader:
            shutil.copytree(*copied)
        status = main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        texts = [Path(f"{page}.{end}").read_text() for end in ("out", "err")]
        results.append([status, *texts])
    Path(f"{page}.json").write_text(json.dumps(results))


def start_rank(environment: dict[str, str], commands: list[Any], page: str) -> int:
    """The number of a new process."""
    process = os.fork()
    if process:
        return process
    try:
        os.environ.update(environment)
        work_through(commands, page)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def wait_for(processes: list[int]) -> list[int]:
    """Their exit statuses; all are killed where one takes too long."""
    deadline, statuses = time.monotonic() + TIMEOUT, dict[int, int]()
    while len(statuses) < len(processes):
        for process in processes:
            if process not in statuses:
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    statuses[process] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > deadline:
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
    return [statuses[process] for process in processes]


def serve() -> None:
    torch.set_num_threads(1)
    for name in USED_LATER:
        import_module(name)
    training_bar.TrainingBar = StoppedBar
    current_environment(1, "cpu")  # which remembers the hash of the code
    while line := sys.stdin.readline():
        environments, commands, home = json.loads(line)
        processes = []
        for rank, environment in enumerate(environments):
            processes.append(start_rank(environment, commands, f"{home}/rank{rank}"))
        print(json.dumps(wait_for(processes)), flush=True)


if __name__ == "__main__":
    serve()
