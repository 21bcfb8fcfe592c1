"""What a server says no with, in the shape that clients of OpenAI read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_MESSAGE_LETTERS = 2000


class RequestError(Exception):
    """A request that is refused: an HTTP status, a message, and the parameter it is about."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """The body of the answer."""
        message = self.message
        if len(message) > MAX_MESSAGE_LETTERS:
            message = message[:MAX_MESSAGE_LETTERS] + " …"
        return {
            "error": {
                "message": message,
                "type": _error_type(self.status),
                "param": self.param,
                "code": self.code,
            }
        }


def unsupported_parameter(name: str, value: object, advice: str) -> RequestError:
    """A parameter of OpenAI that is not obeyed here."""
    message = f"{name} is {value!r:.100}, which this server does not support; {advice}"
    return RequestError(400, message, "unsupported_parameter", name)


def ending_error() -> RequestError:
    """What comes while the server ends."""
    return RequestError(
        503,
        "the server is about to end and takes no more requests; ask again later",
        "server_shutting_down",
        headers={"Retry-After": "1", "Connection": "close"},
    )


def _error_type(status: int) -> str:
    if status >= 500:
        return "server_error"
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error"
