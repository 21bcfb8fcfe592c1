"""What happens while something runs, told to whoever watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Watcher:
    """Told of what happens; it does nothing unless a subclass does."""

    def step(self, step: int) -> None:
        """A step of training is done; the first one is 0."""

    def row(self, row: dict[str, Any]) -> None:
        """A row of the record is written."""

    def note(self, text: str) -> None:
        """Something that a person should know."""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[None]:
        """A stage of so much work, while it lasts; 0 where the amount is not known."""
        yield

    def advance(self, amount: int) -> None:
        """So much more of the stage is done."""
