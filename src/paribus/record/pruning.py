"""What no study needs, and how it is removed.

Two kinds: runs that no study refers to, and optimizer states of finished runs. A finished run is
not trained further, and to evaluate, probe, generate or export reads its weights alone. A run that
a process is at is left alone, and so is one that was given a name, unless that is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from paribus.errors import InUseError, RecordError
from paribus.record.disk import REMOVED_PREFIX, remove_folder
from paribus.record.disk_use import file_bytes, folder_bytes, optimizer_states
from paribus.record.file_names import LOCK_FILE, STATE_FILE
from paribus.record.listing import RunEntry
from paribus.record.listing import runs as run_entries
from paribus.record.lock import hold_lock, is_locked
from paribus.record.manifest import remove_file
from paribus.record.run_references import (
    Ancestors,
    RunReferences,
    Stages,
    begin_runs,
    find_references,
    is_named,
    read_chains,
)
from paribus.record.state import read_state

PruneKind = Literal["runs", "states"]
PRUNE_KINDS: tuple[PruneKind, ...] = get_args(PruneKind)


@dataclass(frozen=True)
class UnneededRun:
    """A run that no study refers to."""

    name: str
    folder: Path
    state: str
    n_steps: int  # that it has done
    n_bytes: int


@dataclass(frozen=True)
class UnneededState:
    """The optimizer states of one finished run."""

    name: str
    folder: Path
    n_bytes: int


@dataclass(frozen=True)
class PrunePlan:
    """What would be freed, and what is left alone although no study needs it."""

    root: Path
    runs: tuple[UnneededRun, ...]
    states: tuple[UnneededState, ...]
    n_leftover_bytes: int  # of what killed processes were removing
    notes: tuple[str, ...]

    @property
    def n_bytes(self) -> int:
        """All that would be freed."""
        return self.run_bytes + self.state_bytes + self.n_leftover_bytes

    @property
    def run_bytes(self) -> int:
        return sum(run.n_bytes for run in self.runs)

    @property
    def state_bytes(self) -> int:
        return sum(state.n_bytes for state in self.states)


@dataclass(frozen=True)
class PruneResult:
    """What was freed, and what could not be."""

    n_bytes: int
    n_runs: int
    n_states: int  # runs whose optimizer states were removed
    notes: tuple[str, ...]


def plan_prune(
    root: Path, kinds: Collection[PruneKind] = PRUNE_KINDS, with_names: bool = False
) -> PrunePlan:
    """What no study under `root` needs, nothing touched; RecordError where a study cannot be read,
    for then nobody knows which runs it needs.

    `with_names` also counts runs that were given a name.
    """
    references, entries = find_references(root), list(run_entries(root))
    if "runs" in kinds:
        _require_readable_studies(references)
    runs, states, notes = [], [], list[str]()
    if "runs" in kinds:
        needed_runs, notes = _needed_runs(root, entries, references, with_names)
        runs = list(_unneeded_runs(entries, needed_runs))
    if "states" in kinds:
        removed_names = {run.name for run in runs}
        states = list(_unneeded_states(entries, removed_names))
    return PrunePlan(
        root=root,
        runs=tuple(runs),
        states=tuple(states),
        n_leftover_bytes=sum(map(folder_bytes, _leftovers(root))),
        notes=tuple(notes),
    )


def _require_readable_studies(references: RunReferences) -> None:
    if references.faults:
        raise RecordError(
            "a study cannot be read, so that nobody knows which runs it needs:"
            f" {references.faults[0]}; repair or remove the study, or free optimizer states alone"
        )


def prune(plan: PrunePlan) -> PruneResult:
    """Remove what a plan names. A run that a study has begun to need since, or that a process is
    at, is left as it is; RecordError where a study cannot be read any more.
    """
    references = find_references(plan.root)
    if plan.runs:
        _require_readable_studies(references)
    notes: list[str] = []
    n_bytes = plan.n_leftover_bytes
    for leftover in _leftovers(plan.root):
        remove_folder(leftover)
    needed_runs = set(references.by_run)
    n_runs = 0
    for run in plan.runs:
        if run.name in needed_runs:
            notes.append(f"{run.name} is kept: a study needs it by now")
        elif _remove_run(run.folder, notes):
            n_runs, n_bytes = n_runs + 1, n_bytes + run.n_bytes
    n_states = 0
    for state in plan.states:
        freed = _remove_states(state.folder, notes)
        n_states, n_bytes = n_states + bool(freed), n_bytes + freed
    return PruneResult(n_bytes=n_bytes, n_runs=n_runs, n_states=n_states, notes=tuple(notes))


def _leftovers(root: Path) -> list[Path]:
    """Folders of runs that a killed process was removing."""
    return [path for path in root.glob(f"{REMOVED_PREFIX}*") if path.is_dir()]


def _needed_runs(
    root: Path, entries: Iterable[RunEntry], references: RunReferences, with_names: bool
) -> tuple[set[str], list[str]]:
    """Runs that are kept: those of studies, those that were given a name, those at work, damaged
    ones, and all that these begin from.
    """
    needed_runs, notes, named_runs = set(references.by_run), list[str](), list[str]()
    for entry in entries:
        if entry.name in needed_runs:
            continue
        if is_locked(entry.folder / LOCK_FILE):
            needed_runs.add(entry.name)
            notes.append(f"{entry.name} is kept: a process is at it")
        elif entry.faults:
            needed_runs.add(entry.name)
            notes.append(f"{entry.name} is kept: it is damaged; look at it, and remove it yourself")
        elif not with_names and is_named(entry.name, entry.folder):
            needed_runs.add(entry.name)
            named_runs.append(entry.name)
    if named_runs:
        notes.append(
            f"kept because they were given a name: {', '.join(named_runs)}; --named frees them too"
        )
    chains = read_chains(root)
    ancestors = Ancestors(chains)
    for name in list(needed_runs):
        needed_runs.update(ancestors.of(name))
    needed_runs.update(_begun_from(root, chains, needed_runs))
    return needed_runs, notes


def _begun_from(
    root: Path, chains: dict[str, Stages], needed_runs: Collection[str]
) -> Iterator[str]:
    """Runs under `root` whose checkpoint one of these was begun from."""
    for name in needed_runs:
        stages = chains.get(name)
        if stages:
            yield from begin_runs(root, stages[0].get("begin"))


def _unneeded_runs(
    entries: Iterable[RunEntry], needed_runs: Collection[str]
) -> Iterator[UnneededRun]:
    for entry in entries:
        if entry.name not in needed_runs:
            yield UnneededRun(
                name=entry.name,
                folder=entry.folder,
                state=str(entry.state),
                n_steps=(entry.last_row or {}).get("step", -1) + 1,
                n_bytes=folder_bytes(entry.folder),
            )


def _unneeded_states(
    entries: Iterable[RunEntry], removed_names: Collection[str]
) -> Iterator[UnneededState]:
    for entry in entries:
        if entry.state != "finished" or entry.name in removed_names:
            continue
        if is_locked(entry.folder / LOCK_FILE):
            continue
        n_bytes = sum(map(file_bytes, optimizer_states(entry.folder)))
        if n_bytes:
            yield UnneededState(entry.name, entry.folder, n_bytes)


def _remove_run(folder: Path, notes: list[str]) -> bool:
    try:
        with hold_lock(folder / LOCK_FILE):
            remove_folder(folder)
    except InUseError as fault:
        notes.append(f"{folder.name} is kept: {fault}")
        return False
    return True


def _remove_states(folder: Path, notes: list[str]) -> int:
    """The bytes that were freed of a run, which must still be finished."""
    freed = 0
    try:
        with hold_lock(folder / LOCK_FILE):
            state = read_state(folder / STATE_FILE)
            if state is None or state.status != "finished":
                return 0
            for path in optimizer_states(folder):
                n_bytes = file_bytes(path)
                remove_file(path.parent, path.name)
                freed += n_bytes
    except RecordError as fault:
        notes.append(f"{folder.name} keeps optimizer states: {fault}")
    return freed
