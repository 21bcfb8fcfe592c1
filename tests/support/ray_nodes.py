"""Nodes of a real Ray cluster on this machine, each a process tree of its own that can be killed
as if its power had failed.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

SOURCE = Path(__file__).parents[2] / "src"
PATIENCE = 120  # seconds for a node to join
COUNTER = """
import sys, ray
ray.init(sys.argv[1], logging_level="ERROR", log_to_driver=False)
for _ in sys.stdin:
    print(sum(node["Alive"] for node in ray.nodes()), flush=True)
"""


class RayNodes:
    """A head node, and others that join it."""

    def __init__(self, folder: Path):
        self.folder = folder  # short, for Ray puts sockets into it
        self.token = secrets.token_hex(32)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.counter: subprocess.Popen[str] | None = None

    def environment(self, others: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a process of this cluster has in its environment."""
        own = {
            "PYTHONPATH": str(SOURCE),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {**inherited, **own, **(others or {})}

    def start(
        self,
        n_cpus: int,
        variables: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """A node that has joined; `prefix` is put before its command."""
        n_before = self.n_alive() if self.nodes else 0
        command = [*prefix, sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        command += ["--disable-usage-stats", f"--num-cpus={n_cpus}", "--node-ip-address=127.0.0.1"]
        command += ["--object-store-memory=80000000"]
        if self.nodes:
            command += [f"--address={self.address}"]
        else:
            command += ["--head", f"--port={self.port}", "--include-dashboard=false"]
            command += [f"--temp-dir={self.folder}"]
        log = (self.folder.parent / f"{self.folder.name}-{len(self.nodes)}.log").open("wb")
        with log:
            node = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment(variables)
            )
        self.nodes.append(node)
        until = time.monotonic() + PATIENCE
        while self.n_alive() <= n_before:
            assert node.poll() is None, Path(log.name).read_text()
            assert time.monotonic() < until, Path(log.name).read_text()
            time.sleep(0.2)
        return node

    def n_alive(self) -> int:
        """How many nodes the cluster has now."""
        if self.counter is None:
            if not listens(self.port):
                return 0
            self.counter = subprocess.Popen(
                [sys.executable, "-c", COUNTER, self.address],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=self.environment(),
            )
        assert self.counter.stdin is not None
        assert self.counter.stdout is not None
        print(file=self.counter.stdin, flush=True)
        for line in self.counter.stdout:
            if line.strip().isdecimal():  # Ray prints there, too
                return int(line)
        raise AssertionError("the cluster does not answer")

    def close(self) -> None:
        """End all nodes."""
        if self.counter is not None:
            self.counter.kill()
            self.counter.communicate()
        for node in self.nodes:
            self.kill(node)

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """End a node and all that it has started, at once and without a word."""
        for process in process_tree(node.pid):
            with suppress_gone():
                process.kill()
        node.wait()

    @contextmanager
    def joined(
        self, variables: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A second node with one CPU, for a while; in the end the cluster knows that it is gone."""
        node = self.start(1, variables, prefix)
        try:
            yield node
        finally:
            self.kill(node)
        until = time.monotonic() + PATIENCE
        while self.n_alive() > 1:
            assert time.monotonic() < until, "the cluster has not noticed"
            time.sleep(0.2)


def process_tree(number: int) -> list[psutil.Process]:
    """A process and what it has started, directly or not."""
    with suppress_gone():
        process = psutil.Process(number)
        return [process, *process.children(recursive=True)]
    return []


@contextmanager
def suppress_gone() -> Iterator[None]:
    """A process that has ended meanwhile is none to complain about."""
    try:
        yield
    except psutil.NoSuchProcess:
        return


@contextmanager
def ray_nodes(n_cpus: int) -> Iterator[RayNodes]:
    """A cluster of one node, to which others may be added; all are ended afterwards."""
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        nodes = RayNodes(Path(folder) / "s")
        try:
            nodes.start(n_cpus)
            yield nodes
        finally:
            nodes.close()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def listens(port: int) -> bool:
    """Does somebody listen on a port of this machine?"""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
