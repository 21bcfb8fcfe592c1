"""The ways paribus says no.

Each message has three beats: where, what was given, what would do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

MAX_LISTED = 10  # problems of one kind that are told one by one
MAX_PROBLEMS = 20  # that one answer tells
MAX_PROBLEM_LETTERS = 2000
MAX_VALUE_LETTERS = 80  # of what was given, where a problem quotes it
T = TypeVar("T")


def first_problems(problems: Iterable[str]) -> list[str]:
    """As many problems as a person reads at once, and how many more there are."""
    return list(
        describe_first(
            tuple(problems),
            lambda problem: cut_middle(problem, MAX_PROBLEM_LETTERS),
            "problems",
            MAX_PROBLEMS,
        )
    )


def quote(value: Any) -> str:
    """What was given, as Python writes it, and no longer than a line."""
    return cut_middle(repr(value), MAX_VALUE_LETTERS)


def cut_middle(text: str, max_letters: int) -> str:
    """The beginning and the end of a text that is too long to be shown."""
    if len(text) <= max_letters:
        return text
    n_kept = max_letters - 3  # what stands for the rest
    n_end = n_kept // 2
    return f"{text[: n_kept - n_end]} … {text[len(text) - n_end :]}"


class ParibusError(Exception):
    """Anything paribus refuses; the command line prints it without a traceback."""


class SpecError(ParibusError):
    """What a person wrote cannot be meant as written; `problems` lists every fault found."""

    def __init__(self, problems: str | Sequence[str]):
        if isinstance(problems, str):
            self.problems = (problems,)
        else:
            self.problems = tuple(problems)
        super().__init__("\n".join(first_problems(self.problems)))


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


def describe_first(
    items: Sequence[T], describe: Callable[[T], str], noun: str, max_listed: int = MAX_LISTED
) -> Iterator[str]:
    """What is said of the first few, then how many more `noun` there are: nothing is said of
    those.
    """
    yield from map(describe, items[:max_listed])
    n_more = len(items) - max_listed
    if n_more > 0:
        yield f"and {n_more:,} more {noun}; correct these first"


class ConfoundError(ParibusError):
    """Arms differ in more than the factor; `problems` lists where, `lines` is the control table."""

    def __init__(self, problems: Sequence[str], lines: Sequence[Any] = ()):
        self.problems = tuple(problems)
        self.lines = tuple(lines)
        super().__init__("\n".join(first_problems(self.problems)))
