"""A server of real runs on a free port of this machine, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conversation_run import conversation_table

import paribus as pb
from paribus.cli.serve import represent_texts
from paribus.serve.access import access_for
from paribus.serve.app import ServerLimits
from paribus.serve.served_model import ServedModel
from paribus.serve.server import EngineLimits, ModelServer, bind, load_models, make_server
from paribus.workspace import Workspace

LENGTH = 64
ENGINE = EngineLimits(max_rows=4, cache_bytes=1 << 22)
FILLER: dict[str, Any] = {
    "architecture": {"preset": "bert", "n_layers": 1, "d_model": 16, "attention": {"n_heads": 2}},
    "corpus": {"sources": [{"kind": "copy", "form": "text", "n_documents": 300}]},
    "objective": "masked",
    "training": {"n_steps": 6, "n_sequences": 2, "length": 32, "valid_batches": 1},
}
BASE: dict[str, Any] = {
    **FILLER,
    "architecture": {**FILLER["architecture"], "preset": "gpt2", "max_length": 1024},
    "objective": "causal",
}


@dataclass(frozen=True)
class RunningServer:
    """Where a server is, and what it serves."""

    url: str
    models: Sequence[ServedModel]
    server: ModelServer

    def wait_until_idle(self, seconds: float = 20.0) -> bool:
        """Does every engine come to rest?"""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if all(served.engine.is_idle for served in self.models):
                return True
            time.sleep(0.02)
        return False


def train_runs(folder: Path) -> Path:
    """A folder of runs: two that chat, one that goes on, and one that fills masks."""
    workspace = Workspace(folder / "runs", cache=folder / "cache", device="cpu")
    for name in ("causal", "encoder-decoder"):
        table = conversation_table(name)
        table["architecture"] |= {"max_length": LENGTH}
        pb.train_run(table, name=name, workspace=workspace)
    pb.train_run(BASE, name="base", workspace=workspace)
    pb.train_run(FILLER, name="filler", workspace=workspace)
    return folder / "runs"


@contextmanager
def running_server(
    runs: Path,
    names: Sequence[str],
    keys: Sequence[str] = (),
    limits: ServerLimits | None = None,
) -> Iterator[RunningServer]:
    models = load_models(names, runs, limits=ENGINE, representer=represent_texts)
    listener = bind("127.0.0.1", 0)
    server = make_server(models, access_for("127.0.0.1", keys), limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield RunningServer(f"http://127.0.0.1:{listener.getsockname()[1]}", models, server)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
