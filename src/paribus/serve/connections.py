"""Connections: how many there may be, and how long each may take until its request is whole or its
answer is read.

uvicorn bounds none of this: a client that sends half of a request, or does not read its answer,
keeps a descriptor for ever, and once none is left nobody else is served.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
from asyncio import TimerHandle
from http import HTTPStatus
from pathlib import Path
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from paribus.errors import UnsupportedError
from paribus.serve.http_errors import RequestError

MAX_HEADER_SECONDS = 10.0  # from the first byte of a request until its headers are whole
MAX_WRITE_SECONDS = 60.0  # in which a client reads nothing of its answer
LINGER_SECONDS = 1.0  # in which a client that is turned away can read why
ACCEPT_BATCH = 16  # connections that are accepted in one turn of the event loop
TURNS_TO_CLOSE = 4  # from the turn in which one is accepted to that in which it has made room
SPARE_DESCRIPTORS = 64  # for files, pipes and clients that are being turned away
MIN_CONNECTIONS = 16


def connection_ceiling(max_connections: int, max_descriptors: int, n_open: int) -> int:
    """How many connections there may be where so many descriptors are open; UnsupportedError
    where there is room for hardly any.
    """
    needed = n_open + ACCEPT_BATCH * TURNS_TO_CLOSE + SPARE_DESCRIPTORS
    if max_descriptors < needed + MIN_CONNECTIONS:
        raise UnsupportedError(
            f"this process may open {max_descriptors:,} files, but a server needs"
            f" {needed + MIN_CONNECTIONS:,}; allow more, as with ulimit -n 1024"
        )
    return min(max_connections, max_descriptors - needed)


def descriptors() -> tuple[int, int]:
    """How many descriptors this process may open, and how many are open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 20
    return soft, len(os.listdir(Path("/dev/fd").resolve()))


class Connections(ServerState):
    """All connections of a server, and which wait for a request, in the order of their coming."""

    def __init__(self, max_connections: int):
        super().__init__()
        self.max_connections = max_connections
        self.waiting: dict[Connection, None] = {}
        self.n_turned_away = 0


class Connection(H11Protocol):
    """One connection. It waits for a request until the headers of one are whole.

    At the ceiling a new one takes the place of the one that has waited longest, so that clients
    who send half of a request keep nobody out; where none waits, the new one is told 503.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ):
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(server_state, Connections)
        self.every = server_state
        self._header_deadline: TimerHandle | None = None
        self._write_deadline: TimerHandle | None = None
        self.has_begun = False  # has a part of a request come?
        self._is_turned_away = False

    @property
    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        every = self.every
        if len(every.connections) > every.max_connections:
            if not every.waiting:
                self._turn_away(_busy_error(every.max_connections))
                return
            next(iter(every.waiting)).give_way()
        every.waiting[self] = None
        self._limit_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_turned_away:
            self.every.n_turned_away -= 1
        self.every.waiting.pop(self, None)
        self._unlimit_headers()
        self._unlimit_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_turned_away:  # it has been answered; what it sent is read, so that it can be
            self.transport.close()
            return
        if self._is_waiting:
            self.has_begun = True
            self._limit_headers()
        super().data_received(data)
        self._note_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # which may begin with the next request
        if self._is_waiting and not self.transport.is_closing():
            self.every.waiting[self] = None
        if self.transport.get_write_buffer_size():
            self._limit_writing()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unlimit_writing()

    def give_way(self) -> None:
        """Make room for another connection."""
        self._end_waiting(_busy_error(self.every.max_connections))

    def _note_request(self) -> None:
        """Has a request begun to be answered?"""
        if not self._is_waiting:
            self._unlimit_headers()
            self.has_begun = False
            self.every.waiting.pop(self, None)

    def _limit_headers(self) -> None:
        if self._header_deadline is None:
            self._header_deadline = self.loop.call_later(MAX_HEADER_SECONDS, self._end_slow)

    def _unlimit_headers(self) -> None:
        if self._header_deadline is not None:
            self._header_deadline.cancel()
            self._header_deadline = None

    def _end_slow(self) -> None:
        self._end_waiting(
            RequestError(
                408, f"the headers did not come within {MAX_HEADER_SECONDS:g} s; send them faster"
            )
        )

    def _end_waiting(self, fault: RequestError) -> None:
        """Close it; a client that has sent part of a request is told why."""
        self.every.waiting.pop(self, None)
        self._unlimit_headers()
        if self.transport.is_closing():
            return
        if self.has_begun and self.conn.their_state is h11.IDLE:
            self.transport.write(_raw_answer(fault))
        self.transport.close()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _turn_away(self, fault: RequestError) -> None:
        """Answer a client before it has asked. What it sends is read once: a socket that is closed
        with something to read takes the answer back.
        """
        self._is_turned_away = True
        self.every.n_turned_away += 1
        if self.every.n_turned_away > SPARE_DESCRIPTORS // 2:
            self.transport.abort()
            return
        self.transport.write(_raw_answer(fault))
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _limit_writing(self) -> None:
        self._unlimit_writing()
        self._write_deadline = self.loop.call_later(MAX_WRITE_SECONDS, self._end_writing)

    def _unlimit_writing(self) -> None:
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def _end_writing(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()


def _busy_error(max_connections: int) -> RequestError:
    return RequestError(
        503,
        f"the server has {max_connections:,} connections, which is all that it takes; ask again"
        " later",
        "too_many_connections",
        headers={"Retry-After": "1"},
    )


def _raw_answer(fault: RequestError) -> bytes:
    """An error as HTTP, for a connection on which no request can be answered."""
    body = json.dumps(fault.body).encode()
    lines = [
        f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    for name, value in fault.headers.items():
        lines.append(f"{name.lower()}: {value}")
    return "\r\n".join([*lines, "", ""]).encode() + body
