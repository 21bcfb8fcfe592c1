"""Many at once, in their order, few in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")

MAX_WORKERS = 8  # more would wait for the one that writes


def workers(asked: int | None) -> int:
    """How many to use; None: one a core."""
    return asked or min(MAX_WORKERS, os.cpu_count() or 1)


def in_order(pool: Executor, make: Callable[[Given], Made], given: Iterable[Given], ahead: int) -> Iterator[Made]:
    """What is made of each, in the order given; no more than `ahead` wait to be taken."""
    waiting: deque[Future[Made]] = deque()
    for one in given:
        waiting.append(pool.submit(make, one))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
