"""The ways paribus says no.

Each message has three beats: where, what was given, what would do.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

MAX_LISTED = 10  # problems of one kind that are told one by one
T = TypeVar("T")


class ParibusError(Exception):
    """Anything paribus refuses; the command line prints it without a traceback."""


class SpecError(ParibusError):
    """What a person wrote cannot be meant as written; `problems` lists every fault found."""

    def __init__(self, problems: str | Sequence[str]):
        if isinstance(problems, str):
            self.problems = (problems,)
        else:
            self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class UnsupportedError(ParibusError):
    """What was asked is meaningful, but this machine, kernel or file format cannot do it."""


class ClosedError(UnsupportedError):
    """What was asked comes too late: an engine takes no more requests."""


class RecordError(ParibusError):
    """A file on disk is missing, torn or not what it claims to be."""


class InUseError(RecordError):
    """Another living process is at work in this folder."""


class DivergedError(RecordError):
    """A run whose loss or gradient stopped being finite: an outcome of the run, not a fault of
    the machine.
    """


def describe_first(items: Sequence[T], describe: Callable[[T], str], noun: str) -> Iterator[str]:
    """What is said of the first few, then how many more `what` there are: nothing is said of
    those.
    """
    yield from map(describe, items[:MAX_LISTED])
    n_more = len(items) - MAX_LISTED
    if n_more > 0:
        yield f"and {n_more:,} more {noun}; correct these first"


class ConfoundError(ParibusError):
    """Arms differ in more than the factor; `problems` lists where, `lines` is the control table."""

    def __init__(self, problems: Sequence[str], lines: Sequence[Any] = ()):
        self.problems = tuple(problems)
        self.lines = tuple(lines)
        super().__init__("\n".join(self.problems))
