"""Every study there is, at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paribus.errors import RecordError
from paribus.record.disk_use import folder_bytes
from paribus.record.run_references import find_references, study_folders
from paribus.record.study import Study

StudyState = Literal["planned", "running", "stopped", "failed", "finished", "damaged"]
_ENDED = ("finished", "diverged")


@dataclass(frozen=True)
class StudyEntry:
    """One study: `stopped` says that runs are open and no process is at any; `n_bytes` is of its
    own folder and of all runs that it needs, of which other studies may need some too.
    """

    name: str
    folder: Path
    state: StudyState
    n_done: int
    n_runs: int  # that are known so far: the reported runs are named once rates are tuned
    n_bytes: int
    frozen_at: str | None
    faults: tuple[str, ...]


def studies(root: str | Path = "runs") -> Iterator[StudyEntry]:
    """Every study under `root`, by name; a damaged one is listed with what is wrong."""
    root = Path(root)
    references = find_references(root)
    runs_by_study: dict[str, set[str]] = {}
    for run, own in references.by_run.items():
        for reference in own:
            runs_by_study.setdefault(reference.study, set()).add(run)
    for folder in study_folders(root):
        needed_runs = runs_by_study.get(folder.name, set())
        n_bytes = folder_bytes(folder)
        n_bytes += sum(folder_bytes(root / run) for run in needed_runs)
        yield _study_entry(Study(root, folder), n_bytes)


def _study_entry(study: Study, n_bytes: int) -> StudyEntry:
    try:
        state, n_done, n_runs = _progress(study)
        lock = study.read_lock()
        frozen_at = None if lock is None else lock.frozen_at
        faults = ()
    except RecordError as fault:
        state, n_done, n_runs, frozen_at, faults = "damaged", 0, 0, None, (str(fault),)
    return StudyEntry(
        name=study.folder.name,
        folder=study.folder,
        state=state,
        n_done=n_done,
        n_runs=n_runs,
        n_bytes=n_bytes,
        frozen_at=frozen_at,
        faults=faults,
    )


def _progress(study: Study) -> tuple[StudyState, int, int]:
    """The state of a study, how many of its runs are done, and how many there are."""
    study.require_cells()
    cells = study.planned_cells()
    outcomes = {run: study.run_outcome(run)[0] for run in {cell.run for cell in cells}}
    n_done = sum(outcome in _ENDED for outcome in outcomes.values())
    state: StudyState = "stopped"
    if study.is_running():
        state = "running"
    elif not cells:
        state = "planned"
    elif n_done == len(outcomes) and any(cell.purpose == "reported" for cell in cells):
        state = "finished"
    elif "failed" in outcomes.values():
        state = "failed"
    return state, n_done, len(outcomes)
