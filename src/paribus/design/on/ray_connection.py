"""The Ray cluster that a study is carried out on: one that is there, or a local one."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from paribus.errors import UnsupportedError
from paribus.workspace import parse_host_and_port

CONNECT_SECONDS = 10.0


def require_ray() -> None:
    """UnsupportedError where Ray is not installed."""
    if find_spec("ray") is None:
        raise UnsupportedError(
            "--on ray needs ray, which is not installed; run pip install 'paribus[cluster]'"
        )


def import_ray() -> Any:
    """The library, which is there only with the extra."""
    require_ray()
    return import_module("ray")


def first_line(fault: BaseException) -> str:
    """The first line of what Ray says about a fault, which may be pages."""
    lines = str(fault).strip().splitlines()
    return lines[0] if lines else type(fault).__name__


@contextmanager
def ray_connection(ray: Any, address: str | None) -> Iterator[None]:
    """A cluster: the one at an address, or the one that this machine belongs to, or a local one.
    One that this process is connected to already is used as it is.
    """
    if ray.is_initialized():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _connect(ray, address)
    finally:
        for number, handler in handlers.items():  # Ray sets one of its own
            signal.signal(number, handler)
    try:
        yield
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    options = {"include_dashboard": False, "logging_level": "ERROR"}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of ours reports to nobody
    named = address or os.environ.get("RAY_ADDRESS")
    try:
        if named is not None:
            _require_answer(named)
        ray.init(address, **options)
    except (OSError, ValueError, RuntimeError) as fault:
        if named is None:
            ray.init("local", **options)  # what `ray start` left behind names one that is gone
            return
        raise UnsupportedError(
            f"no Ray cluster answers at {named}: {first_line(fault)}; give the address that"
            " `ray start --head` printed as --ray-address"
        ) from None


def _require_answer(address: str) -> None:
    """OSError where nobody listens at HOST:PORT: Ray itself tries for minutes."""
    host_and_port = parse_host_and_port(address)
    if host_and_port is not None:
        socket.create_connection(host_and_port, CONNECT_SECONDS).close()
