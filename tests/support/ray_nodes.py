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


class RayNodes:
    """A head node, and others that join it."""

    def __init__(self, folder: Path):
        self.folder = folder  # short, for Ray puts sockets into it
        self.token = secrets.token_hex(32)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.nodes: list[subprocess.Popen[bytes]] = []

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
        return node

    def n_alive(self) -> int:
        """How many nodes the cluster has now."""
        code = (
            "import ray;"
            f"ray.init({self.address!r}, logging_level='ERROR', log_to_driver=False);"
            "print(sum(node['Alive'] for node in ray.nodes()))"
        )
        asked = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=self.environment(),
            check=False,
        )
        return int(asked.stdout) if asked.returncode == 0 else 0

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
            for node in nodes.nodes:
                nodes.kill(node)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
