"""An answer that is being made: its tokens as they come, and how it went."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from paribus.generate.token_request import FinishReason, SaidToken, TokenRequest


class AnswerHandle:
    """What a caller holds of a request: tokens as they are said, from any thread.

    Iteration waits for the next token and ends with the answer; after a fault it raises that.
    The token that ended an answer is not among them.
    """

    def __init__(self, request: TokenRequest):
        self.request = request
        self.n_cached_tokens = 0  # of the context: what was there already, and was not read
        self.n_read_tokens = 0  # of the context
        self.end_token: int | None = None  # what the model ended its answer with
        self._said: list[SaidToken] = []
        self._finish_reason: FinishReason | None = None
        self._error: Exception | None = None
        self._is_cancelled = False
        self._listener: Callable[[], None] | None = None
        self._changed = threading.Condition()
        self._times = {"submit": time.monotonic()}

    def __iter__(self) -> Iterator[SaidToken]:
        place = 0
        while True:
            with self._changed:
                while len(self._said) == place and self._finish_reason is None:
                    self._changed.wait()
                if len(self._said) == place:
                    break
                token = self._said[place]
            place += 1
            yield token
        if self._error is not None:
            raise self._error

    @property
    def said_tokens(self) -> tuple[SaidToken, ...]:
        """All tokens so far, without waiting."""
        with self._changed:
            return tuple(self._said)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the answer ended; None while it goes on."""
        return self._finish_reason

    @property
    def error(self) -> Exception | None:
        """The fault that ended the answer."""
        return self._error

    @property
    def seconds_queued(self) -> float | None:
        """From the request until its context was begun; None before that."""
        return self._seconds("begin")

    @property
    def seconds_to_first_token(self) -> float | None:
        """From the request until its first token; None before that."""
        return self._seconds("token")

    @property
    def is_cancelled(self) -> bool:
        """Does its caller want no more of it?"""
        return self._is_cancelled

    def cancel(self) -> None:
        """Ask for no more tokens: the answer ends before the next step."""
        self._is_cancelled = True

    def listen(self, listener: Callable[[], None]) -> None:
        """Have a function called, in the engine's thread, when there are more tokens and at the
        end; also at once, if there are some already. It must not wait. If it fails, the request
        is cancelled.
        """
        with self._changed:
            self._listener = listener
            is_late = bool(self._said) or self._finish_reason is not None
        if is_late:
            listener()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the answer; False if it has not come in so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._finish_reason is not None, timeout)

    def mark_begin(self) -> None:
        """The engine begins with the context."""
        self._times.setdefault("begin", time.monotonic())

    def push(self, token: SaidToken) -> None:
        """The engine says a token."""
        self._times.setdefault("token", time.monotonic())
        with self._changed:
            self._said.append(token)
        self._tell()

    def finish(self, reason: FinishReason, error: Exception | None = None) -> None:
        """The engine ends the answer; of several ends the first counts."""
        with self._changed:
            if self._finish_reason is not None:
                return
            self._finish_reason, self._error = reason, error
        self._tell()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
            listener = self._listener
        if listener is None:
            return
        try:
            listener()
        except Exception:  # whoever listened is gone; the engine goes on
            self._listener = None
            self.cancel()

    def _seconds(self, name: str) -> float | None:
        if name not in self._times:
            return None
        return self._times[name] - self._times["submit"]
