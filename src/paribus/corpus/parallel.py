"""Many at once, in their order, few in memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

MAX_WORKERS = 8  # more would wait for the one that writes


def worker_count(n_workers: int | None) -> int:
    """How many to use; None: one a core."""
    return n_workers or min(MAX_WORKERS, os.cpu_count() or 1)


def map_in_order(
    pool: Executor, function: Callable[[Task], Result], tasks: Iterable[Task], max_waiting: int
) -> Iterator[Result]:
    """What is made of each, in the order given; no more than `max_waiting` wait to be taken."""
    waiting: deque[Future[Result]] = deque()
    for one in tasks:
        waiting.append(pool.submit(function, one))
        if len(waiting) > max_waiting:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
