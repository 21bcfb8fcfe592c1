"""How many answers a server makes at once."""

from __future__ import annotations

from paribus.serve.http_errors import RequestError


class Gate:
    """Counts answers that are open, in one thread, and refuses more than there is room for."""

    def __init__(self, max_open: int):
        self.max_open, self.n_open = max_open, 0

    def require_possible(self, n_answers: int) -> None:
        """RequestError for more answers than there ever is room for."""
        if n_answers > self.max_open:
            raise RequestError(
                400,
                f"the request asks for {n_answers:,} answers; use at most {self.max_open:,}",
                "invalid_value",
                "n",
            )

    def enter(self, n_answers: int) -> None:
        """Let answers in; RequestError where there is no room."""
        self.require_possible(n_answers)
        if self.n_open + n_answers > self.max_open:
            raise RequestError(
                429,
                f"{self.n_open:,} answers are open, and the server makes at most"
                f" {self.max_open:,}; ask again later",
                "rate_limit_exceeded",
                headers={"Retry-After": "1"},
            )
        self.n_open += n_answers

    def leave(self, n_answers: int) -> None:
        """Answers have ended."""
        self.n_open -= n_answers
