"""Keys, hosts, origins and sizes, asked of a real server over HTTP."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from running_server import RunningServer, running_server

from paribus.serve import guard
from paribus.serve.access import access_for
from paribus.serve.app import ServerLimits
from paribus.serve.guard import require_plain_json
from paribus.serve.http_errors import RequestError
from paribus.serve.metrics import Metrics

KEYS = ("first-key", "second-key")
BEARER = {"Authorization": f"Bearer {KEYS[0]}"}
CHAT = {
    "model": "causal",
    "messages": [{"role": "user", "content": "a b c, and a b c again"}],
    "temperature": 0,
    "max_tokens": 5,
}


@pytest.fixture(scope="module")
def locked(served_runs: Path) -> Iterator[RunningServer]:
    limits = ServerLimits(max_body_bytes=20_000, max_open=3)
    with running_server(served_runs, ("causal",), KEYS, limits) as running:
        yield running


def routes(server: RunningServer) -> list[tuple[str, str]]:
    """Every route of the application, whether or not its schema tells it."""
    schema = httpx.get(f"{server.url}/openapi.json", headers=BEARER).json()
    named = [(method, path) for path, own in schema["paths"].items() for method in own]
    pages = ("/", "/docs", "/openapi.json", "/chat.css", "/chat.js", "/not-there")
    return [*named, *(("get", path) for path in pages)]


def test_every_route_but_health_asks_for_the_key(locked: RunningServer) -> None:
    every = routes(locked)
    assert len(every) >= 12
    for method, path in every:
        url = locked.url + path.replace("{model}", "causal")
        asked = httpx.request(method, url, json={})
        if path == "/health":
            assert asked.status_code == 200
            continue
        assert asked.status_code == 401, path
        assert asked.json()["error"]["code"] == "invalid_api_key"
        assert asked.headers["www-authenticate"].startswith("Basic ")
        assert httpx.request(method, url, json={}, headers=BEARER).status_code not in (401, 500)


def test_every_route_of_the_application_is_walked(locked: RunningServer) -> None:
    from fastapi.routing import APIRoute

    from paribus.serve.app import make_app

    app = make_app(locked.models, access_for("127.0.0.1", KEYS)).application
    paths = {route.path for route in app.routes if isinstance(route, APIRoute)}  # type: ignore[attr-defined]
    walked = {path.replace("{model}", "{model:path}") for _, path in routes(locked)}
    assert paths <= walked


@pytest.mark.parametrize(
    "header",
    [
        "Bearer second-key",
        "bearer first-key",
        "Basic " + base64.b64encode(b"anybody:first-key").decode(),
    ],
)
def test_a_key_is_a_bearer_or_a_password(locked: RunningServer, header: str) -> None:
    url = f"{locked.url}/v1/models"
    assert httpx.get(url, headers={"Authorization": header}).status_code == 200


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer first-ke", "Bearer first-keyy", "Basic !!", "Basic Og==", "first"]
)
def test_what_is_no_key_is_refused(locked: RunningServer, header: str) -> None:
    url = f"{locked.url}/v1/models"
    assert httpx.get(url, headers={"Authorization": header}).status_code == 401
    assert httpx.get(f"{url}?key=first-key&api_key=first-key").status_code == 401


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/"])
def test_a_foreign_host_or_origin_is_refused_key_or_not(locked: RunningServer, path: str) -> None:
    for headers in (BEARER, {}):
        foreign = httpx.get(locked.url + path, headers={**headers, "Host": "evil.example"})
        assert foreign.status_code == 421
        assert foreign.json()["error"]["code"] == "foreign_host"
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://["):
            asked = httpx.get(locked.url + path, headers={**headers, "Origin": origin})
            assert asked.status_code == 403
            assert not [name for name in asked.headers if name.startswith("access-control")]
    own = {**BEARER, "Origin": locked.url}
    assert httpx.get(locked.url + path, headers=own).status_code == 200
    port = urlsplit(locked.url).port
    assert (
        httpx.get(locked.url + path, headers={**BEARER, "Host": f"localhost:{port}"}).status_code
        == 200
    )


def test_no_page_may_load_anything_from_another_host(locked: RunningServer) -> None:
    page = httpx.get(f"{locked.url}/", headers=BEARER)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path in ("/", "/chat.js", "/chat.css", "/docs"):
        text = httpx.get(locked.url + path, headers=BEARER).text
        assert "//" not in text.replace("http://www.w3.org", "").replace("// ", "")


def test_the_cache_of_one_key_is_not_anothers(locked: RunningServer) -> None:
    url = f"{locked.url}/v1/chat/completions"

    def cached(key: str) -> int:
        told = httpx.post(url, json=CHAT, headers={"Authorization": f"Bearer {key}"}).json()
        return told["usage"]["prompt_tokens_details"]["cached_tokens"]

    cached(KEYS[0])
    assert cached(KEYS[1]) == 0
    assert cached(KEYS[0]) > 0


def test_a_body_that_is_too_large_is_refused_before_it_is_read(locked: RunningServer) -> None:
    parts = urlsplit(locked.url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    connection.putrequest("POST", "/v1/completions")
    connection.putheader("Authorization", BEARER["Authorization"])
    connection.putheader("Content-Length", str(1 << 30))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["error"]["code"] == "body_too_large"
    connection.close()

    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 1000

    chunked = httpx.post(f"{locked.url}/v1/completions", content=pieces(), headers=BEARER)
    assert chunked.status_code == 413


def test_more_answers_than_there_is_room_for_are_refused(locked: RunningServer) -> None:
    url = f"{locked.url}/v1/chat/completions"
    asked = httpx.post(url, json={**CHAT, "n": 4}, headers=BEARER)
    assert asked.status_code == 400
    assert asked.json()["error"]["message"].startswith("the request asks for 4 answers")
    long = {**CHAT, "max_tokens": 40, "stream": True, "n": 3, "temperature": 1}
    with httpx.stream("POST", url, json=long, headers=BEARER) as first:
        assert first.status_code == 200
        second = httpx.post(url, json=long, headers=BEARER)
        if second.status_code != 200:  # the first may have ended by then
            assert second.status_code == 429
            assert second.json()["error"]["code"] == "rate_limit_exceeded"
            assert second.headers["retry-after"] == "1"
    assert locked.wait_until_idle()
    assert httpx.post(url, json=CHAT, headers=BEARER).status_code == 200


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({f"x-{number}": "a" for number in range(101)}, "and 16,384"),
        ({"x": "a" * 16_384}, "bytes before its body; send at most 100 and 16,384"),
    ],
)
def test_too_many_headers_are_refused(
    locked: RunningServer, headers: dict[str, str], words: str
) -> None:
    asked = httpx.get(f"{locked.url}/health", headers=headers)
    assert asked.status_code == 431
    assert asked.json()["error"]["code"] == "headers_too_large"
    assert words in asked.json()["error"]["message"]
    few = dict(list(headers.items())[:50])
    few = {name: value[:9000] for name, value in few.items()}
    assert httpx.get(f"{locked.url}/health", headers=few).status_code == 200


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b'{"model": "other", "model": "causal"}', 400, "the body has 'model' twice in one table"),
        (b'{"messages": [{"role": "a", "role": "b"}]}', 400, "the body has 'role' twice"),
        ('{"model": "causal"}'.encode("utf-16"), 400, "holds a zero byte; send it in UTF-8"),
        (b"[" + b"{}," * 66_000 + b"{}]", 413, "holds more than 65,536 values; send less"),
        (b"[" + b'"",' * 200_000 + b'""]', 413, "holds more than 65,536 values; send less"),
    ],
)
def test_a_body_that_readers_would_read_differently_or_for_long_is_refused(
    content: bytes, status: int, words: str
) -> None:
    with pytest.raises(RequestError, match=re.escape(words)) as caught:
        require_plain_json(content)
    assert caught.value.status == status


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"a": {"name": 1}, "b": {"name": 1}}',
        json.dumps({"prompt": ',[{\\"' * 100_000}).encode(),
        json.dumps([1] * 65_000).encode(),
    ],
)
def test_other_bodies_are_left_to_the_route(content: bytes) -> None:
    require_plain_json(content)


def ask_slowly(pieces: Sequence[float], monkeypatch: pytest.MonkeyPatch, is_busy: bool) -> int:
    """The status of a request whose body comes in pieces, each after so many seconds, in which
    the client sends nothing or the server is busy.
    """
    monkeypatch.setattr(guard, "MAX_BODY_SECONDS", 0.5)
    monkeypatch.setattr(guard, "_WAIT_SECONDS", 0.01)
    statuses, rest = [], list(pieces)

    async def application(_: guard.Scope, __: guard.Receive, send: guard.Send) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> guard.Message:
        seconds = rest.pop(0)
        if is_busy:
            time.sleep(seconds)
        else:
            await asyncio.sleep(seconds)
        return {"type": "http.request", "body": b" ", "more_body": bool(rest)}

    async def send(message: guard.Message) -> None:
        statuses.append(message.get("status"))

    own = guard.Guard(application, access_for("127.0.0.1", ()), 1000, Metrics())
    scope = {
        "type": "http",
        "scheme": "http",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    asyncio.run(own(scope, receive, send))
    return statuses[0]


def test_a_body_may_take_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask_slowly([0.01] * 3, monkeypatch, is_busy=False) == 200
    assert ask_slowly([0.2] * 4, monkeypatch, is_busy=False) == 408


def test_a_busy_server_does_not_blame_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask_slowly([0.2] * 4, monkeypatch, is_busy=True) == 200


def test_a_header_that_comes_twice_is_refused(locked: RunningServer) -> None:
    parts = urlsplit(locked.url)
    with socket.create_connection((parts.hostname, parts.port)) as line:
        line.sendall(
            b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n"
            b"Authorization: Bearer first-key\r\nConnection: close\r\n\r\n"
        )
        answer = b""
        while more := line.recv(4096):
            answer += more
    assert answer.startswith(b"HTTP/1.1 400")
