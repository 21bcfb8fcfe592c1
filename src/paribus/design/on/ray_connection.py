"""The Ray cluster that a study is carried out on: one that is there, or a local one."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paribus.errors import UnsupportedError
from paribus.files import read_text
from paribus.workspace import parse_host_and_port

CONNECT_SECONDS = 10.0
MAX_ADDRESS_BYTES = 4096
_TOKEN_MODE = "RAY_AUTH_MODE=token"  # without it Ray sends no token to a cluster that is there


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
    if named is not None:
        _require_answer(named)
    elif (left := _left_behind()) and not _answers(left):
        address = "local"
    try:
        ray.init(address, **options)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as fault:
        if named is None and not isinstance(fault, ray.exceptions.RayError):
            ray.init("local", **options)  # what `ray start` left behind names one that is gone
            return
        where = f"at {named}" if named else "of this machine"
        raise UnsupportedError(
            f"the Ray cluster {where} does not let this process in: {first_line(fault)}; if it has"
            f" a token, copy that to ~/.ray/auth_token and run export {_TOKEN_MODE}; install the"
            " same versions of Python and Ray on every node"
        ) from None


def _left_behind() -> str | None:
    """The address of the cluster that `ray start` said this machine belongs to. The file outlives
    the cluster, and Ray would wait for minutes for a host that is gone.
    """
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    with suppress(OSError, UnicodeDecodeError):
        return read_text(Path(folder, "ray", "ray_current_cluster"), MAX_ADDRESS_BYTES).strip()
    return None


def _answers(address: str) -> bool:
    try:
        _require_answer(address)
    except UnsupportedError:
        return False
    return True


def _require_answer(address: str) -> None:
    """UnsupportedError where nobody listens at HOST:PORT: Ray itself tries for minutes."""
    host_and_port = parse_host_and_port(address)
    if host_and_port is None:
        return
    try:
        socket.create_connection(host_and_port, CONNECT_SECONDS).close()
    except OSError as fault:
        raise UnsupportedError(
            f"no Ray cluster answers at {address}: {first_line(fault)}; give the address that"
            " `ray start --head` printed as --ray-address"
        ) from None
