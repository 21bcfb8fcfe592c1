"""A server while others ask too much of it: long prompts at once, and requests that never end.

    python benchmarks/server_floods.py
    python benchmarks/server_floods.py --descriptors 300

The server is a process of its own on one core, with a model of 6 steps and a window of 512 tokens;
its clients have all cores. `/health` is asked over a new connection every 100 ms. Times are wall
times: on a machine that does other things too, repeat them, and see what the server computed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paribus as pb
from paribus.workspace import Workspace

WINDOW = 512
RUN: dict[str, Any] = {
    "architecture": {
        "preset": "gpt2",
        "n_layers": 1,
        "d_model": 16,
        "attention": {"n_heads": 2},
        "max_length": WINDOW,
    },
    "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 300}]},
    "objective": "causal",
    "training": {"n_steps": 6, "n_sequences": 2, "length": 32, "valid_batches": 1},
}
HEALTH_SECONDS = 0.1
HALF_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
SETTLE_SECONDS = 15.0  # longer than the deadline of headers


@dataclass(frozen=True)
class Served:
    """A server in a process of its own."""

    pid: int
    port: int
    log: Path

    @property
    def cpu_seconds(self) -> float:
        """What it has computed, whatever else the machine does."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def n_descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class HealthWatch:
    """How long `/health` took, asked every 100 ms, and which statuses it gave."""

    def __init__(self, port: int):
        self.port = port
        self.seconds: list[float] = []
        self.statuses: set[int | str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> HealthWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._stop.wait(HEALTH_SECONDS):
            begin = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                connection.request("GET", "/health")
                self.statuses.add(connection.getresponse().status)
            except OSError as fault:
                self.statuses.add(type(fault).__name__)
            finally:
                connection.close()
            self.seconds.append(time.perf_counter() - begin)

    def __str__(self) -> str:
        return (
            f"/health asked {len(self.seconds)} times, at worst {max(self.seconds):.3f} s,"
            f" statuses {sorted(map(str, self.statuses))}"
        )


@contextmanager
def served(folder: Path, n_descriptors: int | None) -> Iterator[Served]:
    """A server of the run, which may open so many descriptors."""

    def limit() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        if n_descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (n_descriptors, n_descriptors))

    words = ["serve", "base", "--runs", str(folder / "runs"), "--port", "0", "--device", "cpu"]
    log = folder / "log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "paribus", *words],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
            preexec_fn=limit,
        ) as process,
    ):
        assert process.stdout is not None
        address = process.stdout.readline().rpartition(": ")[2].strip().rstrip("/")
        port = int(address.rpartition(":")[2])
        wait_for_health(port)
        yield Served(process.pid, port, log)
        process.terminate()


def wait_for_health(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not start")


def ask_prompts(server: Served, bodies: Sequence[bytes]) -> list[tuple[float, int]]:
    """Ask all prompts at once; how long each took, and its status."""
    answers: list[tuple[float, int]] = []

    def ask(body: bytes) -> None:
        begin = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        status = connection.getresponse().status
        answers.append((time.perf_counter() - begin, status))
        connection.close()

    threads = [threading.Thread(target=ask, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def prompts_of(kind: str, n_prompts: int, n_bytes: int) -> list[bytes]:
    """The same prompt so often: a long text, or as many small values as a body can hold."""
    prompt: Any = ("a few words of text, and then more of them; " * (n_bytes // 44 + 1))[:n_bytes]
    if kind == "one letter":
        prompt = "a" * n_bytes
    if kind == "small values":
        prompt = [None] * (n_bytes // 6)
    return [json.dumps({"model": "base", "prompt": prompt}).encode()] * n_prompts


def half_requests(port: int, n_connections: int) -> list[socket.socket]:
    """Connections on which a request has begun and does not go on."""
    lines = []
    for _ in range(n_connections):
        line = socket.create_connection(("127.0.0.1", port), 60)
        line.sendall(HALF_REQUEST)
        lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--bytes", type=int, default=3_000_000, help="of each prompt")
    parser.add_argument("--connections", type=int, default=2000, help="with half a request each")
    parser.add_argument("--descriptors", type=int, help="that the server may open")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # of the clients
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace = Workspace(folder / "runs", cache=folder / "cache", device="cpu")
        pb.train_run(RUN, name="base", workspace=workspace)
        descriptors = asked.descriptors or min(1024, hard)
        with served(folder, descriptors) as server:
            for kind in ("text", "one letter", "small values"):
                bodies = prompts_of(kind, asked.prompts, asked.bytes)
                for _ in range(asked.rounds):
                    with HealthWatch(server.port) as health:
                        time.sleep(0.5)
                        computed = server.cpu_seconds
                        answers = ask_prompts(server, bodies)
                        time.sleep(0.5)
                    slowest = max(seconds for seconds, _ in answers)
                    statuses = sorted({status for _, status in answers})
                    print(
                        f"{len(bodies)} × {len(bodies[0]):,} bytes, {kind}: at worst"
                        f" {slowest:.2f} s, statuses {statuses}; {health}; the server computed"
                        f" {server.cpu_seconds - computed:.2f} s",
                        flush=True,
                    )
            for _ in range(asked.rounds):
                n_before, log_before = server.n_descriptors, server.log.stat().st_size
                with HealthWatch(server.port) as health:
                    begin, computed = time.perf_counter(), server.cpu_seconds
                    lines = half_requests(server.port, asked.connections)
                    seconds = time.perf_counter() - begin
                    n_during = server.n_descriptors
                    time.sleep(SETTLE_SECONDS)
                n_after = server.n_descriptors
                for line in lines:
                    line.close()
                n_log = server.log.stat().st_size - log_before
                print(
                    f"{asked.connections:,} half requests in {seconds:.1f} s,"
                    f" {descriptors} descriptors:"
                    f" {n_before} open before, {n_during} during, {n_after} after"
                    f" {SETTLE_SECONDS:g} s; log {n_log:,} bytes; {health}; the server"
                    f" computed {server.cpu_seconds - computed:.2f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
