"""How far a run has come: `running`, `finished`, or `failed` with a reason, in one line."""

from pathlib import Path
from typing import Literal, NamedTuple, get_args

from paribus.errors import RecordError
from paribus.files import MAX_LINE, read_whole
from paribus.record.disk import replace, told

Word = Literal["running", "finished", "failed"]
_MAX_REASON = 500


class State(NamedTuple):
    """A word, and a reason where there is one.

    `running` is what the run last said. One that was killed or stopped says so still, but nobody holds its lock.
    """

    word: Word
    reason: str = ""


def write_state(path: Path, word: Word, reason: str = "") -> None:
    """Replace the state."""
    replace(path, state_line(word, reason))


def state_line(word: Word, reason: str = "") -> bytes:
    """A state as it is written; a reason is put on one line."""
    line = " ".join(reason.split())
    line = line if len(line) <= _MAX_REASON else line[: _MAX_REASON - 1] + "…"
    return f"{word}: {line}\n".encode() if line else f"{word}\n".encode()


def read_state(path: Path) -> State | None:
    """The state last written; None where none was."""
    if not path.exists():
        return None
    with told(path, "read", "restore it, or remove it to run again"):
        text = read_whole(path, MAX_LINE).decode("utf-8", "replace")
    found, _, reason = text.strip().partition(": ")
    for word in get_args(Word):
        if found == word:
            return State(word, reason)
    raise RecordError(f"{path} holds {text[:40]!r}; restore it (running, finished or failed), or remove it")
