"""How far a run has come: `running`, `finished`, or `failed` with a reason, in one line."""

from pathlib import Path
from typing import Literal, NamedTuple, get_args

from paribus.errors import RecordError
from paribus.files import MAX_LINE_BYTES, read_bytes
from paribus.record.disk import explained

RunStatus = Literal["running", "finished", "failed"]
_MAX_REASON = 500


class RunState(NamedTuple):
    """A word, and a reason where there is one.

    `running` is what the run last said. One that was killed or stopped says so still, but nobody
    holds its lock.
    """

    status: RunStatus
    reason: str = ""


def state_line(status: RunStatus, reason: str = "") -> bytes:
    """A state as it is written; a reason is put on one line."""
    line = " ".join(reason.split())
    if len(line) > _MAX_REASON:
        line = line[: _MAX_REASON - 1] + "…"
    if line:
        return f"{status}: {line}\n".encode()
    return f"{status}\n".encode()


def read_state(path: Path) -> RunState | None:
    """The state last written; None where none was."""
    if not path.exists():
        return None
    with explained(path, "read", "restore it, or remove it to run again"):
        text = read_bytes(path, MAX_LINE_BYTES).decode("utf-8", "replace")
    status, _, reason = text.strip().partition(": ")
    for word in get_args(RunStatus):
        if status == word:
            return RunState(word, reason)
    raise RecordError(
        f"{path} holds {text[:40]!r}; restore it (running, finished or failed), or remove it"
    )
