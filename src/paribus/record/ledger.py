"""The ledger: every run there is, at a glance."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from paribus.errors import RecordError
from paribus.record.file_names import LOCK_FILE, ROWS_FILE, SPEC_FILE, STATE_FILE
from paribus.record.folder import stages_of
from paribus.record.lock import is_held
from paribus.record.rows import Row, last_row, require_ended
from paribus.record.state import State, Word, read_state

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Entry:
    """One run: `stopped` says it is running, yet no process is at it; `faults` lists what could not be read."""

    name: str
    folder: Path
    state: Word | Literal["stopped"]
    reason: str
    spec: str | None  # what the last stage is called, if it has a name
    last: Row | None
    faults: tuple[str, ...]


def runs(root: Path) -> Iterator[Entry]:
    """Every run folder under `root`, by name; a damaged one is listed with its faults."""
    if Path(root).is_dir():
        for folder in sorted(Path(root).iterdir()):
            if not folder.name.startswith(".") and not folder.is_symlink() and (folder / SPEC_FILE).is_file():
                yield _entry(folder)


def _entry(folder: Path) -> Entry:
    faults: list[str] = []
    stages = _tried(lambda: stages_of(folder), faults)
    state = _tried(lambda: read_state(folder / STATE_FILE), faults) or State("running")
    last = _tried(lambda: last_row(folder / ROWS_FILE), faults)
    if state.word == "finished" and stages is not None and not faults:
        _tried(lambda: _require_ended(folder, stages[-1], last), faults)
    word = "stopped" if state.word == "running" and not is_held(folder / LOCK_FILE) else state.word
    name = stages[-1].get("name") if stages else None
    return Entry(folder.name, folder, word, state.reason, name if isinstance(name, str) else None, last, tuple(faults))


def _require_ended(folder: Path, stage: Mapping[str, Any], last: Row | None) -> None:
    match stage:
        case {"training": {"n_steps": int(n_steps)}}:
            require_ended(folder / ROWS_FILE, last, n_steps, f"restore {ROWS_FILE}, or remove that folder")


def _tried(reading: Callable[[], Answer], faults: list[str]) -> Answer | None:
    try:
        return reading()
    except RecordError as fault:
        faults.append(str(fault))
        return None
