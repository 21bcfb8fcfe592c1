"""The ledger: every run there is, at a glance."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from paribus.errors import RecordError
from paribus.record.file_names import LOCK_FILE, ROWS_FILE, SPEC_FILE, STATE_FILE
from paribus.record.folder import read_stages
from paribus.record.lock import is_locked
from paribus.record.rows import Row, last_row, require_last_step
from paribus.record.state import RunState, RunStatus, read_state

Result = TypeVar("Result")


@dataclass(frozen=True)
class RunEntry:
    """One run: `stopped` says it is running, yet no process is at it; `faults` lists what could
    not be read.
    """

    name: str
    folder: Path
    state: RunStatus | Literal["stopped"]
    reason: str
    stage_name: str | None  # what the last stage is called, if it has a name
    last_row: Row | None
    faults: tuple[str, ...]


def runs(root: Path) -> Iterator[RunEntry]:
    """Every run folder under `root`, by name; a damaged one is listed with its faults."""
    if Path(root).is_dir():
        for folder in sorted(Path(root).iterdir()):
            if (
                not folder.name.startswith(".")
                and not folder.is_symlink()
                and (folder / SPEC_FILE).is_file()
            ):
                yield _run_entry(folder)


def _run_entry(folder: Path) -> RunEntry:
    faults: list[str] = []
    stages = _try_read(lambda: read_stages(folder), faults)
    state = _try_read(lambda: read_state(folder / STATE_FILE), faults) or RunState("running")
    last = _try_read(lambda: last_row(folder / ROWS_FILE), faults)
    if state.status == "finished" and stages is not None and not faults:
        _try_read(lambda: _require_last_step(folder, stages[-1], last), faults)
    if state.status == "running" and not is_locked(folder / LOCK_FILE):
        word = "stopped"
    else:
        word = state.status
    stage_name = stages[-1].get("name") if stages else None
    if not isinstance(stage_name, str):
        stage_name = None
    return RunEntry(
        name=folder.name,
        folder=folder,
        state=word,
        reason=state.reason,
        stage_name=stage_name,
        last_row=last,
        faults=tuple(faults),
    )


def _require_last_step(folder: Path, stage: Mapping[str, Any], last: Row | None) -> None:
    match stage:
        case {"training": {"n_steps": int(n_steps)}}:
            require_last_step(
                folder / ROWS_FILE, last, n_steps, f"restore {ROWS_FILE}, or remove that folder"
            )


def _try_read(read: Callable[[], Result], faults: list[str]) -> Result | None:
    try:
        return read()
    except RecordError as fault:
        faults.append(str(fault))
        return None
