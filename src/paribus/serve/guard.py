"""What every request passes before a route sees it: host, origin, key, and how large its headers
and its body are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from paribus.serve.access import Access
from paribus.serve.http_errors import RequestError, ending_error
from paribus.serve.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH = "/health"  # the one route that asks for no key
SALT = "paribus.salt"  # under which a scope holds the salt of its key
MAX_HEADERS, MAX_HEADER_BYTES = 100, 16 << 10
MAX_BODY_SECONDS = 60.0
_WAIT_SECONDS = 1.0  # of which a wait for more of a body counts at most
MAX_VALUES = 1 << 16  # in a body: many small ones take far longer to read than a long text
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


class Guard:
    """An application behind its checks. Nothing of a request that is refused reaches a route."""

    def __init__(
        self, application: Application, access: Access, max_body_bytes: int, metrics: Metrics
    ):
        self.application, self.access = application, access
        self.max_body_bytes, self.metrics = max_body_bytes, metrics
        self.is_ending = False  # is everything refused, because the server is about to end?

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        answer = _HeadedAnswer(send, self.metrics)
        try:
            headers = _headers(scope)
            self.access.require_host(
                headers.get("host"), headers.get("origin"), scope.get("scheme", "http")
            )
            if self.is_ending:
                raise ending_error()
            if scope["path"] != HEALTH:
                scope[SALT] = self.access.salt(headers.get("authorization"))
            body = await self._body(headers, receive)
            require_plain_json(body)
        except RequestError as fault:
            await send_error(fault, answer)
            return
        except _ClientGoneError:
            return
        await self.application(scope, _with_body(body, receive), answer)

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """A whole body; RequestError where it is too large, or takes too long."""
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length[:20]) > self.max_body_bytes:
            raise self._too_large()
        content, waited = bytearray(), 0.0
        while True:
            message, seconds = await _next_message(receive, MAX_BODY_SECONDS - waited)
            waited += seconds
            if message["type"] == "http.disconnect":
                raise _ClientGoneError
            content += message.get("body", b"")
            if len(content) > self.max_body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return bytes(content)

    def _too_large(self) -> RequestError:
        return RequestError(
            413,
            f"the body has more than {self.max_body_bytes:,} bytes; send less",
            "body_too_large",
        )


async def _next_message(receive: Receive, seconds: float) -> tuple[Message, float]:
    """More of a body, and how long the client took; RequestError where that is too long.

    It is waited for in short times, so that one in which the server was busy, and did not read
    what was there, counts little.
    """
    clock, waited = asyncio.get_running_loop().time, 0.0
    receiving = asyncio.ensure_future(receive())
    try:
        while waited < seconds:
            begin = clock()
            await asyncio.wait((receiving,), timeout=min(_WAIT_SECONDS, seconds - waited))
            waited += min(clock() - begin, _WAIT_SECONDS)
            if receiving.done():
                return receiving.result(), waited
    finally:
        receiving.cancel()
    raise RequestError(408, f"the body did not come within {MAX_BODY_SECONDS:g} s; send it faster")


class _ClientGoneError(Exception):
    """Nobody waits for an answer."""


class _HeadedAnswer:
    """Sends an answer with the headers that all have, and counts it."""

    def __init__(self, send: Send, metrics: Metrics):
        self.send, self.metrics = send, metrics

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.metrics.count_response(message["status"])
            own = {name.lower() for name, _ in message.get("headers", [])}
            added = []
            for name, value in HEADERS.items():
                if name.lower().encode() not in own:
                    added.append((name.lower().encode(), value.encode()))
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await self.send(message)


async def send_error(fault: RequestError, send: Send) -> None:
    """Answer with an error."""
    body = json.dumps(fault.body).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    for name, value in fault.headers.items():
        headers.append((name.lower().encode(), value.encode()))
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by name. One that matters and comes twice is refused: proxies differ on which
    counts.
    """
    headers: dict[str, str] = {}
    n_bytes = len(scope["path"]) + len(scope["query_string"])
    n_bytes += sum(len(name) + len(value) for name, value in scope["headers"])
    if len(scope["headers"]) > MAX_HEADERS or n_bytes > MAX_HEADER_BYTES:
        raise RequestError(
            431,
            f"the request has {len(scope['headers']):,} headers and {n_bytes:,} bytes before its"
            f" body; send at most {MAX_HEADERS} and {MAX_HEADER_BYTES:,}",
            "headers_too_large",
        )
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in headers and key in ("host", "origin", "authorization", "content-length"):
            raise RequestError(400, f"the header {key} comes twice; send it once")
        headers[key] = value.decode("latin-1")
    return headers


def require_plain_json(body: bytes) -> None:
    """RequestError for a body of more values than a request needs, or one in which readers of
    JSON could find different things. What is no JSON is left to the route.
    """
    if b"\0" in body:  # UTF-16, as which nobody else would read it
        raise RequestError(400, "the body holds a zero byte; send it in UTF-8", "invalid_json")
    if _n_values(body) > MAX_VALUES:
        raise RequestError(
            413, f"the body holds more than {MAX_VALUES:,} values; send less", "body_too_large"
        )
    try:
        json.loads(body, object_pairs_hook=_table_of_pairs)
    except (ValueError, RecursionError):
        return


def _n_values(body: bytes) -> int:
    """How many values a text of JSON holds, or some number above what it may hold."""
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")  # a quote that is left ends a string
    n_quotes = bare.count(b'"')
    if n_quotes > 4 * MAX_VALUES:  # a value has two, and its name two more
        return n_quotes
    outside = b"".join(bare.split(b'"')[::2])
    return sum(outside.count(sign) for sign in (b",", b"[", b"{"))


def _table_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise RequestError(
                400, f"the body has {name!r:.100} twice in one table; give it once", "invalid_json"
            )
        table[name] = value
    return table


def _with_body(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read, and then what else comes."""
    is_given = False

    async def receive_again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
