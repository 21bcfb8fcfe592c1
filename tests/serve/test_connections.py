"""How many connections there may be, and how long each may take, asked of a real server."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from running_server import RunningServer, running_server

from paribus.errors import UnsupportedError
from paribus.serve import connections
from paribus.serve.app import ServerLimits
from paribus.serve.connections import Connections, connection_ceiling

N_CONNECTIONS = 7
HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
REST = b"Connection: close\r\n\r\n"
HALF_BODY = (
    b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 9\r\n\r\n{"
)


@pytest.fixture(scope="module")
def small(served_runs: Path) -> Iterator[RunningServer]:
    limits = ServerLimits(max_connections=N_CONNECTIONS)
    with running_server(served_runs, ("base",), limits=limits) as running:
        yield running


def send(server: RunningServer, content: bytes) -> socket.socket:
    parts = urlsplit(server.url)
    line = socket.create_connection((parts.hostname, parts.port), 60)
    line.sendall(content)
    return line


def read_all(line: socket.socket) -> bytes:
    answer = b""
    with line, suppress(ConnectionResetError):
        while more := line.recv(1 << 16):
            answer += more
    return answer


def send_until_refused(line: socket.socket, content: bytes, seconds: float) -> None:
    with line, suppress(ConnectionError):
        while True:
            line.sendall(content)
            time.sleep(seconds)


def error_code(answer: bytes) -> str:
    return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]


def wait_until_empty(server: RunningServer) -> None:
    while server.server.server_state.connections:
        time.sleep(0.01)


def test_half_a_request_is_ended_after_a_while_and_a_slow_one_is_answered(
    small: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_HEADER_SECONDS", 1.0)
    half, slow, idle = send(small, HALF), send(small, HALF), send(small, b"")
    time.sleep(0.1)
    slow.sendall(REST)
    assert read_all(slow).startswith(b"HTTP/1.1 200")
    ended = read_all(half)
    assert ended.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"the headers did not come within 1 s; send them faster" in ended
    assert read_all(idle) == b""  # as a browser that connects ahead expects
    wait_until_empty(small)


def test_bytes_that_trickle_do_not_put_the_end_off(
    small: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_HEADER_SECONDS", 0.5)
    line = send(small, HALF)
    send_until_refused(line, b"x: a\r\n", 0.05)
    wait_until_empty(small)


def test_what_follows_a_refusal_is_not_read_for_ever(
    small: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_HEADER_SECONDS", 0.5)
    line = send(small, HALF_BODY.replace(b"localhost", b"evil.example"))
    answer = line.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 421")
    line.sendall(b" ")  # more of the body that nobody wants
    assert b"HTTP/1.1" not in read_all(line)
    wait_until_empty(small)


def test_half_requests_keep_nobody_out(small: RunningServer) -> None:
    state = small.server.server_state
    assert isinstance(state, Connections)
    half = [send(small, HALF) for _ in range(N_CONNECTIONS)]
    while sum(line.has_begun for line in tuple(state.waiting)) < N_CONNECTIONS:
        time.sleep(0.01)  # who has sent nothing yet is told nothing
    half += [send(small, HALF) for _ in range(2 * N_CONNECTIONS)]
    for _ in range(3):
        assert httpx.get(f"{small.url}/health").status_code == 200
    assert len(state.connections) <= N_CONNECTIONS
    first, *others = half
    answer = read_all(first)  # which has waited longest
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"retry-after: 1\r\n" in answer
    assert error_code(answer) == "too_many_connections"
    newest = others.pop()
    newest.sendall(REST)
    assert read_all(newest).startswith(b"HTTP/1.1 200")
    for line in others:
        line.close()
    wait_until_empty(small)


def test_one_more_than_the_server_takes_is_told_so(small: RunningServer) -> None:
    busy = [send(small, HALF_BODY) for _ in range(N_CONNECTIONS)]
    while len(small.server.server_state.tasks) < N_CONNECTIONS:
        time.sleep(0.01)
    answer = read_all(send(small, HALF + REST))
    assert answer.startswith(b"HTTP/1.1 503")
    assert error_code(answer) == "too_many_connections"
    busy.pop().close()
    while len(small.server.server_state.connections) >= N_CONNECTIONS:
        time.sleep(0.01)
    assert read_all(send(small, HALF + REST)).startswith(b"HTTP/1.1 200")
    for line in busy:
        line.sendall(b"        ")
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 400")
        line.close()
    wait_until_empty(small)


def test_a_client_that_reads_nothing_loses_its_connection(
    small: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_WRITE_SECONDS", 0.5)
    parts = urlsplit(small.url)
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect((parts.hostname, parts.port))
    line.settimeout(60)
    send_until_refused(line, b"GET /chat.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100, 0)
    wait_until_empty(small)
    assert httpx.get(f"{small.url}/health").status_code == 200


def test_the_ceiling_leaves_descriptors_for_files() -> None:
    assert connection_ceiling(1000, 20_000, 30) == 1000
    assert connection_ceiling(1000, 300, 30) == 300 - 30 - 128
    with pytest.raises(UnsupportedError, match="may open 128 files, but a server needs 174; allow"):
        connection_ceiling(1000, 128, 30)
