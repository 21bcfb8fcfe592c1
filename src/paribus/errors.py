"""The ways paribus says no.

Each message has three beats: where, what was given, what would do.
"""

from collections.abc import Sequence
from typing import Any


class ParibusError(Exception):
    """Anything paribus refuses; the command line prints it without a traceback."""


class SpecError(ParibusError):
    """What a person wrote cannot be meant as written; `problems` lists every fault found."""

    def __init__(self, problems: str | Sequence[str]):
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class UnsupportedError(ParibusError):
    """What was asked is meaningful, but this machine, kernel or file format cannot do it."""


class RecordError(ParibusError):
    """A file on disk is missing, torn or not what it claims to be."""


class InUseError(RecordError):
    """Another living process is at work in this folder."""


class DivergedError(RecordError):
    """A run whose loss or gradient stopped being finite: an outcome of the run, not a fault of the machine."""


class ConfoundError(ParibusError):
    """Arms differ in more than the factor; `problems` lists where, `lines` is the control table."""

    def __init__(self, problems: Sequence[str], lines: Sequence[Any] = ()):
        self.problems = tuple(problems)
        self.lines = tuple(lines)
        super().__init__("\n".join(self.problems))
