"""What every request passes before a route sees it: host, origin, key, and the size of its body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from paribus.serve.access import Access
from paribus.serve.http_errors import RequestError
from paribus.serve.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH = "/health"  # the one route that asks for no key
SALT = "paribus.salt"  # under which a scope holds the salt of its key
MAX_BODY_SECONDS = 60.0
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        answer = _HeadedAnswer(send, self.metrics)
        try:
            headers = _headers(scope)
            self.access.require_host(headers.get("host"), headers.get("origin"))
            if scope["path"] != HEALTH:
                scope[SALT] = self.access.salt(headers.get("authorization"))
            body = await self._body(headers, receive)
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
        content = bytearray()
        try:
            async with asyncio.timeout(MAX_BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientGoneError
                    content += message.get("body", b"")
                    if len(content) > self.max_body_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return bytes(content)
        except TimeoutError:
            raise RequestError(
                408, f"the body did not come within {MAX_BODY_SECONDS:g} s; send it faster"
            ) from None

    def _too_large(self) -> RequestError:
        return RequestError(
            413,
            f"the body has more than {self.max_body_bytes:,} bytes; send less",
            "body_too_large",
        )


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
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in headers and key in ("host", "origin", "authorization", "content-length"):
            raise RequestError(400, f"the header {key} comes twice; send it once")
        headers[key] = value.decode("latin-1")
    return headers


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
