"""A server that listens: on a host and a port, until it is asked to end."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import uvicorn

from paribus.errors import SpecError, UnsupportedError
from paribus.generate.engine import Engine
from paribus.record import RUNS
from paribus.serve.access import Access
from paribus.serve.app import ServerLimits, make_app
from paribus.serve.connections import (
    ACCEPT_BATCH,
    Connection,
    Connections,
    connection_ceiling,
    descriptors,
)
from paribus.serve.guard import Guard
from paribus.serve.served_model import Representer, ServedModel
from paribus.serve.speaker import Speaker, load_speaker

DEFAULT_CACHE_BYTES = 1 << 30
BACKLOG = 2048  # connections that the system keeps until they are accepted
POLL_SECONDS = 0.05
LOG_SECONDS, LOG_REPEATS, LOG_LETTERS = 3600.0, 5, 8000


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


class LogLimit(logging.Filter):
    """Lets what one line of code says pass a few times an hour: others decide how often a request
    is faulty, and a log must not fill a disk.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[tuple[str, int], tuple[float, int]] = {}  # since when, and how often

    def filter(self, record: logging.LogRecord) -> bool:
        place, now = (record.pathname, record.lineno), time.monotonic()
        begin, n_before = self._passed.get(place, (now, 0))
        if now - begin >= LOG_SECONDS:
            n_left_out = max(n_before - LOG_REPEATS, 0)
            record.msg = f"{record.getMessage()} ({n_left_out:,} more in the hours before)"
            record.args, begin, n_before = (), now, 0
        self._passed[place] = begin, n_before + 1
        if n_before + 1 == LOG_REPEATS:
            record.msg = f"{record.getMessage()} (more of these are left out for an hour)"
            record.args = ()
        return n_before < LOG_REPEATS


class ShortFormatter(logging.Formatter):
    """Writes the beginning and the end of what is long."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if len(text) <= LOG_LETTERS:
            return text
        return f"{text[: LOG_LETTERS // 2]}\n…\n{text[-LOG_LETTERS // 2 :]}"


def log_config() -> dict[str, Any]:
    """Where the log of a server goes: to stderr, within limits."""
    logger = {"handlers": ["stderr"], "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"limit": {"()": LogLimit}},
        "formatters": {"short": {"()": ShortFormatter, "fmt": "%(levelname)s: %(message)s"}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "filters": ["limit"],
                "formatter": "short",
            }
        },
        "loggers": {"uvicorn": logger, "asyncio": logger, "paribus.serve": logger},
    }


class ModelServer(uvicorn.Server):
    """A uvicorn server with a ceiling of connections. Once it is asked to end, it answers what it
    has begun with, and everything else by 503, before it stops to listen.
    """

    def __init__(self, config: uvicorn.Config, guard: Guard, max_connections: int):
        super().__init__(config)
        self.guard = guard
        self.server_state = Connections(connection_ceiling(max_connections, *descriptors()))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # uvicorn has one number for this and for a batch

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.guard.is_ending = True
        begun = set(self.server_state.tasks)
        while begun and not self.force_exit:
            _, begun = await asyncio.wait(begun, timeout=POLL_SECONDS)
        await super().shutdown(sockets)


def make_server(
    models: Sequence[ServedModel], access: Access, limits: ServerLimits | None = None
) -> ModelServer:
    """A server that ends what it is answering when it is asked to end."""
    limits = limits or ServerLimits()
    guard = make_app(models, access, limits)
    config = uvicorn.Config(
        guard,
        http=Connection,
        log_config=log_config(),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        lifespan="on",
        ws="none",
        backlog=ACCEPT_BATCH,
    )
    return ModelServer(config, guard, limits.max_connections)
