"""SIGTERM and Ctrl-C between steps."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deferred_signals() -> Iterator[list[int]]:
    """SIGTERM and Ctrl-C are noted and acted on after the step."""
    caught: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda given, _: caught.append(given))
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
