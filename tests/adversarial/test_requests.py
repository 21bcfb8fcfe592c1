"""Requests that look like a client's and are not: each beside one that is still answered."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from running_server import RunningServer, running_server

WORDS = {"model": "base", "prompt": "abc", "max_tokens": 2}


@pytest.fixture(scope="module")
def base(served_runs: Path) -> Iterator[RunningServer]:
    with running_server(served_runs, ("base",)) as running:
        yield running


def status(server: RunningServer, head: str, body: bytes = b"") -> int:
    """The status of a request as it is written; HOST stands for the server's own."""
    parts = urlsplit(server.url)
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    lines = head.replace("HOST", parts.netloc).strip().replace("\n", "\r\n")
    with socket.create_connection((parts.hostname, parts.port), 60) as line:
        line.sendall(f"{lines}\r\n{length}Connection: close\r\n\r\n".encode() + body)
        answer = b""
        while more := line.recv(1 << 16):
            answer += more
    return int(answer.split(b" ")[1])


@pytest.mark.parametrize(
    ("sly", "expected"),
    [
        ("GET /health HTTP/1.1\nHost: evil.example@HOST", 421),
        ("GET /health HTTP/1.1\nHost: HOST/.evil.example", 421),
        ("GET /health HTTP/1.1\nHost: HOST\nOrigin: https://HOST", 403),
        ("GET /health HTTP/1.1\nHost: HOST\nOrigin: http://evil.example@HOST", 403),
        ("GET /health HTTP/1.1\nHost: HOST\n" + "X: a\n" * 5000, 431),
    ],
)
def test_who_is_not_known_is_refused(base: RunningServer, sly: str, expected: int) -> None:
    assert status(base, sly) == expected
    assert status(base, "GET /health HTTP/1.1\nHost: HOST\nOrigin: http://HOST") == 200
    assert status(base, "GET /health HTTP/1.1\nHost: HOST\n" + "X: a\n" * 50) == 200


@pytest.mark.parametrize(
    ("sly", "expected"),
    [
        (b'{"model": "other", "model": "base", "prompt": "abc", "max_tokens": 2}', 400),
        (json.dumps(WORDS).encode("utf-16"), 400),
        (json.dumps({**WORDS, "prompt": "a" * 3_000_000}).encode(), 400),
        (json.dumps({**WORDS, "prompt": [None] * 600_000}).encode(), 413),
        (json.dumps({**WORDS, "prompt": ["a"] * 60_000}).encode(), 400),
        (json.dumps({**WORDS, "prompt": [[1]] * 60_000}).encode(), 413),
    ],
)
def test_what_is_not_read_the_same_or_not_quickly_is_refused(
    base: RunningServer, sly: bytes, expected: int
) -> None:
    head = "POST /v1/completions HTTP/1.1\nHost: HOST\nContent-Type: application/json"
    assert status(base, head, sly) == expected
    assert status(base, head, json.dumps(WORDS).encode()) == 200
    several = {**WORDS, "prompt": ["abc", "abc"]}  # a key may be in several tables
    assert status(base, head, json.dumps(several).encode()) == 200
