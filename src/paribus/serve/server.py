"""A server that listens: on a host and a port, until it is asked to end."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import uvicorn

from paribus.errors import SpecError, UnsupportedError
from paribus.generate.engine import Engine
from paribus.record import RUNS
from paribus.serve.access import Access
from paribus.serve.app import ServerLimits, make_app
from paribus.serve.served_model import Representer, ServedModel
from paribus.serve.speaker import Speaker, load_speaker

DEFAULT_CACHE_BYTES = 1 << 30


@dataclass(frozen=True)
class EngineLimits:
    """How many answers each model makes at once, how much it keeps of what was read, and in which
    precision it computes.
    """

    max_rows: int = 32
    cache_bytes: int = DEFAULT_CACHE_BYTES
    dtype: torch.dtype | None = None  # in which it computes; None: that of the checkpoint


def load_models(
    run_names: Sequence[str | Path],
    runs: str | Path = RUNS,
    tokenizer: str | Path | None = None,
    device: str = "cpu",
    limits: EngineLimits | None = None,
    representer: Representer | None = None,
) -> list[ServedModel]:
    """Runs or checkpoints with an engine each; SpecError for two of one name."""
    if not run_names:
        raise SpecError("RUN is missing; name one or more runs")
    limits = limits or EngineLimits()
    speakers: dict[str, Speaker] = {}
    for run in run_names:
        speaker = load_speaker(run, runs, tokenizer, device, limits.dtype)
        if speaker.name in speakers:
            raise SpecError(
                f"two models are called {speaker.name!r}; rename a folder, or serve one of them"
            )
        speakers[speaker.name] = speaker
    models = []
    for speaker in speakers.values():
        engine = Engine(speaker.model, limits.cache_bytes, limits.max_rows)
        models.append(ServedModel(speaker, engine, representer))
    return models


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; UnsupportedError where the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as fault:
        listener.close()
        raise UnsupportedError(
            f"cannot listen on {host} port {port}: {fault.strerror or fault}; use another --port or"
            " --host"
        ) from fault
    return listener


def make_server(
    models: Sequence[ServedModel], access: Access, limits: ServerLimits | None = None
) -> uvicorn.Server:
    """A server that ends what it is answering when it is asked to end."""
    config = uvicorn.Config(
        make_app(models, access, limits),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        lifespan="on",
        ws="none",
    )
    return uvicorn.Server(config)
