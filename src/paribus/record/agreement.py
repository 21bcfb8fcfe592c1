"""Does a study still hold what was written? What no longer agrees is told, and no verdict is read from it.

plan.json is compared with its own fingerprints and with plan.lock; every listed file with its sha256; what a run
answered with the manifest of the checkpoint that was asked. No checkpoint is read: nothing in a report comes from one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paribus.errors import RecordError
from paribus.record.address import address
from paribus.record.answers import read_head
from paribus.record.checksums import CHECKSUMS_FILE, checksums, disagreements
from paribus.record.disk import read_json
from paribus.record.folder import (
    CHECKPOINTS,
    ENVIRONMENT_FILE,
    EVALUATIONS,
    ROWS_FILE,
    RUN_FORMAT,
    SPEC_FILE,
    STATE_FILE,
    stages_of,
)
from paribus.record.frozen import Lock, design_fingerprint, plan_fingerprint
from paribus.record.manifest import MANIFEST_FILE, listed_sha256
from paribus.record.study import CELLS_FILE, LOCK_NAME, PLAN_FILE, PLAN_FORMAT, RATES_FILE, Study

WEIGHTS_FILE = "weights.safetensors"
MAX_NAMED = 3
_FILES = (PLAN_FILE, LOCK_NAME, CELLS_FILE)
_SHOWN = (RATES_FILE, "items.json", "samples.json")  # in some studies
_RUN_FILES = (SPEC_FILE, ENVIRONMENT_FILE, ROWS_FILE, STATE_FILE)


@dataclass(frozen=True)
class Agreement:
    """What of a study's files is not what was written, and how much of it could not be compared."""

    changed: tuple[str, ...] = ()
    is_older: bool = False  # the study was made before checksums were kept
    n_older: int = 0  # runs that were

    @property
    def words(self) -> str:
        """The first few of what changed; empty where nothing did."""
        more = len(self.changed) - MAX_NAMED
        return "; ".join(self.changed[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")

    @property
    def unchecked(self) -> str:
        """What was not compared, in words; empty where all was."""
        if self.is_older:
            return "It was made before checksums were kept: its files are not checked."
        n = self.n_older
        runs = "1 run was" if n == 1 else f"{n} runs were"
        return f"{runs} made before checksums were kept, and not checked." if n else ""


def agreement(study: Study, plan: Mapping[str, Any], runs: Iterable[str], open_runs: Iterable[str] = ()) -> Agreement:
    """How the files of a study, its plan as it was read, and of these runs compare with what was written.

    An open run is no result; one that was made to look open is told all the same, for a verdict may do without it.
    """
    is_older = not _is_listed(study.folder, PLAN_FILE, plan, PLAN_FORMAT)
    there = [name for name in _SHOWN if (study.folder / name).exists()]
    changed = [*_of_plan(plan, study), *(() if is_older else disagreements(study.folder, (*_FILES, *there)))]
    n_older = 0
    for name in dict.fromkeys(runs):
        found = _of_run(study.root / name)
        n_older += found is None
        changed += [f"run {name}: {fault}" for fault in found or ()]
    for name in dict.fromkeys(open_runs):
        changed += [f"run {name}: {fault}" for fault in _of_open_run(study.root / name)]
    return Agreement(tuple(dict.fromkeys(changed)), is_older, n_older)


def require_agreement_of(study: Study, plan: Mapping[str, Any], runs: Iterable[str]) -> None:
    """RecordError where a study, or one of these runs, does not hold what was written."""
    found = agreement(study, plan, runs)
    if found.changed:
        raise RecordError(f"{study.folder}: {found.words}; restore what was changed, or begin under another name")


def require_agreement_of_run(study: Study, run: str) -> None:
    """RecordError where a finished run does not hold what was written, or is another one than its name says."""
    changed = _of_run(study.root / run)
    if changed:
        raise RecordError(
            f"{study.root / run}: {'; '.join(changed[:MAX_NAMED])}; restore it, or remove that folder and run the "
            f"study again"
        )


def _is_listed(folder: Path, name: str, table: Any, least: int) -> bool:
    """Is a folder of those that list their files? One whose first file was changed says nothing about itself."""
    match table:
        case {"format": int(number)} if number >= least:
            return True
    try:
        listed = checksums(folder)
    except RecordError:
        return True
    return listed is not None and name in listed.files and listed.disagreement(folder, name) is not None


def _of_plan(plan: Mapping[str, Any], study: Study) -> Iterator[str]:
    """Where a plan is not what its fingerprints, or its lock, name."""
    own, named = plan.get("design_fingerprint"), {cell.plan for cell in study.cells()}
    if own is None and named <= {""}:
        return  # a plan of before designs had a fingerprint of their own
    if own not in (_design_of(plan), _design_of(plan, with_places=True)):
        yield f"{PLAN_FILE} does not hold the design that its fingerprint names"
    if plan.get("fingerprint") != plan_fingerprint(str(own), str(plan.get("rule")), _code(plan)):
        yield f"{PLAN_FILE} does not hold the plan that its fingerprint names"
    lock = study.lock()
    if lock is not None and not _is_of(lock, plan):
        yield f"{PLAN_FILE} is not the plan that {LOCK_NAME} holds"


def _is_of(lock: Lock, plan: Mapping[str, Any]) -> bool:
    there = (plan.get("fingerprint"), plan.get("design_fingerprint"), plan.get("rule"), _code(plan))
    return there == (lock.latest, lock.design, lock.rule, lock.code)


def _code(plan: Mapping[str, Any]) -> str:
    return str(plan["environment"].get("code"))


def _design_of(plan: Mapping[str, Any], with_places: bool = False) -> str:
    runs = {name: (arm["run"], arm["text"]) for name, arm in plan["arms"].items()}
    return design_fingerprint(plan["design"], runs, with_places)


def _of_run(folder: Path) -> tuple[str, ...] | None:
    """What of a finished run is not what was written; None of one made before checksums were kept."""
    try:
        spec = read_json(folder / SPEC_FILE)
        if not _is_listed(folder, SPEC_FILE, spec, RUN_FORMAT):
            return None
        answers = [f"{EVALUATIONS}/{path.name}" for path in sorted((folder / EVALUATIONS).glob("*.jsonl"))]
        changed = disagreements(folder, (*_RUN_FILES, *answers))
        return changed or tuple(_of_answers(folder))
    except RecordError as fault:
        return (str(fault).removeprefix(f"{folder}/"),)


def _of_open_run(folder: Path) -> tuple[str, ...]:
    """What of a run that has no result is not what was written; its rows are still being written."""
    if not (folder / SPEC_FILE).exists() and not (folder / CHECKSUMS_FILE).exists():
        return ()  # not begun
    try:
        if not _is_listed(folder, SPEC_FILE, read_json(folder / SPEC_FILE), RUN_FORMAT):
            return ()
        return disagreements(folder, (SPEC_FILE,), growing=(ROWS_FILE,))
    except RecordError as fault:
        return (str(fault).removeprefix(f"{folder}/"),)


def _of_answers(folder: Path) -> Iterator[str]:
    """Where a run is not the one its name is of, or was asked at another checkpoint than the one that is there."""
    stages = stages_of(folder)
    own, older = address(stages), address(stages, with_places=True)
    if not own.startswith(folder.name) and not older.startswith(folder.name):
        yield f"{SPEC_FILE} is of the run {own[:16]}"
    for path in sorted((folder / EVALUATIONS).glob("*.jsonl")):
        head = read_head(path)
        place = folder / CHECKPOINTS / f"step-{head.step:09}"
        if place.is_dir() and listed_sha256(place, WEIGHTS_FILE) != head.weights:
            yield f"{CHECKPOINTS}/{place.name}/{MANIFEST_FILE} is not of the weights that were measured"
