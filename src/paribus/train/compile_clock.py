"""How long a run has waited for its code: for torch to compile it, to capture its steps, and for
other processes that compile it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

COMPILER_MODULE = "torch._dynamo.utils"  # counts what torch has compiled


class CompileClock:
    """Seconds of the host in calls that had something to compile, and in waiting for a turn.

    Whether a call compiles is asked of torch, not told from shapes: code for one length may serve
    others, and a step of theirs is an ordinary one. On CUDA such a call returns before the device
    is done, so what the device computes is not among these seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic):
        self.seconds = 0.0
        self.wait_seconds = 0.0  # of another process's compiling, and not among the above
        self._now = now

    @contextmanager
    def count_if_compiling(self) -> Iterator[None]:
        """Count this call where torch compiles in it, or reads code that it compiled before."""
        begin, n_graphs = self._now(), _n_compiled_graphs()
        yield
        if _n_compiled_graphs() != n_graphs:
            self.seconds += self._now() - begin

    @contextmanager
    def count_wait(self) -> Iterator[None]:
        """Count this call as waiting for another process that compiles the same code."""
        begin = self._now()
        yield
        self.wait_seconds += self._now() - begin

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count this call."""
        begin = self._now()
        yield
        self.seconds += self._now() - begin


def _n_compiled_graphs() -> int:
    """Graphs that torch has compiled in this process; 0 where its compiler is not even imported."""
    compiler = sys.modules.get(COMPILER_MODULE)
    if compiler is None:
        return 0
    return compiler.counters["stats"]["unique_graphs"]
